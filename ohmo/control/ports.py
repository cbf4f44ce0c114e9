"""What control needs of the house, handed in by assembly; it knows no other room of its own floor.
What it makes of that for all its doors: the status of the house; what conversations and people are
called (as a person named them or let them in, else as they begin, or as the platform says)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

import ohmo
from channels.contract import Address, Clock
from channels.record import record
from channels.web.client import Browser
from ohmo.approvals.answering import Answerer, Outcome
from ohmo.approvals.trusting import TrustDesk
from ohmo.commands.contract import Decide
from ohmo.config.agent import Budget
from ohmo.context.usage import ContextUsage
from ohmo.contracts.agent import Event
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.mcp import McpServers
from ohmo.contracts.outbox import Asked, Remembered
from ohmo.contracts.reports import (
    ChannelStatus,
    HouseStatus,
    Replay,
    Reports,
    Spender,
    Spent,
    ThreadInfo,
    UsageTotal,
    known_cost,
    with_queues,
)
from ohmo.contracts.setup import SetUp
from ohmo.contracts.spending import Limit, Scope
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import Accepted, PersonRow, ThreadSettings
from ohmo.control.webhooks import Webhooks
from ohmo.cron.desk import CronDesk
from ohmo.database.tracing import Trace
from ohmo.memory.tidying import Tidying
from ohmo.permissions.trial import Trial


class Watch(Protocol):
    """What happens in the house, for watchers: never the truth, only a reason to look."""

    @property
    def dropped(self) -> int:
        """Events that slow watchers lost."""
        ...

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
    context: Callable[[ThreadInfo], Awaitable[ContextUsage]] | None = None
    limits: Mapping[Scope, Limit] = field(default_factory=dict[Scope, Limit])
    no_such_model: Callable[[str], Awaitable[str]] | None = None
    trace: Callable[[str], Awaitable[Trace | None]] | None = None
    setup: Callable[[], SetUp] | None = None
    tidying: Tidying | None = None
    trial: Trial | None = None
    trusting: TrustDesk | None = None
    servers: McpServers | None = None


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
    day_limit: Budget
    started: datetime


def spent_in(rows: Sequence[UsageTotal]) -> dict[str, int | float | None]:
    """Of all these together. ``usd``: None: of nothing a price is known."""
    micro_usd, unpriced = known_cost(rows)
    return {
        "usd": None if micro_usd is None else micro_usd / 1_000_000,
        "unpriced": unpriced,
        "tokens": sum(row.tokens for row in rows),
    }


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
    mode: Callable[[], str]  # where people chose none
    mcp: Callable[[], Mapping[str, int]] = dict
    #: The backend that holds, "" while it is not known; what of the network in it has to be known;
    #: a warning when one fell, else "".
    sandbox: Callable[[], tuple[str, str, str]] = lambda: ("", "", "")
    ready: bool = field(default=False)

    async def __call__(self) -> HouseStatus:
        counts = await self.reports.counts(spare=True)
        inbox: dict[str, int] = {}
        for (_, state), number in counts.inbox.items():
            inbox[state] = inbox.get(state, 0) + number
        outbox: dict[str, int] = {}
        for (_, state), number in counts.outbox.items():
            outbox[state] = outbox.get(state, 0) + number
        away = self.away()
        warnings = list(self.warnings())
        if away:
            warnings.insert(0, f"{away}; no message is accepted until that is mended.")
        sandbox, note, fell = self.sandbox()
        if fell:
            warnings.append(fell)
        if self.sessions.outage:
            warnings.append(
                f"The model cannot be reached ({self.sessions.outage}); it is tried again by"
                " itself, `ohmo doctor --live` looks closer."
            )
        rows = await self.today()  # of the UTC day, as usage is counted
        day: dict[str, int | float | None] = {
            **spent_in(rows),
            "usd_limit": self.settled.day_limit.usd,
            "tokens_limit": self.settled.day_limit.tokens,
        }
        now = self.clock()
        asking = sum(  # whose code may still be typed
            row.role == "asking" and row.expires is not None and row.expires > now
            for row in await self.people()
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
            budget={"day": day},
            warnings=tuple(warnings),
            asking=asking,
            mode=self.mode(),
            models=self.settled.models,
            mcp=self.mcp(),
            sandbox=sandbox,
            sandbox_note=note,
        )


_HOUSE, _OWNER = "ohmo itself", "owner"
_NUMBERS = [field.name for field in fields(Spent)]
NOTICES = "notices"  # the owner reads there what nobody asked for (ohmo/gateway/notices.py)


@record
class Named:
    """``who``: what tells these people apart, the name alone where that does. ``id``:
    ``CHANNEL:PERSON``, empty for the house."""

    who: str
    id: str


def title_of(info: ThreadInfo) -> str:
    """Empty while nothing was said."""
    place = info.address
    if info.title:
        return info.title
    if place.chat == NOTICES and place.channel in ("web", "house"):
        return "Notices"
    kind, colon, name = place.chat.partition(":")
    if place.channel == "house" and colon and kind in ("cron", "hook"):
        return name.partition(":")[0]  # where nobody sits: the job or the webhook that speaks there
    if place.channel == "web" and not info.beginning.words:
        return place.chat  # only reported into: as whoever sends reports there wrote it
    return info.beginning.words


class Names:
    """Of those who spent something."""

    def __init__(self, reports: Reports, people: People) -> None:
        self._reports = reports
        self._people = people

    async def of(self, totals: Sequence[UsageTotal]) -> list[tuple[UsageTotal, Named]]:
        """What one person spent in several places is one sum."""
        people = _at_home([_spender(total) for total in totals])
        spenders = dict.fromkeys(people)
        names = await self._reports.names([spender for spender in spenders if spender.account])
        for row in await self._people.people():
            if row.name:
                names[Spender(row.channel, row.account, row.person)] = row.name
        called: dict[Spender, str] = {}
        for spender in spenders:
            called[spender] = names.get(spender, "")
            if not called[spender] and not spender.account:
                # The account is not known: the name counts when the id is that of one person only.
                person = (spender.channel, spender.person)
                same = [
                    name for other, name in names.items() if (other.channel, other.person) == person
                ]
                called[spender] = same[0] if len(same) == 1 else ""
        # With the id where a name is not theirs alone or could be taken for the house or for such a
        # label, and with the account where that is not enough either.
        plain = {spender: name or _id(spender) or _HOUSE for spender, name in called.items()}
        often = Counter(plain.values())
        labels: dict[Spender, str] = {}
        for spender, name in plain.items():
            unclear = often[name] > 1 or name in (_HOUSE, _OWNER) or ":" in name
            labels[spender] = f"{name} ({_id(spender)})" if called[spender] and unclear else name
        often = Counter(labels.values())
        for spender, label in labels.items():
            if spender.account and often[label] > 1:
                labels[spender] = f"{label} in {spender.account}"
        sums: dict[tuple[str, str, Spender], UsageTotal] = {}
        for spender, total in zip(people, totals, strict=True):
            key = (total.day, total.model, spender)
            before = sums.get(key)
            numbers = {name: getattr(total, name) for name in _NUMBERS}
            if before is not None:
                numbers = {name: getattr(before, name) + numbers[name] for name in _NUMBERS}
            sums[key] = replace(
                total,
                channel=spender.channel,
                account=spender.account,
                person=spender.person,
                **numbers,
            )
        return [
            (total, Named(labels[spender], _id(spender))) for (_, _, spender), total in sums.items()
        ]


def _spender(total: UsageTotal) -> Spender:
    """A job runs with the rights of ``CHANNEL:PERSON``, whatever the place of its thread."""
    channel, colon, person = total.person.partition(":")
    if colon and channel.isidentifier():  # "@ada:example.org" is an id of Matrix
        return Spender(channel, total.account if channel == total.channel else "", person)
    if total.person in ("", _OWNER):
        return Spender("", "", total.person)
    return Spender(total.channel, total.account, total.person)


def _at_home(people: Sequence[Spender]) -> list[Spender]:
    """Who is known to be of one account only is of that one everywhere."""
    accounts: dict[tuple[str, str], set[str]] = {}
    for spender in people:
        known = accounts.setdefault((spender.channel, spender.person), set())
        if spender.account:
            known.add(spender.account)
    placed: list[Spender] = []
    for spender in people:
        known = accounts[spender.channel, spender.person]
        if not spender.account and len(known) == 1:
            placed.append(replace(spender, account=next(iter(known))))
        else:
            placed.append(spender)
    return placed


def _id(spender: Spender) -> str:
    return f"{spender.channel}:{spender.person}" if spender.channel else spender.person
