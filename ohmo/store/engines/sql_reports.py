"""The reading half of the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from channels.contract import Address
from ohmo.contracts.reports import (
    ArrivalInfo,
    AuditReport,
    Counts,
    HistoryItem,
    Spender,
    Spot,
    ThreadInfo,
    ThreadTotal,
    TurnUsage,
    UsageTotal,
)
from ohmo.contracts.store import OutRow
from ohmo.contracts.turns import Shelf
from ohmo.store import listing, naming, reports
from ohmo.store.engines.cached_answer import Sparing
from ohmo.store.statements import Driver


class SqlReports:
    """Implements ``Reports``: read only, never waits for the writer."""

    def __init__(self, driver: Driver) -> None:
        self._reader = driver
        self._ended = Sparing(self._count_ended)

    async def counts(self, *, spare: bool = False) -> Counts:
        ended = await (self._ended() if spare else self._count_ended())
        return await self._reader.read(lambda _: reports.counts(ended), slow=True)

    async def _count_ended(self) -> reports.Depths:
        return await self._reader.read(lambda _: reports.counts_of_ended(), slow=True)

    async def threads(
        self,
        *,
        limit: int = 100,
        channel: str | None = None,
        after: Spot | None = None,
        shelf: Shelf | None = None,
    ) -> list[ThreadInfo]:
        return await self._reader.read(
            lambda at: listing.threads(at, limit, channel, after, shelf), slow=True
        )

    async def free_threads(self) -> list[ThreadInfo]:
        return await self._reader.read(listing.free_threads, slow=True)

    async def thread(self, thread: str) -> ThreadInfo | None:
        return await self._reader.read(lambda at: reports.thread(at, thread))

    async def find_thread(self, address: Address, person_scope: str = "") -> str | None:
        return await self._reader.read(lambda _: reports.find_thread(address, person_scope))

    async def history(
        self, thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
    ) -> list[HistoryItem]:
        return await self._reader.read(
            lambda _: reports.history(thread, since, limit, before), slow=True
        )

    async def inbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[ArrivalInfo]:
        return await self._reader.read(lambda _: listing.inbox(state, limit, after), slow=True)

    async def outbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[OutRow]:
        return await self._reader.read(lambda _: listing.outbox(state, limit, after), slow=True)

    async def posts(self, ids: Sequence[str]) -> list[OutRow]:
        return await self._reader.read(lambda _: listing.posts(ids))

    async def last_delivery(self, channel: str, account: str) -> datetime | None:
        return await self._reader.read(lambda _: reports.last_delivery(channel, account), slow=True)

    async def arrival(self, thread: str, seq: int) -> ArrivalInfo | None:
        return await self._reader.read(lambda _: reports.arrival(thread, seq))

    async def usage(self, *, days: int = 30, by_person: bool = False) -> list[UsageTotal]:
        return await self._reader.read(lambda at: reports.usage(at, days, by_person), slow=True)

    async def names(self, wanted: Collection[Spender], *, days: int = 30) -> dict[Spender, str]:
        return await self._reader.read(lambda at: naming.names(at, wanted, days), slow=True)

    async def thread_totals(self, *, days: int = 30, limit: int = 50) -> list[ThreadTotal]:
        return await self._reader.read(lambda at: reports.thread_totals(at, days, limit), slow=True)

    async def thread_usage(self, thread: str, *, since: datetime | None = None) -> list[TurnUsage]:
        return await self._reader.read(lambda _: reports.thread_usage(thread, since), slow=True)

    async def audit_report(self) -> AuditReport:
        return await self._reader.read(lambda _: reports.audit_report(), slow=True)
