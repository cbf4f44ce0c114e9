"""Tells the person who waits that a model is silent, or that it is not asked yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ohmo.contracts.provider import Call, Link, ModelEvent, ModelRequest, Notice, Queued, Reply
from ohmo.providers.middleware.link import LinkManifest
from ohmo.providers.wire_parts import says_something, streaming


def waiting(*, first: float = 25.0, then: float = 120.0) -> Link:
    """A Notice after ``first`` seconds without any event, and every ``then`` seconds further, until
    the model says something (and again after it began anew). An answer that has begun is visible by
    itself and bounded by the endpoint's ``silence``; of a request that is ``Queued`` its own line
    is told."""

    async def watched(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        async with streaming(ask, request) as events:
            silent, queued = True, False
            while True:
                if queued or not silent:
                    event = await anext(events, None)
                else:
                    coming = asyncio.ensure_future(anext(events, None))
                    try:
                        waited, limit = 0.0, first
                        while not (await asyncio.wait((coming,), timeout=limit))[0]:
                            waited, limit = waited + limit, then
                            silence = f"{request.model} has not answered for {waited:.0f} s."
                            yield Notice(f"{silence} Still waiting.")
                        event = await coming
                    finally:
                        if not coming.done():
                            coming.cancel()
                            with contextlib.suppress(asyncio.CancelledError):
                                await coming
                if event is None:
                    return
                if isinstance(event, Queued):
                    queued = bool(event.line)
                    if queued:
                        yield Notice(event.line)
                    continue
                silent = not (isinstance(event, Reply) or says_something(event))
                yield event

    return watched


LINK = LinkManifest("waiting", lambda parts: waiting())  # noqa: ARG005
