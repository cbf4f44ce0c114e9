"""What control needs of the house, handed in by assembly; it knows no other room of its own
floor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol

from channels.contract import Address
from channels.record import record
from channels.web.client import Browser
from ohmo.approvals.answering import Answerer, Outcome
from ohmo.commands.contract import Decide
from ohmo.contracts.agent import Event
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.outbox import Asked, Remembered
from ohmo.contracts.reports import HouseStatus, Replay, Reports, ThreadInfo
from ohmo.contracts.setup import SetUp
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import Accepted, PersonRow, ThreadSettings
from ohmo.control.webhooks import Webhooks
from ohmo.cron.desk import CronDesk


class Watch(Protocol):
    """What happens in the house, for watchers: never the truth, only a reason to look."""

    def events(self) -> AbstractContextManager[AsyncIterator[tuple[str, Event]]]:
        """Thread and event of every running turn from now on; bounded, the oldest are dropped."""
        ...

    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        """As ``Store.listen``: ``hear`` runs on the event loop after commits; the result ends
        it."""
        ...


class Approvals(Protocol):
    """Part of ``ohmo.approvals.answering.Approvals``."""

    async def open_questions(self, thread: str | None = None) -> list[Asked]: ...
    async def answer(self, decision: Decide, by: Answerer) -> Outcome: ...
    async def remembered(self) -> list[Remembered]: ...
    async def revoke_grant(self, id: str) -> bool:
        """False: there is no such permission."""
        ...


class People(Protocol):
    async def people(self) -> list[PersonRow]: ...
    async def pair(
        self, code: str, role: Literal["guest", "user", "admin"] | None = None
    ) -> PersonRow | None:
        """Lets in who was given this code, tells them, and takes up what they had said; None:
        nobody was, or it is too late. ``role`` None: a guest, unless this is the owner's first."""
        ...

    async def revoke(self, channel: str, account: str, person: str) -> bool: ...


class Repair(Protocol):
    """Part of the store's own protocol."""

    async def retry_arrival(self, thread: str, seq: int) -> bool: ...
    async def retry_post(self, id: str) -> bool: ...
    async def drop_post(self, id: str) -> bool: ...


class Keeping(Protocol):
    """Part of the store's own protocol."""

    async def choose(self, thread: str, settings: ThreadSettings) -> bool: ...
    async def forget(self, thread: str) -> bool: ...


@record
class Ports:
    """``publish_wake`` returns after the commit; with settings, they are the thread's before its
    turn starts. Raises Unavailable. ``parse_address`` reads ``CHANNEL:REST`` and raises ValueError
    with one line. ``browser``: None when the web channel is off. ``log``: the file of JSON lines,
    when there is one. ``no_such_model``: one line about a model that is not there, empty for one
    that may be. ``setup``: made when somebody first asks for it."""

    reports: Reports
    status: Callable[[], Awaitable[HouseStatus]]
    watch: Watch
    publish_wake: Callable[[Wake, ThreadSettings | None], Awaitable[Accepted]]
    approvals: Approvals
    people: People
    repair: Repair
    keeping: Keeping
    parse_address: Callable[[str], Address]
    browser: Browser | None
    log: Path | None = None
    cron: CronDesk | None = None
    hooks: Webhooks | None = None
    replay: Callable[[ThreadInfo], Awaitable[Replay]] | None = None
    no_such_model: Callable[[str], Awaitable[str]] | None = None
    setup: Callable[[], SetUp] | None = None
