"""Collects the one true answer about the house."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import ohmo
from channels.contract import Clock
from ohmo.config.models import Budget
from ohmo.contracts.reports import Reports, UsageTotal, known_cost
from ohmo.contracts.status import HouseStatus, with_queues
from ohmo.contracts.store import PersonRow
from ohmo.gateway.switchboard import Switchboard
from ohmo.sessions.pool import Pool


@dataclass(slots=True)
class Truth:
    """``ready`` is set by the daemon when store, sessions and control are up. ``away``: why nothing
    can be stored, empty while everything is well."""

    reports: Reports
    pool: Pool
    board: Switchboard
    provider: str
    model: str
    started: datetime
    warnings: Callable[[], tuple[str, ...]]
    cron: Callable[[], Mapping[str, int | float | str | None]]
    limit: Budget  # of a day
    away: Callable[[], str]
    today: Callable[[], Awaitable[Sequence[UsageTotal]]]
    people: Callable[[], Awaitable[Sequence[PersonRow]]]
    clock: Clock
    mode: str
    models: tuple[str, ...]
    ready: bool = field(default=False)

    async def _today(self) -> Mapping[str, int | float | None]:
        """Of the UTC day, as usage is counted."""
        rows = await self.today()
        micro_usd, unpriced = known_cost(rows)
        usd = None if micro_usd is None else micro_usd / 1_000_000
        tokens = sum(row.tokens for row in rows)
        limits = {"usd_limit": self.limit.usd, "tokens_limit": self.limit.tokens}
        return {"usd": usd, "unpriced": unpriced, "tokens": tokens, **limits}

    async def _asking(self) -> int:
        """Whose code may still be typed."""
        now = self.clock()
        return sum(
            row.role == "asking" and row.expires is not None and row.expires > now
            for row in await self.people()
        )

    async def __call__(self) -> HouseStatus:
        counts = await self.reports.counts(spare=True)
        inbox: dict[str, int] = {}
        for (_, state), number in counts.inbox.items():
            inbox[state] = inbox.get(state, 0) + number
        outbox: dict[str, int] = {}
        for (_, state), number in counts.outbox.items():
            outbox[state] = outbox.get(state, 0) + number
        away = self.away()
        warnings = (
            *((f"{away}; no message is accepted until that is mended.",) if away else ()),
            *self.warnings(),
        )
        if self.pool.outage:
            warnings = (
                *warnings,
                (
                    f"The model cannot be reached ({self.pool.outage}); it is tried again by"
                    " itself, `ohmo doctor --live` looks closer."
                ),
            )
        return HouseStatus(
            ready=self.ready and not away,
            version=ohmo.__version__,
            started=self.started,
            provider=self.provider,
            model=self.model,
            channels=with_queues(self.board.report(), counts),
            inbox=inbox,
            outbox=outbox,
            oldest_waiting=counts.oldest_waiting,
            turns_running=self.pool.running,
            turns_parked=counts.turns_parked,
            cron=self.cron(),
            budget={"day": await self._today()},
            warnings=warnings,
            asking=await self._asking(),
            mode=self.mode,
            models=self.models,
        )
