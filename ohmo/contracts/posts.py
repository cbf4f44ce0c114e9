"""What shall be said, as rows of the outbox."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from channels.contract import Outbound, Part, Receipt
from channels.record import record


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
