"""Fewer things are begun before a limit of memory is reached, and the owner is told; what was accepted waits in the store."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from ohmo.gateway.notices import Notices

log = structlog.get_logger("ohmo.memory")
HIGH, LOW = 0.85, 0.75  # of the limit: from there on it is short, and below that no longer
LOOK = 2.0  # seconds between two looks


class Narrowed(Protocol):
    def narrow(self, width: int | None) -> None: ...


class MemoryWatch:
    """``run`` is a life of the house; it ends at once where nobody set a limit. ``share``: used of what may be used, None without a limit."""

    def __init__(
        self, pool: Narrowed, notices: Notices, share: Callable[[], float | None], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._pool, self._notices, self._share, self._sleep = pool, notices, share, sleep
        self.warnings: tuple[str, ...] = ()

    async def run(self) -> None:
        while (share := await asyncio.to_thread(self._share)) is not None:
            if not self.warnings and share >= HIGH:
                await self._short(share)
            elif self.warnings and share < LOW:
                self.warnings = ()
                self._pool.narrow(None)
                log.warning("memory_is_back", used=round(share, 2))
            await self._sleep(LOOK)

    async def _short(self, share: float) -> None:
        self.warnings = ("memory is short: one turn runs at a time until less than three quarters of what ohmo may use is used",)
        self._pool.narrow(1)
        gc.collect()
        log.warning("memory_is_short", used=round(share, 2))
        await self._notices.tell(
            "memory",
            f"Memory is short: ohmo and what it runs use {share:.0%} of what they may. Until that is over one turn runs at a time; messages wait and "
            "none is lost. `ohmo status` says when it is over.",
        )
