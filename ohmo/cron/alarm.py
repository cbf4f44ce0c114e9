"""Waits for a moment of the wall clock, or for a change that makes it another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

from channels.contract import Clock
from ohmo.lifecycle import within

Alarm = Callable[[datetime | None, asyncio.Event], Awaitable[None]]
"""Returns at ``until`` (None: never) or when the event is set, whichever comes first; it may return
earlier, and is asked again then."""
# seconds: a clock that was set, or a machine that slept, is noticed after so long at the latest
LOOK = 60.0


class WallAlarm:
    """Over the timers of the event loop, which know nothing of a wall clock that is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def __call__(self, until: datetime | None, changed: asyncio.Event) -> None:
        wait = LOOK if until is None else min(LOOK, (until - self._clock()).total_seconds())
        if wait > 0:
            with suppress(TimeoutError):
                await within(wait, changed.wait())
