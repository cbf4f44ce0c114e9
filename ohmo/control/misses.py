"""Wrong keys, links and signatures at the TCP door: some at once, then slowly.

All who guess are counted together, so that many addresses help nobody and there is nothing to
remember of each. A right key is looked at first and never waits, whoever guesses meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from ohmo.control.responses import Refusal

AT_ONCE = 20  # misses that are answered without a pause
PER_SECOND = 0.5  # by how many of them it grows again
_PAUSE = 2.0  # seconds
_WAITING = 64  # of 256 connections; whoever comes after them is told at once


class TooManyMisses(Refusal):
    """429, RFC 6585; ``after``: seconds for Retry-After."""

    def __init__(self, after: int) -> None:
        super().__init__(429, f"too many wrong keys or signatures; wait {after} s, send it again")
        self.after = after


class Misses:
    """``monotonic`` and ``sleep`` in seconds."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._left = float(AT_ONCE)
        self._looked = monotonic()
        self._waiting = 0

    async def count(self) -> TooManyMisses | None:
        """One more. None: say what was wrong; else this is the answer, after the pause."""
        now = self._monotonic()
        self._left = min(AT_ONCE, self._left + (now - self._looked) * PER_SECOND)
        self._looked = now
        if self._left >= 1:
            self._left -= 1
            return None
        if self._waiting < _WAITING:
            self._waiting += 1
            try:
                await self._sleep(_PAUSE)
            finally:
                self._waiting -= 1
        return TooManyMisses(int((1 - self._left) / PER_SECOND) + 1)
