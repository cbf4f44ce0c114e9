"""What can be asked about the house without changing it: reports of the store (for status,
dashboard, audit and the browser chat), the state of each part, and how the owner is told of what
went wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Literal, Protocol

from channels.contract import Address
from channels.record import record
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.messages import Step, Tokens
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.turns import Ending, Kind, Shelf, ThreadSettings


@record
class Counts:
    """Depths by (channel, state or ending), and the oldest arrival that still waits or is taken."""

    inbox: Mapping[tuple[str, str], int]
    outbox: Mapping[tuple[str, str], int]
    oldest_waiting: datetime | None
    turns_open: int
    turns_parked: int
    #: The oldest that waits or is taken, by channel.
    oldest: Mapping[str, datetime] = field(default_factory=dict[str, datetime])


@record
class Beginning:
    """How a conversation begins, as far as anything of it is kept."""

    words: str = ""  # at most 80 characters
    person: str = ""  # empty: nobody, a job or a webhook spoke first
    name: str = ""  # of the person, as the platform last gave it


@record
class ThreadInfo:
    thread: str
    address: Address
    person_scope: str
    title: str | None  # as a person named it
    session_seq: int
    last_at: datetime | None
    state: Literal["idle", "ready", "running", "parked"]
    settings: ThreadSettings
    beginning: Beginning = field(default_factory=Beginning)


@record
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
    stored: datetime | None = None
    ended: datetime | None = None


@record
class StepInfo:
    seq: int
    turn: str
    at: datetime
    step: Step


@record
class SessionInfo:
    """One conversation of a thread. ``session``: number of its first step; ``words``: how it began,
    at most 200 characters; ``last``: when something was said in it."""

    session: int
    words: str
    last: datetime


@record
class Replay:
    """A session made again from its log. ``calls``: of the model; ``same``: whose request comes out
    byte for byte as it was sent; ``unrecorded``: of which nothing was kept to compare; ``judged``:
    tool calls whose permission was decided again, by today's rules. ``difference``: the first one,
    in words, at step ``seq``."""

    thread: str
    calls: int
    same: int
    unrecorded: int
    judged: int
    difference: str | None = None
    seq: int | None = None


HistoryItem = ArrivalInfo | StepInfo | OutRow


@record
class AuditReport:
    """``ohmo inbox audit``: every accepted arrival has exactly one ending or is on its way;
    problems is empty when all is well."""

    accepted: int
    endings: Mapping[str, int]
    waiting: int
    taken: int
    posts: Mapping[str, int]
    problems: tuple[str, ...]


@record
class Spent(Tokens):
    """What some calls of models took together: tokens, and millionths of a US dollar of those calls
    whose price is known; ``unpriced`` counts the others."""

    calls: int
    input: int
    cached: int
    written: int
    output: int
    micro_usd: int
    unpriced: int


def known_cost(rows: Sequence[Spent]) -> tuple[int | None, int]:
    """Of all rows: millionths of a US dollar, None when no price is known, and the calls whose
    price is not."""
    micro_usd = sum(row.micro_usd for row in rows)
    unpriced = sum(row.unpriced for row in rows)
    return None if unpriced and not micro_usd else micro_usd, unpriced


@record
class UsageTotal(Spent):
    """Of one UTC day (YYYY-MM-DD) and model; ``person`` is empty where people are not told apart,
    and for what the house itself asked.

    ``channel`` and ``account``: where the person spoke, because an id means somebody only there."""

    day: str
    model: str
    person: str = ""
    channel: str = ""
    account: str = ""


@record
class Share(Spent):
    """Of one UTC day, purpose, or job (its id; empty: of no job)."""

    name: str


@record
class Spender:
    """Whose id stands in the books, and in which account of which channel."""

    channel: str
    account: str
    person: str


@record
class ThreadTotal(Spent):
    """What one conversation cost; ``thread`` is empty for what the house itself asked."""

    thread: str


@record
class TurnUsage(Spent):
    """What one turn cost so far, by model."""

    turn: str
    model: str


@record
class Spot:
    """Where a list that is newest first goes on: behind the item that stood here. ``at``: ms UTC.
    What moved up meanwhile is at the list's top, so going on from a spot leaves nothing out."""

    group: int
    at: int
    id: str
    seq: int = 0


def spot_of(item: ThreadInfo | ArrivalInfo | OutRow) -> Spot:
    """The spot of an item of ``threads``, ``inbox`` or ``outbox``."""
    match item:
        case ThreadInfo():
            return Spot(0, _ms(item.last_at), item.thread)
        case ArrivalInfo(state="ended"):
            return Spot(2, _ms(item.ended), item.thread, item.seq)
        case ArrivalInfo():
            return Spot(
                0 if item.state == "waiting" else 1, _ms(item.stored), item.thread, item.seq
            )
        case OutRow(ended=None):
            return Spot(0, _ms(item.started), item.row.id)
        case OutRow():
            return Spot(1, _ms(item.ended), item.row.id)


def _ms(at: datetime | None) -> int:
    return 0 if at is None else round(at.timestamp() * 1000)


class Reports(Protocol):
    """Read only; never waits for the writer."""

    async def counts(self, *, spare: bool = False) -> Counts:
        """``spare``: for who asks all the time; what has ended was counted a moment ago, the longer
        ago the more there is."""
        ...

    async def threads(
        self,
        *,
        limit: int = 100,
        channel: str | None = None,
        after: Spot | None = None,
        shelf: Shelf | None = None,
    ) -> list[ThreadInfo]:
        """Newest first. ``shelf`` open: also those that were never put anywhere."""
        ...

    async def free_threads(self) -> list[ThreadInfo]:
        """Those with a ``full_auto`` that ends, or has ended."""
        ...

    async def thread(self, thread: str) -> ThreadInfo | None: ...
    async def threads_of(self, threads: Collection[str]) -> dict[str, ThreadInfo]:
        """These threads by id, in one question; unknown ones are left out."""
        ...

    async def find_thread(self, address: Address, person_scope: str = "") -> str | None: ...
    async def history(
        self, thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
    ) -> list[HistoryItem]:
        """Arrivals, steps and posts of one thread with seq > ``since``, in seq order. A post whose
        row changed state keeps its seq. With ``before`` the last ones below that number instead of
        the first ones."""
        ...

    async def sessions(self, thread: str) -> list[SessionInfo]:
        """Those of the thread in which somebody spoke, without the present one; who spoke last
        first."""
        ...

    async def inbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[ArrivalInfo]:
        """What waits, what is taken, what ended last; each newest first. ``state``: a state or an
        ending."""
        ...

    async def outbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[OutRow]:
        """What is on its way, then what ended last; each newest first."""
        ...

    async def posts(self, ids: Sequence[str]) -> list[OutRow]:
        """These rows as they are now; unknown ids are left out."""
        ...

    async def last_delivery(self, channel: str, account: str) -> datetime | None:
        """When the last of what is still kept was taken by the platform."""
        ...

    async def arrival(self, thread: str, seq: int) -> ArrivalInfo | None: ...
    async def usage(self, *, days: int = 30, by_person: bool = False) -> list[UsageTotal]:
        """By day and model, and by person when asked for."""
        ...

    async def usage_by(
        self, what: Literal["day", "purpose", "job"], *, days: int = 30
    ) -> list[Share]:
        """Days in their order; purposes and jobs the dearest first."""
        ...

    async def names(self, wanted: Collection[Spender]) -> dict[Spender, str]:
        """What the platform called these people when they last spoke; who is not known is left
        out."""
        ...

    async def thread_totals(self, *, days: int = 30, limit: int = 50) -> list[ThreadTotal]:
        """The conversations that cost most in these days, the dearest first; of equal cost the one
        with more tokens."""
        ...

    async def thread_usage(self, thread: str, *, since: datetime | None = None) -> list[TurnUsage]:
        """Of the turns of one thread that spent something on the UTC day of ``since`` or later."""
        ...

    async def audit_report(self) -> AuditReport: ...


ChannelState = Literal[
    "starting", "connected", "reconnecting", "auth_failed", "conflict", "standby", "failed", "off"
]


@record
class ChannelStatus:
    """``connected`` is true health: an event or heartbeat within the platform's interval and an
    authenticated call that succeeded in the last ten minutes (``last_call``). ``detail``: one line,
    why not and what to do. ``waiting``: messages without an answer, the oldest since
    ``oldest_waiting``; ``outgoing`` posts are on their way, ``dead``: what could not be answered or
    delivered. Accounts of a platform share these."""

    state: ChannelState
    last_event: datetime | None
    last_delivery: datetime | None
    detail: str
    last_call: datetime | None = None
    waiting: int = 0
    oldest_waiting: datetime | None = None
    outgoing: int = 0
    dead: int = 0


def with_queues(channels: Mapping[str, ChannelStatus], counts: Counts) -> dict[str, ChannelStatus]:
    """By label (``slack``, ``slack/work``), each with what waits for it."""

    def of(rows: Mapping[tuple[str, str], int], name: str, *states: str) -> int:
        return sum(rows.get((name, state), 0) for state in states)

    channels_with_queues: dict[str, ChannelStatus] = {}
    for label, channel in channels.items():
        name = label.partition("/")[0]
        channels_with_queues[label] = replace(
            channel,
            waiting=of(counts.inbox, name, "waiting", "taken"),
            oldest_waiting=counts.oldest.get(name),
            outgoing=of(counts.outbox, name, "ready", "sending"),
            dead=of(counts.inbox, name, "dead") + of(counts.outbox, name, "dead"),
        )
    return channels_with_queues


@record
class HouseStatus:
    """``ready``: store open, sessions claiming, control answering; channels have their own state.
    ``asking``: people whose code waits for the owner."""

    ready: bool
    version: str
    started: datetime
    provider: str
    model: str
    channels: Mapping[str, ChannelStatus]
    inbox: Mapping[str, int]
    outbox: Mapping[str, int]
    oldest_waiting: datetime | None
    turns_running: int
    turns_parked: int
    cron: Mapping[str, int | float | str | None]  # lag_seconds, next
    #: "day": usd (None: not known) and tokens spent, unpriced calls, limits or None
    budget: Mapping[str, Mapping[str, int | float | None]]
    warnings: tuple[str, ...] = ()
    asking: int = 0
    mode: str = "default"  # of a conversation that chose none
    models: tuple[str, ...] = ()  # small to large
    #: MCP servers by their state, and "off", tools that wait for the owner; none: empty
    mcp: Mapping[str, int] = field(default_factory=dict[str, int])
    sandbox: str = ""  # the backend that holds around commands; "": not known yet
    sandbox_note: str = ""  # what of the network in it has to be known


class OwnerNotices(Protocol):
    """``ohmo.gateway.notices`` carries it out."""

    async def tell(self, incident: str, text: str) -> bool:
        """``incident`` names it, so that it is told once. False: told before, or nobody can be
        told."""
        ...

    def over(self, incident: str) -> None:
        """The incident has ended; the next one of this name is told at once."""
        ...

    def owner_place(self) -> Address:
        """Where the owner reads now."""
        ...
