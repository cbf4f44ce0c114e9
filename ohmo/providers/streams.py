"""What the reading of every endpoint's answer shares: it is closed when it is left early, it ends,
and arguments of tool calls are read as models really write them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from ohmo.contracts.errors import CutOff
from ohmo.contracts.messages import UNREADABLE, Json
from ohmo.contracts.provider import ModelEvent, ModelRequest
from ohmo.providers.manifest import Call


@asynccontextmanager
async def streaming(call: Call, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
    """A call that is left early must not keep a connection open until the collector comes by."""
    events = call(request)
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


# Characters: an answer may always have this many; no tokenizer makes a hundred of one token on
# average.
_LEAST = 4_000_000
_PER_TOKEN = 100


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


def arguments(text: str) -> dict[str, Json]:
    """The object in ``text``; empty text is an empty object. What cannot be read becomes
    ``{UNREADABLE: text}``, which no tool's input accepts, so that the model gets an error result
    that quotes what it wrote."""
    for candidate in (text.strip() or "{}", *_repairs(text)):
        try:
            value: object = json.loads(candidate)
            if isinstance(value, str):  # an object that was stringified twice
                value = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return cast("dict[str, Json]", value)
    return {UNREADABLE: text}


def _repairs(text: str) -> list[str]:
    """Only repairs that cannot change a value: a code fence around, raw control characters in
    strings, a comma before a closing bracket."""
    bare = re.sub(r"^\s*```(?:json)?\s*|\s*```\s*$", "", text).strip()
    found = [bare]
    with contextlib.suppress(ValueError, RecursionError):
        found.append(json.dumps(json.loads(bare, strict=False)))
    found.append(_without_trailing_commas(bare))
    return found


def _without_trailing_commas(text: str) -> str:
    kept: list[str] = []
    quoted = escaped = False
    for letter in text:
        if quoted:
            quoted = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            quoted = True
        elif letter in "}]":
            while kept and (kept[-1].isspace() or kept[-1] == ","):
                kept.pop()
        kept.append(letter)
    return "".join(kept)
