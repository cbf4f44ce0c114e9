"""Ends each ``full_auto`` of a conversation when its time is over, and says so there."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from channels.contract import Clock, Outbound
from ohmo.ambient import derived
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.reports import Reports, ThreadInfo
from ohmo.contracts.store import Store
from ohmo.lifecycle import within

CLOCK = 60.0  # seconds between two looks at a ``full_auto`` that will end


class FullAuto:
    """Ends each ``full_auto`` of a conversation when its time is over, and says so there. ``mode``:
    what holds then."""

    def __init__(self, store: Store, reports: Reports, clock: Clock, mode: str) -> None:
        self._store = store
        self._reports = reports
        self._clock = clock
        self._mode = mode
        self._begun = asyncio.Event()

    def begun(self) -> None:
        """One was chosen."""
        self._begun.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._begun.clear()
            left = [await self._look(info) for info in await self._reports.free_threads()]
            with suppress(TimeoutError):
                await within(min(left, default=3_600.0), self._begun.wait())

    async def _look(self, info: ThreadInfo) -> float:
        """Seconds until the next look; a clock may be set meanwhile. Said first: a death in between
        says it once more under the same id."""
        until, now = info.settings.free_until, self._clock()
        if until is None or info.settings.at(now).mode == "full_auto":
            return CLOCK if until is None else min((until - now).total_seconds() + 0.01, CLOCK)
        text = (
            f"`full_auto` has ended here: `{self._mode}` holds again. `/mode full_auto --i-know`"
            " begins it anew."
        )
        row = PostRow(
            derived("full_auto", info.thread, until.isoformat()),
            "notice",
            Outbound(info.address, text),
        )
        await self._store.post([row])
        await self._store.end_free(info.thread, until)
        return CLOCK
