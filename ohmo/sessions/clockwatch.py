"""Notices that somebody has set the clock, and moves along what waits for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from channels.contract import Clock
from channels.errors import Unavailable

log = structlog.get_logger("ohmo.clock")
JUMP = 300.0  # seconds that a clock may drift or be corrected by
LOOK = 5.0  # seconds between two looks


class Clockwatch:
    """``rebase`` moves the store's times by seconds (None: by what the newest row tells) and returns by how many. ``monotonic`` is never set."""

    def __init__(
        self, clock: Clock, rebase: Callable[[float | None], Awaitable[float]], *, monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._clock, self._rebase, self._monotonic, self._sleep = clock, rebase, monotonic, sleep

    async def run(self) -> None:
        """Until cancelled. A clock that was set back while nobody ran is noticed by the newest row."""
        await self._move(None)
        wall, steady = self._clock(), self._monotonic()
        while True:
            await self._sleep(LOOK)
            jump = (self._clock() - wall).total_seconds() - (self._monotonic() - steady)
            if abs(jump) > JUMP and not await self._move(jump):
                continue  # the store is away: the same jump is seen again
            wall, steady = self._clock(), self._monotonic()

    async def _move(self, seconds: float | None) -> bool:
        try:
            moved = await self._rebase(seconds)
        except Unavailable as error:
            log.error("store_unavailable", doing="rebase", error=str(error))
            return False
        if moved:
            log.warning("clock_was_set", seconds=round(moved, 1))
        return True
