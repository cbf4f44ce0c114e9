"""Tries again what may succeed the next time: overloaded, timed out, cut off."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from channels.record import record
from ohmo.contracts.errors import CutOff, Overloaded, ProviderError, TimedOut
from ohmo.contracts.provider import ModelEvent, ModelRequest, Notice, Reply, Restarted
from ohmo.providers.cover import Call
from ohmo.providers.streams import streaming


@record
class Patience:
    """``tries``: calls in all. ``deadline``: seconds from the first try after which no new try
    begins. ``first``: seconds before the second try; doubled for each further one, with jitter
    between half and the whole. An endpoint's own Retry-After is honoured instead."""

    tries: int = 4
    deadline: float = 600.0
    first: float = 1.0
    tell_from: float = 3.0  # shorter waits are not worth a line to the person
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


def retry(call: Call, patience: Patience | None = None) -> Call:
    """After a try that had already said something the next one begins with ``Restarted``."""
    rule = patience or Patience()

    async def retried(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        started = rule.clock()
        for number in range(1, rule.tries + 1):
            said = False
            try:
                async with streaming(call, request) as events:
                    async for event in events:
                        yield event
                        said = said or bool(event.text if not isinstance(event, Reply) else False)
                return
            except (Overloaded, TimedOut, CutOff) as error:
                wait = _wait(rule, number, error)
                if number == rule.tries or rule.clock() + wait - started > rule.deadline:
                    raise
                if said:
                    yield Restarted()
                if wait >= rule.tell_from or number == 2:
                    yield Notice(
                        line=f"{error} Trying again in {wait:.0f} s ({number + 1} of {rule.tries})."
                    )
            await rule.sleep(wait)

    return retried


def _wait(rule: Patience, number: int, error: ProviderError) -> float:
    asked = error.retry_after if isinstance(error, Overloaded) else None
    return (
        asked if asked is not None else rule.first * 2 ** (number - 1) * (0.5 + 0.5 * rule.jitter())
    )
