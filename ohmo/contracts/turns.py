"""What the store keeps of an arrival, a person, a thread and its turn, from claim to end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import field, fields, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal, Protocol

from channels.contract import Address
from channels.record import record
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.cron import Cause, Report
from ohmo.contracts.messages import ModelStep, Step, ToolCall, Usage
from ohmo.contracts.tool import BegunUnder

Kind = Literal["message", "wake", "edit", "reaction", "answer", "command"]
Ending = Literal["answered", "merged", "noted", "refused", "stopped", "superseded", "dead"]
Role = Literal["asking", "guest", "user", "admin", "owner", "revoked"]
FREE = timedelta(hours=8)  # how long ``full_auto`` holds that was chosen for one thread
Shelf = Literal["open", "pinned", "archived", "deleted"]
"""Where the owner put a conversation in the list of the page; ``deleted``: nothing that was said in
it is kept."""
NOT_ADDRESSED = "not addressed"
BY_A_BOT = "said by a bot"
"""Reason of a noted message that may be handed over as context; any other reason keeps it from the
model."""


PRESENT, NO_SESSION = -1, -2  # of ``ThreadSettings.planning``; the second also of a ``Stretch``


@record
class Stretch:
    """Steps from number ``begins`` on, until the next stretch of the thread, belong to the session
    whose first step has number ``session``; ``NO_SESSION``: to one that is not kept apart."""

    begins: int
    session: int


SESSIONS = 64  # of a thread that can be gone on with: the one unused longest goes as a whole
#: With so many no earlier session is gone on with; new ones still begin, which lets all of those
#: go in the end: there are never more than ``STRETCHES + SESSIONS``.
STRETCHES = 512


@record
class ThreadSettings:
    """What a person chose for one thread; None: the configuration's default."""

    mode: Literal["default", "plan", "full_auto"] | None = None
    model: str | None = None
    free_until: datetime | None = None  # when ``full_auto`` ends
    busy: Literal["queue", "steer", "interrupt", "collect"] | None = None
    workspace: str | None = None
    title: str | None = None
    shelf: Shelf | None = None
    agent: str | None = None
    effort: Literal["low", "medium", "high"] | None = None  # how hard the model thinks
    #: Plan mode holds in the session of this number (``Claim.session_seq``), beside ``mode``, which
    #: holds again after it. ``PRESENT``: in the one it is stored in.
    planning: int | None = None
    #: Which steps belong to which session, in order; empty: all to the present one.
    stretches: tuple[Stretch, ...] = ()

    def begun(self, present: int, at: int, session: int | None = None) -> ThreadSettings:
        """Steps from number ``at`` on belong to another session than the ``present`` one; None: to
        a new one. Of more than ``SESSIONS`` the one unused longest goes, with all its stretches:
        what is left of a session would begin in its middle."""
        known = [each for each in self.stretches if each.begins < at]
        if not any(each.session == present for each in known):
            known += [Stretch(0, 0)] if present and not known else []
            known.append(Stretch(present, present))
        goes_on = at if session is None else session
        known.append(Stretch(at, goes_on))
        newest = dict.fromkeys(each.session for each in reversed(known))
        newest.pop(NO_SESSION, None)
        kept = set(list(newest)[:SESSIONS])
        stretches: list[Stretch] = []
        before = NO_SESSION
        for each in known:
            session = each.session if each.session in kept else NO_SESSION
            if session != before:
                stretches.append(Stretch(each.begins, session))
            before = session
        return replace(self, stretches=tuple(stretches))

    def holds(self, session: int, step: int) -> bool:
        """Whether a step of the thread belongs to that session."""
        if not any(each.session == session for each in reversed(self.stretches)):
            return step >= session
        return self.session_of(step) == session

    def session_of(self, step: int) -> int | None:
        """None: its session is not kept apart any more."""
        at = bisect_right(self.stretches, step, key=lambda each: each.begins)
        session = self.stretches[at - 1].session if at else NO_SESSION
        return None if session == NO_SESSION else session

    def gaps(self, present: int) -> list[tuple[int, int]]:
        """From which number to before which one the steps behind the beginning of the ``present``
        session belong to others."""
        return [
            (each.begins, following.begins)
            for each, following in pairwise(self.stretches)
            if each.session != present and each.begins >= present
        ]

    def over(self, older: ThreadSettings) -> ThreadSettings:
        """These choices, and the older ones where nothing was chosen now."""
        chosen = {name: value for name in _CHOICES if (value := getattr(self, name)) is not None}
        return replace(older, **chosen)

    def within(self, session: int) -> ThreadSettings:
        """As they are stored while the thread is in this session."""
        return replace(self, planning=session) if self.planning == PRESENT else self

    def plans(self, session: int, plans: bool | None) -> ThreadSettings:
        """Plan mode begins or ends in this session; None: neither."""
        if plans is None:
            return self
        mode = None if self.mode == "plan" and not plans else self.mode
        return replace(self, mode=mode, planning=session if plans else NO_SESSION)

    def at(self, now: datetime) -> ThreadSettings:
        """Without a ``full_auto`` whose time is over. One that ends later than any may, because the
        clock was set back, is over too."""
        if self.mode != "full_auto":
            return self
        left = timedelta() if self.free_until is None else self.free_until - now
        return self if timedelta() < left <= FREE else replace(self, mode=None, free_until=None)


_CHOICES = tuple(each.name for each in fields(ThreadSettings) if each.name != "stretches")


@record
class Seat:
    """Where an arrival belongs: decided by the gateway (pure), applied by the store.

    ``command`` and ``answer`` are handled beside the mailbox by intake and never make a thread
    ready; that includes a stranger's message, which intake refuses with a pairing card. ``ending``:
    stored with this ending at once. ``settings``: chosen with it, for its thread, before its turn
    starts.
    """

    person_scope: str  # "" or a person id
    kind: Kind
    ending: Literal["noted", "refused"] | None = None
    reason: str = ""
    hold: float = 0.0  # seconds before the thread may be claimed (albums come in pieces)
    settings: ThreadSettings | None = None


@record
class Accepted:
    """What became of one arrival. ``duplicate``: known before, nothing new was written; thread and
    seq are the first one's."""

    thread: str
    seq: int
    duplicate: bool


@record
class CursorSave:
    """A channel's cursor, fenced by the generation of its connection lease (0: no lease in use)."""

    channel: str
    account: str
    name: str
    value: str
    generation: int = 0


@record
class Pending:
    """An arrival of kind answer or command that is stored and not yet ended."""

    accepted: Accepted
    kind: Kind
    arrival: Arrival


@record
class PersonRow:
    """Who somebody is. ``code_hash`` and ``expires`` only while ``asking`` (pairing)."""

    channel: str
    account: str
    person: str
    name: str
    role: Role
    code_hash: str | None = None
    expires: datetime | None = None
    by: str | None = None


@record
class Claim:
    """The right to write one thread; every write states its generation."""

    thread: str
    generation: int
    until: float  # monotonic seconds, a second early
    owner: str
    address: Address = field(compare=False)
    session_seq: int = field(default=0, compare=False)  # steps from here on are the present session
    settings: ThreadSettings = field(default=ThreadSettings(), compare=False)

    @property
    def session(self) -> str:
        """Id of the present session."""
        return f"{self.thread}.{self.session_seq}"

    @property
    def plans(self) -> bool:
        """Plan mode was chosen for the present session."""
        return self.settings.planning == self.session_seq


@record
class Work:
    """One turn and what it took from the mailbox, revisions applied."""

    turn: str
    starts: int  # 1 + process deaths that interrupted it
    attempts: int  # exceptions that ended an earlier try
    arrivals: tuple[Arrival, ...]
    resumed: bool
    steps: tuple[tuple[int, Step], ...] = ()  # of a new turn: what was said, with its numbers
    under: BegunUnder | None = None  # None: begun by an ohmo that did not keep it


@record
class End:
    """How a turn ends. ``done``: its first message is answered, the others merged; ``failed``: dead
    letters; ``stopped``: stopped, all with the ``reason``. With a ``report`` the occurrences of its
    wakes end too."""

    state: Literal["done", "failed", "stopped"]
    reason: str = ""
    report: Report | None = None
    cause: Cause | None = None  # None: its state says it all


@record
class TurnCost:
    """What a turn did so far; told beneath its answer."""

    steps: tuple[Step, ...] = ()
    input: int = 0  # tokens
    output: int = 0  # tokens
    seconds: float = 0.0  # since it began

    @property
    def model_calls(self) -> int:
        return sum(isinstance(step, ModelStep) for step in self.steps)

    @property
    def tool_calls(self) -> int:
        return sum(
            isinstance(block, ToolCall)
            for step in self.steps
            if isinstance(step, ModelStep)
            for block in step.blocks
        )

    def and_then(self, steps: tuple[Step, ...], usage: Usage | None) -> TurnCost:
        """With what happened next."""
        return replace(
            self,
            steps=(*self.steps, *steps),
            input=self.input + (usage.sent if usage is not None else 0),
            output=self.output + (usage.output if usage is not None else 0),
        )


@record
class Checkpoint:
    """``turn``: what changed the folder afterwards: a turn, or the command that took one back.
    ``repo``: the folder, ``/`` for single files outside of a repository. ``tree``: name of what was
    kept, "" for nothing; ``size``: bytes. Which files they are lies in ``cache/checkpoints``."""

    id: str
    thread: str
    turn: str
    repo: str
    tree: str
    size: int
    at: datetime


class CheckpointRows(Protocol):
    """Rows of what is still kept."""

    async def keep_checkpoint(self, row: Checkpoint) -> None:
        """A known id is ignored."""
        ...

    async def checkpoints(self, thread: str | None = None) -> list[Checkpoint]:
        """Oldest first; None: of all threads."""
        ...

    async def session_turns(self, thread: str) -> set[str]:
        """Turns of the present session."""
        ...

    async def drop_checkpoints(self, ids: Collection[str]) -> None:
        """Their files are gone, or about to go."""
        ...
