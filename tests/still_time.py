"""Time that passes only when a test says so, for whoever is handed ``sleep`` and ``now``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Settle = Callable[[Callable[[], bool]], Awaitable[None]]


class Time:
    """Waits take no time: who waits is woken in order, once nothing else is going on. ``settle``
    returns then; it is handed a question that is true as soon as there is somebody to wake, or no
    need to."""

    def __init__(self, settle: Settle) -> None:
        self.now = 0.0
        self._settle = settle
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._waiting.append((self.now + seconds, woken))
        await woken

    async def run_to(self, moment: float, enough: Callable[[], bool] = lambda: False) -> None:
        """``enough`` ends it early."""
        while True:
            await self._settle(lambda: enough() or self._somebody())
            if enough():
                return
            due = (
                min(self._waiting, key=lambda one: one[0])
                if self._somebody()
                else (float("inf"), None)
            )
            if due[0] > moment or due[1] is None:
                self.now = moment
                return
            self._waiting.remove(due)
            self.now = max(self.now, due[0])
            due[1].set_result(None)

    def _somebody(self) -> bool:
        self._waiting = [one for one in self._waiting if not one[1].done()]
        return bool(self._waiting)
