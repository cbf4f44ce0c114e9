"""Closes what it iterates: a call that is left early must not keep a connection open until the
collector comes by."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from ohmo.contracts.errors import BadKey, CutOff, OutOfReach, ProviderError
from ohmo.contracts.provider import ModelEvent, ModelRequest
from ohmo.providers.cover import Call


@asynccontextmanager
async def streaming(call: Call, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
    events = call(request)
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


BROKEN = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)
"""What reading an answer raises when it is not of the documented form; an SDK hands on whatever
JSON it was sent."""


def no_answer(where: str, error: Exception) -> ProviderError:
    """One of BROKEN in the model's own words. ``where``: what the line begins with. A key that no
    header can carry fails before anything is sent."""
    if isinstance(error, UnicodeEncodeError) and error.encoding == "ascii":
        return BadKey(
            f"{where}: the key holds a character that no key has; set the profile's api_key"
        )
    return CutOff(
        f"{where}: what it sent is no answer ({type(error).__name__}: {str(error)[:200]})"
    )


def out_of_reach(where: str, error: BaseException) -> OutOfReach:
    """What kept a connection from being made, by the first cause that says it."""
    causes, cause = list[BaseException](), error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    why = str(error.__cause__ or error)
    if any(isinstance(one, ConnectionRefusedError) for one in causes):
        why = "the connection is refused: nothing listens there"
    elif any(isinstance(one, socket.gaierror) for one in causes):
        why = "its name is not known"
    return OutOfReach(f"{where}: cannot be reached ({why})")


_LEAST, _PER_TOKEN = (
    4_000_000,
    100,
)  # characters; no tokenizer makes a hundred of one token on average


class Measure:
    """Ends an answer that does not end: it may be no longer than the tokens that were asked for can
    be."""

    def __init__(self, request: ModelRequest) -> None:
        self._model = request.model
        self._left = max(_LEAST, request.max_output * _PER_TOKEN)

    def count(self, piece: str) -> None:
        """Raises CutOff."""
        self._left -= len(piece)
        if self._left < 0:
            raise CutOff(f"{self._model}: the answer is longer than anything that was asked for")
