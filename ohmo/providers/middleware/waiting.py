"""Tells the person who waits that somebody is still at work, before half a minute has passed in
silence."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest, Notice
from ohmo.providers.cover import Call
from ohmo.providers.streams import streaming


def waiting(call: Call, *, first: float = 25.0, then: float = 120.0) -> Call:
    """A Notice after ``first`` seconds without any event, and every ``then`` seconds further, until
    the model says something (and again after it began anew). An answer that has begun is visible by
    itself and bounded by the endpoint's ``silence``."""

    async def watched(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with streaming(call, request) as events:
            silent = True
            while True:
                if not silent:
                    event = await anext(events, None)
                else:
                    coming = asyncio.ensure_future(anext(events, None))
                    try:
                        waited, limit = 0.0, first
                        while not (await asyncio.wait((coming,), timeout=limit))[0]:
                            waited, limit = waited + limit, then
                            yield Notice(
                                line=(
                                    f"{request.model} has not answered for {waited:.0f} s. Still"
                                    " waiting."
                                )
                            )
                        event = await coming
                    finally:
                        if not coming.done():
                            coming.cancel()
                            with contextlib.suppress(asyncio.CancelledError):
                                await coming
                if event is None:
                    return
                silent = isinstance(event, Delta) and not event.text
                yield event

    return watched
