"""Tells the owner that nothing can be stored while it is so, past the store, and that it is
over."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from channels.contract import Outbound
from ohmo.ambient import NewId
from ohmo.contracts.status import OwnerNotices

log = structlog.get_logger("ohmo.store")
AGAIN = 600.0  # seconds in which a store that comes and goes is told of once


class Watched(Protocol):
    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None: ...


class StoreWatch:
    """``say_now`` speaks past the store; whether it was said."""

    def __init__(
        self,
        store: Watched,
        notices: OwnerNotices,
        say_now: Callable[[Outbound, str], Awaitable[bool]],
        new_id: NewId,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._notices = notices
        self._say_now = say_now
        self._new_id = new_id
        self._monotonic = monotonic
        self._since = self._told = float("-inf")

    async def run(self) -> None:
        """Until cancelled."""
        await self._store.watch(self._changed)

    async def _changed(self, away: str) -> None:
        now = self._monotonic()
        if not away:
            await self._over(now)
            return
        self._since = now
        log.error("store_away", why=away)
        if now - self._told >= AGAIN:
            self._told = now
            text = (
                f"Nothing can be stored: {away}. No message is accepted until that is mended; then"
                " ohmo goes on by itself and reads what was said meanwhile."
            )
            place = self._notices.owner_place()
            said = await self._say_now(Outbound(place, text), self._new_id())
            log.warning("owner_told_past_the_store", said=said, channel=place.channel)

    async def _over(self, now: float) -> None:
        lasted = round(now - self._since)
        log.warning("store_is_back", seconds=lasted)
        span = f"{lasted} s" if lasted < 120 else f"{lasted // 60} minutes"
        await self._notices.tell(
            "store away",
            f"Messages can be stored again; for {span} they could not be. What was said meanwhile"
            " is read now.",
        )
