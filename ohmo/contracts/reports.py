"""What can be asked about the store without changing it: for status, dashboard, audit and the browser chat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from channels.contract import Address
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.messages import Step
from ohmo.contracts.store import Ending, Kind, OutRow, ThreadSettings


@dataclass(frozen=True, slots=True)
class Counts:
    """Depths by (channel, state or ending), and the oldest arrival that still waits or is taken."""

    inbox: Mapping[tuple[str, str], int]
    outbox: Mapping[tuple[str, str], int]
    oldest_waiting: datetime | None
    turns_open: int
    turns_parked: int


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    thread: str
    address: Address
    person_scope: str
    title: str | None
    session_seq: int
    last_at: datetime | None
    state: Literal["idle", "ready", "running", "parked"]
    settings: ThreadSettings


@dataclass(frozen=True, slots=True)
class ArrivalInfo:
    thread: str
    seq: int
    kind: Kind
    person: str
    said_at: datetime
    state: Literal["waiting", "taken", "ended"]
    ending: Ending | None
    reason: str | None
    turn: str | None
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class StepInfo:
    seq: int
    turn: str
    at: datetime
    step: Step


HistoryItem = ArrivalInfo | StepInfo | OutRow


@dataclass(frozen=True, slots=True)
class AuditReport:
    """``ohmo inbox audit``: every accepted arrival has exactly one ending or is on its way; problems is empty when all is well."""

    accepted: int
    endings: Mapping[str, int]
    waiting: int
    taken: int
    posts: Mapping[str, int]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsageTotal:
    day: str
    model: str
    calls: int
    input: int
    cached: int
    written: int
    output: int
    micro_usd: int


class Reports(Protocol):
    """Read only; never waits for the writer."""

    async def counts(self) -> Counts: ...
    async def threads(self, *, limit: int = 100, channel: str | None = None) -> list[ThreadInfo]: ...
    async def thread(self, thread: str) -> ThreadInfo | None: ...
    async def find_thread(self, address: Address, person_scope: str = "") -> str | None: ...
    async def history(self, thread: str, *, since: int = 0, limit: int = 500) -> list[HistoryItem]:
        """Arrivals, steps and posts of one thread with seq > ``since``, in seq order. A post whose row changed state keeps its seq."""
        ...

    async def inbox(self, *, state: str | None = None, limit: int = 100) -> list[ArrivalInfo]: ...
    async def outbox(self, *, state: str | None = None, limit: int = 100) -> list[OutRow]: ...
    async def arrival(self, thread: str, seq: int) -> ArrivalInfo | None: ...
    async def usage(self, *, days: int = 30) -> list[UsageTotal]: ...
    async def audit_report(self) -> AuditReport: ...
