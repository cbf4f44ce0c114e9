"""Rows of the outbox, and the questions of a turn: each question has its card there."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from channels.contract import Address, Outbound, Part, Receipt
from channels.record import record
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import Question


@record
class PostRow:
    """One logical message that a person shall see."""

    id: str  # 22 characters; part n is sent with key id + "." + n
    kind: Literal["draft", "message", "edit", "notice"]
    outbound: Outbound  # its address decides the destination thread
    target: str | None = None  # the row whose messages this one replaces
    ttl: float = 86_400.0  # seconds until it is dead unsent


@record
class PartState:
    """A frozen platform call and how far it got."""

    part: Part
    receipt: Receipt | None = None
    handle: str | None = None  # an upload that is done but not yet shown


@record
class OutRow:
    """An open row of the outbox with its progress. ``parts`` is empty before it was rendered."""

    row: PostRow
    thread: str
    seq: int
    turn: str | None
    state: Literal["ready", "sending", "sent", "dropped", "dead"]
    parts: tuple[PartState, ...]
    attempts: int
    ready_at: datetime
    expires: datetime
    started: datetime  # when the row was written
    replaces: tuple[Receipt, ...] = ()  # receipts of the target, when there is one and it was sent
    error: str | None = None  # why the last try failed
    ended: datetime | None = None


# Whoever is there sits at the owner's machine: nothing is cut short, nobody else answers.
OWN_CHANNELS = frozenset({"web", "console", "house"})
Scope = Literal["once", "rule", "session", "always", "workspace"]
"""For how long, and of what: ``workspace`` is every edit below the folder, for this session.
``rule``: once, by a rule given beforehand for all calls of a tool; nobody looked at this one."""


@record
class Ask:
    """One question of a turn; its id is also the id of its card's row in the outbox."""

    id: str
    call: str
    question: Question
    cwd: str


@record
class Lapsed:
    """A permission that nobody gave in time, and the call that was refused for it, None: it was no
    call of the model, or is forgotten. ``job``: whose run asked; "" when it was none, or is
    forgotten."""

    asked: Asked
    call: ToolCall | None
    job: str = ""


@record
class Asked:
    """An open question. ``address`` is the thread's place."""

    ask: Ask
    thread: str
    turn: str
    address: Address
    person: str  # on whose behalf the turn runs
    state: Literal["queued", "asked"]
    deadline: datetime | None
    asked_at: datetime | None


@record
class Grant:
    """A remembered permission. ``scope``: a session id (thread.session_seq), a workspace path, or
    "*"."""

    id: str
    scope: str
    rule: str
    person: str
    at: datetime


@record
class Remembered:
    """A grant as people read it. ``means``: its rule in words; ``until``: "always", or that it ends
    with its session."""

    id: str
    rule: str
    means: str
    until: Literal["always", "session"]
    person: str
    at: datetime


@record
class Ruling:
    """What a person says to one question. ``word``: in their own words. ``grant``: what is
    remembered of it. ``arrival``: thread and number of the press, reaction or message that said it;
    None: the owner's keyboard, or the house itself."""

    approval: str
    verdict: Literal["allowed", "denied"]
    person: str
    word: str = ""
    scope: Scope = "once"
    grant: Grant | None = None
    arrival: tuple[str, int] | None = None
