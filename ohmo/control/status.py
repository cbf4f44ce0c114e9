"""Reports what is so in the house now: what ``ohmo status``, ``/status`` and the page show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import ohmo
from channels.contract import Clock
from channels.record import record
from ohmo.config.models import Budget
from ohmo.contracts.reports import Reports, UsageTotal, known_cost
from ohmo.contracts.status import ChannelStatus, HouseStatus, with_queues
from ohmo.contracts.turns import PersonRow


class Sessions(Protocol):
    """Part of the pool of sessions."""

    @property
    def running(self) -> int:
        """Turns at this moment."""
        ...

    @property
    def outage(self) -> str:
        """Why the model cannot be reached; "" when it can."""
        ...


@record
class Settled:
    """What does not change while the house lives."""

    provider: str  # which one was chosen, and why
    model: str
    models: tuple[str, ...]
    mode: str
    day_limit: Budget
    started: datetime


@dataclass(slots=True)
class StatusReporter:
    """``ready`` is set by the daemon when store, sessions and control are up."""

    settled: Settled
    reports: Reports
    sessions: Sessions
    channels: Callable[[], Mapping[str, ChannelStatus]]
    cron: Callable[[], Mapping[str, int | float | str | None]]
    away: Callable[[], str]  # why nothing can be stored; "" while everything is well
    warnings: Callable[[], tuple[str, ...]]
    today: Callable[[], Awaitable[Sequence[UsageTotal]]]
    people: Callable[[], Awaitable[Sequence[PersonRow]]]
    clock: Clock
    ready: bool = field(default=False)

    async def _today(self) -> Mapping[str, int | float | None]:
        """Of the UTC day, as usage is counted."""
        rows = await self.today()
        micro_usd, unpriced = known_cost(rows)
        usd = None if micro_usd is None else micro_usd / 1_000_000
        tokens = sum(row.tokens for row in rows)
        limits = {
            "usd_limit": self.settled.day_limit.usd,
            "tokens_limit": self.settled.day_limit.tokens,
        }
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
        if self.sessions.outage:
            warnings = (
                *warnings,
                (
                    f"The model cannot be reached ({self.sessions.outage}); it is tried again by"
                    " itself, `ohmo doctor --live` looks closer."
                ),
            )
        return HouseStatus(
            ready=self.ready and not away,
            version=ohmo.__version__,
            started=self.settled.started,
            provider=self.settled.provider,
            model=self.settled.model,
            channels=with_queues(self.channels(), counts),
            inbox=inbox,
            outbox=outbox,
            oldest_waiting=counts.oldest_waiting,
            turns_running=self.sessions.running,
            turns_parked=counts.turns_parked,
            cron=self.cron(),
            budget={"day": await self._today()},
            warnings=warnings,
            asking=await self._asking(),
            mode=self.settled.mode,
            models=self.settled.models,
        )
