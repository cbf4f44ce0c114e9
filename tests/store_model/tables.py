"""The tables of the model: frozen rows in plain dictionaries, so that a transaction is a copy of
the dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timedelta
from typing import TypeVar

from channels.contract import Address, Inbound, Receipt
from channels.record import record
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import JobRow, OccurrenceRow
from ohmo.contracts.errors import Conflict, LeaseLost
from ohmo.contracts.inwriter import Closing
from ohmo.contracts.messages import CallResult, CallStarted, Step, Usage
from ohmo.contracts.outbox import Ask, Grant, OutRow, PartState, PostRow
from ohmo.contracts.provider import Payer
from ohmo.contracts.store import Hint
from ohmo.contracts.tool import BegunUnder
from ohmo.contracts.trust import Trust
from ohmo.contracts.turns import Checkpoint, Claim, Ending, Kind, PersonRow, ThreadSettings
from ohmo.store.statements import Hear, Listeners
from ohmo.store.threads import thread_id

K = TypeVar("K")


@record
class Paid:
    day: str
    turn: str
    thread: str
    person: str
    usage: Usage
    payer: Payer


@record
class Thread:
    id: str
    address: Address
    scope: str
    session_seq: int = 0
    settings: ThreadSettings = field(default_factory=ThreadSettings)
    next_seq: int = 1
    last_at: datetime | None = None
    ready_at: datetime | None = None
    owner: str | None = None
    until: datetime | None = None
    generation: int = 0
    begins: int = 0


@record
class Letter:
    thread: str
    seq: int
    sort: str
    kind: Kind
    message: str
    album: str
    person: str
    said_at: datetime
    at: datetime
    ready_at: datetime
    arrival: Arrival
    state: str
    ending: Ending | None = None
    reason: str | None = None
    ended_at: datetime | None = None
    turn: str | None = None


@record
class Turn:
    id: str
    thread: str
    state: str
    person: str
    starts: int = 1
    attempts: int = 0
    ended: datetime | None = None
    began: datetime | None = None
    under: BegunUnder | None = None


@record
class Logged:
    turn: str
    step: Step
    at: datetime


@record
class Question:
    ask: Ask
    thread: str
    seq: int
    turn: str
    timeout: float
    state: str = "queued"
    asked_at: datetime | None = None
    deadline: datetime | None = None
    scope: str = "once"
    word: str = ""
    person: str = ""
    used: bool = False


@record
class Seen:
    thread: str
    seq: int
    at: datetime


@record
class Posted:
    row: OutRow  # without ``replaces``, which is looked up
    ended_at: datetime | None = None


@record
class Speaker:
    name: str
    day: date


@dataclass(slots=True)
class Tables:
    threads: dict[str, Thread] = field(default_factory=dict[str, Thread])
    seen: dict[tuple[str, str, str], Seen] = field(default_factory=dict[tuple[str, str, str], Seen])
    inbox: dict[tuple[str, int], Letter] = field(default_factory=dict[tuple[str, int], Letter])
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict[str, Checkpoint])
    steps: dict[tuple[str, int], Logged] = field(default_factory=dict[tuple[str, int], Logged])
    posts: dict[str, Posted] = field(default_factory=dict[str, Posted])
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    trusts: dict[tuple[str, str, str], Trust] = field(
        default_factory=dict[tuple[str, str, str], Trust]
    )
    grants: dict[str, Grant] = field(default_factory=dict[str, Grant])
    people: dict[tuple[str, str, str], PersonRow] = field(
        default_factory=dict[tuple[str, str, str], PersonRow]
    )
    leases: dict[str, tuple[str, datetime, int]] = field(
        default_factory=dict[str, tuple[str, datetime, int]]
    )
    cursors: dict[tuple[str, str, str], tuple[str, int]] = field(
        default_factory=dict[tuple[str, str, str], tuple[str, int]]
    )
    jobs: dict[str, JobRow] = field(default_factory=dict[str, JobRow])
    occurrences: dict[tuple[str, datetime], OccurrenceRow] = field(
        default_factory=dict[tuple[str, datetime], OccurrenceRow]
    )
    usage: dict[str, Paid] = field(default_factory=dict[str, Paid])
    speakers: dict[tuple[str, str, str], Speaker] = field(
        default_factory=dict[tuple[str, str, str], Speaker]
    )

    def copy(self) -> Tables:
        return Tables(**{table.name: dict(getattr(self, table.name)) for table in fields(self)})


class Model:
    """What every part of the model shares: transactions, numbers, leases and posts."""

    def __init__(self, *, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.tables = Tables()
        self._hints: list[Hint] = []
        self._listeners = Listeners()

    def listen(self, hear: Hear) -> Callable[[], None]:
        return self._listeners.listen(hear)

    @contextmanager
    def transaction(self) -> Generator[Tables]:
        """All or nothing."""
        before, self._hints = self.tables.copy(), []
        try:
            yield self.tables
        except BaseException:
            self.tables = before
            raise
        self._listeners.tell(self._hints)

    @property
    def now(self) -> datetime:
        return self._clock()

    def later(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    def hint(self, kind: str, thread: str, row: OutRow | None = None) -> None:
        place = self.tables.threads[thread].address
        self._hints.append(
            Hint(
                "ready" if kind == "ready" else "post" if kind == "post" else "approval",
                thread,
                place.channel,
                place.account,
                row,
            )
        )

    def hint_job(self) -> None:
        self._hints.append(Hint("job"))

    def anything(self) -> None:
        """A hint that everything may be different."""
        self._hints.append(Hint("any"))

    def change(self, thread: str, **values: object) -> Thread:
        row = self.tables.threads[thread] = replace(self.tables.threads[thread], **values)  # pyright: ignore[reportArgumentType]
        return row

    def thread_of(self, address: Address, scope: str = "") -> Thread:
        """Made when it is missing."""
        for row in self.tables.threads.values():
            if (row.address, row.scope) == (address, scope):
                return row
        row = Thread(thread_id(address, scope), address, scope)
        self.tables.threads[row.id] = row
        return row

    def number(self, thread: str) -> int:
        seq = self.tables.threads[thread].next_seq
        self.change(thread, next_seq=seq + 1)
        return seq

    def open_turn(self, thread: str) -> Turn | None:
        return next(
            (
                t
                for t in self.tables.turns.values()
                if t.thread == thread and t.state in ("running", "parked")
            ),
            None,
        )

    def parked(self, thread: str) -> bool:
        turn = self.open_turn(thread)
        return turn is not None and turn.state == "parked"

    def letters(self, thread: str, state: str) -> list[Letter]:
        found = [i for i in self.tables.inbox.values() if i.thread == thread and i.state == state]
        return sorted(found, key=lambda i: (i.sort.encode("utf-8", "surrogatepass"), i.seq))

    def waiting(self, thread: str) -> list[Letter]:
        return [i for i in self.letters(thread, "waiting") if i.kind in ("message", "wake")]

    def taken(self, turn: str) -> list[Letter]:
        return [i for i in self.letters(self.tables.turns[turn].thread, "taken") if i.turn == turn]

    def end(
        self, letter: Letter, ending: Ending, reason: str = "", turn: str | None = None
    ) -> None:
        key = (letter.thread, letter.seq)
        now = self.tables.inbox[key]
        self.tables.inbox[key] = replace(
            now,
            state="ended",
            ending=ending,
            reason=reason or None,
            ended_at=self.now,
            turn=turn if turn is not None else now.turn,
        )

    def must_hold(self, claim: Claim, turn: str | None = None) -> None:
        row = self.tables.threads.get(claim.thread)
        if row is None or (row.owner, row.generation) != (claim.owner, claim.generation):
            raise LeaseLost
        if turn is not None:
            present = self.tables.turns.get(turn)
            if present is None or present.thread != claim.thread or present.state != "running":
                raise Conflict(f"turn {turn} is not running")

    def give_back(self, thread: str) -> None:
        """No turn is open any more."""
        heads = self.waiting(thread)
        self.change(
            thread,
            owner=None,
            until=None,
            last_at=self.now,
            ready_at=max(self.now, heads[0].ready_at) if heads else None,
        )
        if heads:
            self.hint("ready", thread)

    def log(
        self,
        thread: str,
        turn: str,
        steps: Sequence[Step],
        key: Callable[[Step], tuple[str, str] | None],
    ) -> list[int]:
        """Append; ``key`` names what may happen once in a thread."""
        numbers: list[int] = []
        for step in steps:
            name = key(step)
            if name is not None and any(
                key(s.step) == name
                for (where, _), s in self.tables.steps.items()
                if where == thread
            ):
                raise Conflict(f"{name[1]} happened before")
            numbers.append(self.number(thread))
            self.tables.steps[thread, numbers[-1]] = Logged(turn, step, self.now)
        return numbers

    def spending(self, since: str, key: Callable[[Paid], K]) -> dict[K, list[int]]:
        """The columns of ``Spent`` by ``key``, of the UTC days from ``since`` on."""
        totals: dict[K, list[int]] = {}
        for paid in self.tables.usage.values():
            if paid.day >= since:
                one, total = paid.usage, totals.setdefault(key(paid), [0] * 7)
                cost = (one.micro_usd or 0, one.micro_usd is None)
                total[:] = map(
                    sum,
                    zip(
                        total,
                        (1, one.input, one.cached, one.written, one.output, *cost),
                        strict=True,
                    ),
                )
        return totals

    def book(self, payer: Payer, usage: Usage) -> None:
        row = self.tables.turns.get(payer.turn)
        person = payer.person.partition(":")[2] if row is None else row.person
        day = self.now.date().isoformat()
        self.tables.usage[f"{len(self.tables.usage)}"] = Paid(
            day, payer.turn, payer.thread, person, usage, payer
        )

    # posts

    def say(self, rows: Iterable[PostRow], turn: str | None, home: str | None = None) -> None:
        for row in rows:
            if row.id in self.tables.posts:
                raise Conflict(f"post {row.id} is there already")
            if row.target is not None and row.target not in self.tables.posts:
                raise Conflict(f"post {row.target} is unknown")
            address = row.outbound.address
            at_home = home is not None and self.tables.threads[home].address == address
            thread = home if home is not None and at_home else self.thread_of(address).id
            if not at_home:
                self.change(thread, last_at=self.now)
            written = OutRow(
                row,
                thread,
                self.number(thread),
                turn,
                "ready",
                (),
                0,
                self.now,
                self.later(row.ttl),
                self.now,
            )
            self.tables.posts[row.id] = Posted(written)
            self.hint("post", thread, written if row.target is None else None)

    def alter(self, id: str, *, over: bool, **values: object) -> None:
        now = self.tables.posts[id]
        ended = self.now if over else None
        place = now.row.row.outbound.address
        self._listeners.tell([Hint("state", now.row.thread, place.channel, place.account)])
        self.tables.posts[id] = Posted(replace(now.row, ended=ended, **values), ended)  # pyright: ignore[reportArgumentType]

    def seen_post(self, row: OutRow) -> OutRow:
        """With the receipts of what it replaces."""
        target = self.tables.posts.get(row.row.target) if row.row.target is not None else None
        return row if target is None else replace(row, replaces=receipts(target.row.parts))

    def standing(self, id: str) -> OutRow | None:
        """The row when it was or may have been said; drops it when it was not."""
        found = self.tables.posts.get(id)
        if found is None or found.row.state in ("dropped", "dead"):
            return None
        if found.row.state == "ready" and not receipts(found.row.parts):
            self.alter(id, over=True, state="dropped")
            return None
        return self.seen_post(found.row)

    def close(self, ids: Iterable[str], closing: Closing, home: str) -> None:
        for closed in ids:
            if row := self.standing(closed):
                made = closing(row)
                self.say([replace(made, kind="edit", target=made.target or closed)], row.turn, home)

    def open_drafts(self, turn: str) -> list[str]:
        replaced = {p.row.row.target for p in self.tables.posts.values()}
        drafts = [
            p.row
            for p in self.tables.posts.values()
            if p.row.turn == turn and p.row.row.kind == "draft"
        ]
        return [
            d.row.id
            for d in sorted(drafts, key=lambda d: d.seq)
            if d.row.id not in replaced and d.state not in ("dropped", "dead")
        ]


def receipts(parts: Sequence[PartState]) -> tuple[Receipt, ...]:
    return tuple(p.receipt for p in parts if p.receipt is not None and p.part.kind != "delete")


def once(step: Step) -> tuple[str, str] | None:
    """What may happen once in a thread."""
    if isinstance(step, CallStarted):
        return ("started", step.call)
    return ("result", step.result.call) if isinstance(step, CallResult) else None


def words(arrival: Arrival) -> str:
    """What a conversation that begins with it is called; empty: nothing."""
    if isinstance(arrival, Inbound):
        files = ", ".join(file.name for file in arrival.attachments)
        said = arrival.text if arrival.text.split() else files
    else:
        said = arrival.prompt if isinstance(arrival, Wake) else ""
    said = " ".join(said.split())
    return said if len(said) <= 80 else said[:79] + "…"
