"""The durable store: one transaction per call, all or nothing; returns after the commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from datetime import datetime
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.cron import Jobs
from ohmo.contracts.inwriter import (
    Begins,
    Card,
    Closing,
    Collects,
    Rest,
    ToContext,
    ToStep,
    no_rest,
)
from ohmo.contracts.messages import Step, Usage, UserStep
from ohmo.contracts.outbox import Ask, Asked, Grant, Lapsed, OutRow, PartState, PostRow, Ruling
from ohmo.contracts.provider import NOBODY, Payer
from ohmo.contracts.spending import Books
from ohmo.contracts.tool import Verdict
from ohmo.contracts.turns import (
    Accepted,
    Claim,
    CursorSave,
    End,
    Ending,
    Pending,
    PersonRow,
    Seat,
    ThreadSettings,
    TurnCost,
    Work,
)


@record
class Hint:
    """Something may have changed; never the truth, only a reason to look. Empty fields mean
    "any"."""

    #: ``state``: only who shows things to people needs to look
    kind: Literal["ready", "post", "approval", "job", "state", "any"]
    thread: str = ""
    channel: str = ""
    account: str = ""
    #: of a new ``post``, as it was committed: whoever may send it need not read it first
    row: OutRow | None = field(default=None, compare=False)


class Mailbox(Protocol):
    """Arrivals."""

    async def accept(
        self, items: Sequence[tuple[Arrival, Seat]], cursor: CursorSave | None = None
    ) -> list[Accepted]:
        """Store one platform batch in the given order, with its cursor and, for wakes, their
        occurrences, in one transaction.

        An edit follows its original: waiting → applied by ``work`` (merged); taken → kept as a
        message of its own (a deletion: noted); ended → noted; unknown → waits for its original. A
        reaction is noted. Raises Unavailable (nothing may be acknowledged), LeaseLost (the cursor's
        generation is old; nothing written).
        """
        ...

    async def cursor(self, channel: str, account: str, name: str) -> str | None: ...
    async def unhandled(self) -> list[Pending]:
        """Answers and commands that are stored and not ended, in order: what intake has to do again
        after a start."""
        ...

    async def end_arrival(
        self,
        thread: str,
        seq: int,
        ending: Ending,
        reason: str = "",
        posts: Sequence[PostRow] = (),
        *,
        person: PersonRow | None = None,
        settings: ThreadSettings | None = None,
        told: UserStep | None = None,
    ) -> bool:
        """End one arrival with its effect and its reply. ``told``: a step that the next turn of the
        thread finds, behind the last one; left out while a turn is open. False: it had ended
        before, nothing was written."""
        ...

    async def stop(
        self,
        thread: str,
        seq: int,
        *,
        person: str,
        fresh: bool,
        posts: Sequence[PostRow],
        closing: Closing,
        rest: Rest = no_rest,
        resumes: int | None = None,
    ) -> int:
        """The command at ``seq`` ends everything said before it in its thread, running, parked or
        waiting; raises the generation; voids open questions; closes drafts and cards; keeps the
        ``rest`` of a running turn, before ``posts``; ends itself as answered. ``fresh``: a new
        session too, or the earlier one ``resumes`` (``SessionInfo.session``), without what was
        allowed for it. Returns how many arrivals were stopped; 0 and nothing written when the
        command had ended before."""
        ...


class Threads(Protocol):
    """Owning a thread and running its turn. Every method with a claim raises LeaseLost when the
    generation moved on."""

    async def claim(
        self, owner: str, *, limit: int, ttl: float, idle: float | None = None
    ) -> list[Claim]:
        """Oldest ready threads first. An expired lease of another owner may be taken; its open turn
        then counts a death. ``idle``: a thread without an open turn whose newest step is older than
        so many seconds begins a new session."""
        ...

    async def begin(
        self,
        owner: str,
        turns: Sequence[str],
        *,
        ttl: float,
        collect: Collects,
        step: ToStep,
        context: ToContext | None = None,
        under: Begins | None = None,
        idle: float | None = None,
    ) -> list[tuple[Claim, Work | None]]:
        """``claim`` and ``work`` of at most as many threads as ``turns`` has ids, in one
        transaction: one commit between arrival and model."""
        ...

    async def renew(self, claims: Sequence[Claim], ttl: float) -> set[Claim]:
        """Returns the lost ones."""
        ...

    async def work(
        self,
        claim: Claim,
        turn: str,
        *,
        collect: bool,
        step: ToStep,
        context: ToContext | None = None,
        under: Begins | None = None,
    ) -> Work | None:
        """The open turn (resumed), or a new one under the id ``turn`` with the head of the mailbox
        (``collect``: all of it; an album: its parts), its user steps written, before them how
        things stand and what was overheard since the last one (``context``): handed over once.
        None: nothing to do, the lease is given back."""
        ...

    async def steer(
        self, claim: Claim, turn: str, step: ToStep
    ) -> tuple[tuple[int, UserStep], ...]:
        """Takes waiting messages into the running turn as user steps."""
        ...

    async def record(
        self,
        claim: Claim,
        turn: str,
        steps: Sequence[Step],
        *,
        posts: Sequence[PostRow] = (),
        usage: Usage | None = None,
        payer: Payer = NOBODY,
        plans: bool | None = None,
    ) -> tuple[int, ...]:
        """Append steps, and ``spend`` for this turn; returns their numbers. A call starts once and
        ends once: a second time raises Conflict. ``plans``: plan mode begins or ends in the
        session."""
        ...

    async def park(
        self,
        claim: Claim,
        turn: str,
        asks: Sequence[Ask],
        *,
        timeout: float,
        card: Card,
        closing: Closing,
    ) -> None:
        """Questions, the first one's card, turn state and the release of the lease in one
        transaction. One question is open per thread."""

    async def finish(
        self,
        claim: Claim,
        turn: str,
        steps: Sequence[Step],
        posts: Sequence[PostRow],
        end: End,
        *,
        usage: Usage | None = None,
        payer: Payer = NOBODY,
    ) -> tuple[int, ...]:
        """Steps, posts, usage, the turn's end, the arrivals' endings and the release of the lease
        in one transaction; returns the numbers of the steps. The first post into the turn's own
        thread takes the place of the turn's draft, if there is one that was or may have been sent;
        a draft that was not is dropped."""
        ...

    async def choose(self, thread: str, settings: ThreadSettings) -> bool:
        """These choices over the older ones of the thread. False: there is no such thread."""
        ...

    async def end_free(self, thread: str, until: datetime) -> bool:
        """Takes back a ``full_auto`` that was chosen until then. False: something else is chosen by
        now."""
        ...

    async def forget(self, thread: str) -> bool:
        """Deletes everything that was said and done in the thread. Its place, its numbers and what
        it cost stay, and the names of its events, so that none counts twice. False: something in it
        still waits or runs, nothing was deleted."""
        ...

    async def interrupt(
        self, claim: Claim, turn: str, closing: Closing, rest: Rest = no_rest
    ) -> None:
        """Busy mode interrupt: the turn stops, its arrivals end as merged (their steps stay in the
        transcript), its ``rest`` is kept, the lease is given back."""

    async def bury(self, claim: Claim, reason: str, posts: Sequence[PostRow]) -> bool:
        """What cannot be read ends as dead: the open turn with all it took, else the head of the
        mailbox. False: nothing was there."""
        ...

    async def release(
        self,
        claim: Claim,
        turn: str | None = None,
        *,
        retry_after: float = 0.0,
        error: str | None = None,
    ) -> None:
        """Give the thread back, the turn stays open. With ``error`` the turn's attempts grow by
        one."""

    async def reclaim(self, owner: str) -> int:
        """At boot, proven alone by the lock of the home (SQLite): all leases of others are dead at
        once; open turns count a death."""
        ...

    async def steps(
        self, thread: str, since: int, *, limit: int | None = None
    ) -> list[tuple[int, Step]]: ...
    async def draft(self, claim: Claim, turn: str, row: PostRow) -> bool:
        """A draft of a running turn. False: the turn is not running any more, nothing was
        written."""
        ...

    async def turn_cost(self, thread: str, turn: str) -> TurnCost:
        """Of a turn that is still open, over all its runs."""
        ...


class Approvals(Protocol):
    """Questions, and who may do what."""

    async def answer(
        self,
        ruling: Ruling,
        *,
        posts: Sequence[PostRow] = (),
        late: Sequence[PostRow] = (),
        card: Card,
        closing: Closing,
    ) -> Literal["ok", "late", "unknown"]:
        """Single use, before its deadline by the store's clock. ok: verdict, grant, ``posts``, the
        card's closing, and either the next question of the thread is asked or the thread becomes
        ready. late, unknown: only ``late`` posts. The arrival ends as answered (refused when late),
        same transaction."""
        ...

    async def consume(self, claim: Claim, turn: str, call: str, digest: str) -> Verdict | None:
        """What a human said about this very call: once. None: nobody was asked, or it was used.
        When the digest differs, a no is a no, and what was allowed is ``changed``."""
        ...

    async def expire(self, card: Card, closing: Closing) -> int:
        """Overdue questions become expired; the next one is asked or the thread becomes ready."""
        ...

    async def next_deadline(self) -> datetime | None: ...
    async def open_questions(self, thread: str | None = None) -> list[Asked]: ...
    async def question(self, approval: str) -> Asked | None:
        """The open question of this id. None: it is closed, or there never was one."""
        ...

    async def lapsed(self, name: str) -> Lapsed | None:
        """The permission of this id that expired, or the newest one of the thread of this id. None:
        there is none, or its step is gone."""
        ...

    async def grants(self) -> list[Grant]: ...
    async def revoke_grant(self, id: str) -> bool:
        """False: there is no such grant, or it was revoked before."""
        ...

    async def people(self) -> list[PersonRow]: ...
    async def save_person(self, row: PersonRow) -> None: ...


class Outbox(Protocol):
    """Speaking: for the instance that holds the channel's lease."""

    async def post(self, rows: Sequence[PostRow]) -> None:
        """Posts that belong to no turn (notices to the owner). A known id is ignored."""

    async def outgoing(
        self, channel: str, account: str, threads: Collection[str] | None = None
    ) -> list[OutRow]:
        """Heads: the oldest open row of each thread (of the given ones), whether its time has come
        or not."""
        ...

    async def drafted(self, turn: str) -> OutRow | None:
        """The draft of a turn that its end will take the place of."""
        ...

    async def post_row(self, id: str) -> OutRow | None:
        """One row of the outbox, whatever its state; None: there is none."""
        ...

    async def sending(self, id: str, parts: Sequence[PartState]) -> None:
        """Before the first call, and after each upload or part: what will be said is frozen. Raises
        Conflict when the row is not open any more, or not begun and behind another one of its
        thread."""

    async def sent(self, id: str, parts: Sequence[PartState]) -> bool:
        """Whether more is open in the row's thread."""
        ...

    async def unsent(
        self,
        id: str,
        *,
        retry_after: float | None,
        error: str,
        parts: Sequence[PartState] | None = None,
    ) -> None:
        """``retry_after`` None: dead letter. ``parts`` () forgets the frozen parts (only after
        Rejected: a plain rendering follows)."""

    async def retry_post(self, id: str) -> bool:
        """An owner brings a dead row back."""
        ...

    async def drop_post(self, id: str) -> bool: ...


class Store(Mailbox, Threads, Books, Approvals, Outbox, Jobs, Protocol):
    """Raises Unavailable (outcome unknown: ask again with the same ids), LeaseLost (nothing
    written), Conflict (a law of the schema)."""

    async def lease(self, name: str, owner: str, ttl: float) -> int | None:
        """One at a time in the whole fleet: the generation, or None while another holds it. Renews
        one's own."""
        ...

    async def rebase(self, seconds: float | None) -> float:
        """The wall clock was set by so much (None: since the newest row, if it now stands before
        it): what waits for a time waits as long as before. Returns the seconds."""
        ...

    async def unlease(self, name: str, owner: str) -> None: ...
    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        """``hear`` is called on the event loop after commits; returns what ends it."""
        ...

    async def audit(self, kind: str, body: str) -> None:
        """Append to this writer's hash chain."""

    async def retry_arrival(self, thread: str, seq: int) -> bool:
        """An owner brings a dead arrival back as a new one under the key
        ``retry:<thread>.<seq>.<n>``; the old one is superseded, so that it is not brought back
        twice. False: it is no dead letter."""
        ...

    async def prune(self, before: datetime, *, transcripts: datetime | None = None) -> int:
        """Small batches of what ended long ago (steps and turns of earlier sessions: before
        ``transcripts``, when that is earlier); ``seen`` outlives bodies by rule. Waiting edits
        without an original end as noted after 10 minutes."""
        ...
