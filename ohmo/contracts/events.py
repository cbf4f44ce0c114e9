"""What a turn says while it runs. Ephemeral: nothing durable may depend on anybody listening."""

from __future__ import annotations

from typing import Literal

from channels.contract import Address, MessageId, PersonId
from channels.record import record
from ohmo.contracts.messages import ToolResult, Usage

RunEnding = Literal[
    "answered", "parked", "failed", "stopped", "released"
]  # released: it goes on in another run


@record
class OfTurn:
    turn: str


@record
class TextDelta(OfTurn):
    text: str


@record
class ModelDone(OfTurn):
    """``seconds``: from the request to the end of the reply."""

    text: str
    usage: Usage
    seconds: float = 0.0


@record
class ToolStarted(OfTurn):
    call: str
    name: str
    summary: str


@record
class ToolRefused(OfTurn):
    """A call that ends without being run: denied, unreadable, or cut off by a restart. Its ToolDone
    follows and says why."""

    call: str
    name: str
    summary: str


@record
class ToolProgress(OfTurn):
    call: str
    text: str


@record
class ToolDone(OfTurn):
    call: str
    result: ToolResult


@record
class Status(OfTurn):
    text: str


@record
class PlanUpdated(OfTurn):
    """By ``call``: ``step`` of ``total`` is being done now, and what that is."""

    call: str
    step: int
    total: int
    title: str


@record
class Failure(OfTurn):
    """``fatal``: the turn ends by it; otherwise it stays open and is tried again."""

    text: str
    fatal: bool


@record
class CompactionProgress(OfTurn):
    phase: Literal[
        "hooks_start",
        "context_collapse_start",
        "context_collapse_end",
        "session_memory_start",
        "session_memory_end",
        "compact_start",
        "compact_retry",
        "compact_end",
        "compact_failed",
    ]


@record
class TurnStarted(OfTurn):
    """``address``: where its answer goes, None when nobody is told; ``reply_to`` and ``mentions``
    as the answer's."""

    person: str
    address: Address | None = None
    reply_to: MessageId | None = None
    mentions: tuple[PersonId, ...] = ()


@record
class TextReset(OfTurn):
    """The model begins its answer anew: every delta since its last ModelDone is void."""


@record
class TurnEnded(OfTurn):
    """The last event of a run of a turn; a parked turn starts again later. ``text``: the final
    answer, the reason, or empty."""

    outcome: RunEnding
    text: str


Event = (
    TurnStarted
    | TurnEnded
    | TextReset
    | TextDelta
    | ModelDone
    | ToolStarted
    | ToolRefused
    | ToolProgress
    | ToolDone
    | PlanUpdated
    | Status
    | Failure
    | CompactionProgress
)
