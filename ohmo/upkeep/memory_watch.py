"""Fewer things are begun before a limit of memory is reached, and the owner is told; what was
accepted waits in the store."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from ohmo.contracts.status import OwnerNotices

log = structlog.get_logger("ohmo.memory")
HIGH, LOW = 0.85, 0.75  # of the limit: from there on it is short, and below that no longer
LOOK = 2.0  # seconds between two looks
WARNING = (
    "memory is short: one turn runs at a time until less than three quarters of what ohmo may use"
    " is used"
)


class Narrowed(Protocol):
    def narrow(self, width: int | None) -> None:
        """At most so many turns begin beside each other from now on; None: as many as before."""
        ...


class MemoryWatch:
    """``share``: used of what may be used, 0 to 1; None without a limit. ``sleep`` waits so many
    seconds."""

    def __init__(
        self,
        pool: Narrowed,
        notices: OwnerNotices,
        share: Callable[[], float | None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pool = pool
        self._notices = notices
        self._share = share
        self._sleep = sleep
        self._is_short = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """For the status."""
        return (WARNING,) if self._is_short else ()

    async def run(self) -> None:
        """Until cancelled, or at once where there is no limit."""
        while (share := await asyncio.to_thread(self._share)) is not None:
            if not self._is_short and share >= HIGH:
                await self._narrow(share)
            elif self._is_short and share < LOW:
                self._widen(share)
            await self._sleep(LOOK)

    def _widen(self, share: float) -> None:
        self._is_short = False
        self._pool.narrow(None)
        log.warning("memory_is_back", used=round(share, 2))

    async def _narrow(self, share: float) -> None:
        self._is_short = True
        self._pool.narrow(1)
        gc.collect()
        log.warning("memory_is_short", used=round(share, 2))
        await self._notices.tell(
            "memory",
            f"Memory is short: ohmo and what it runs use {share:.0%} of what they may. Until that"
            " is over one turn runs at a time; messages wait and none is lost. `ohmo status` says"
            " when it is over.",
        )
