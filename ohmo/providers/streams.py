"""Closes what it iterates: a call that is left early must not keep a connection open until the collector comes by."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

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
