"""What runs a turn (our engine, or a foreign CLI), what it is handed, and what it tells while it
runs. Those events are ephemeral: nothing durable may depend on anybody listening."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Literal, Protocol

from channels.contract import Address, MessageId, PersonId
from channels.record import record
from ohmo.contracts.messages import Step, ToolCall, ToolResult, Usage
from ohmo.contracts.provider import ModelRequest
from ohmo.contracts.tool import CallContext, Question, ToolOutput, Verdict


@record
class OpenCall:
    """A call of the last model step that has no result yet.

    ``started``: it may have had its effect. ``interrupted``: it was asked for in an earlier run of
    this turn.
    """

    call: ToolCall
    started: bool
    interrupted: bool = False


class Ledger(Protocol):
    """R1's context store: the turn's durable memory. Everything that must survive goes through it;
    each method returns after the commit, but for a final answer: that is one transaction with its
    post and the end of the turn. Raises LeaseLost: stop at once, somebody else owns the thread."""

    def crowded(self) -> bool:
        """Whether ``request`` makes the conversation shorter first."""
        ...

    async def request(
        self, *, shrink: bool = False, tell: Callable[[CompactionProgress], None] = ...
    ) -> ModelRequest:
        """May compact first, of which ``tell`` hears; ``shrink`` after "prompt too long"."""
        ...

    def open_calls(self) -> tuple[OpenCall, ...]:
        """Calls of the last model step without a result."""
        ...

    async def record(self, *steps: Step, usage: Usage | None = None) -> None: ...
    async def answered(self, call: str, digest: str) -> Verdict | None:
        """Consumes a human's answer, once."""
        ...

    async def result(self, output: ToolOutput) -> None:
        """Result and posts, one transaction."""

    async def steered(self) -> bool:
        """Takes messages that arrived meanwhile (busy: steer); True if any."""
        ...

    def last_was_final(self) -> bool:
        """The last step is a model step without calls."""
        ...

    def final_text(self) -> str: ...
    def visible(self) -> tuple[Step, ...]:
        """What the next request sends."""
        ...

    def model_calls(self) -> int:
        """Of this turn so far, earlier runs of it included."""
        ...

    def call_context(self, call: ToolCall, progress: Callable[[str], None]) -> CallContext: ...


@record
class Answered:
    """``alone``: the house's own doing; the model could not be reached."""

    text: str
    alone: bool = False


@record
class Parked:
    questions: tuple[tuple[ToolCall, Question], ...]


@record
class Failed:
    reason: str
    retry_after: float | None = None
    served: bool = False  # the model's server broke on this request (5xx)
    budget: bool = False  # a budget is used up


Outcome = Answered | Parked | Failed


@record
class Ended:
    """Always the last item of a run; cancellation is the one exit without it."""

    outcome: Outcome


class Agent(Protocol):
    def run(self, turn: str, ledger: Ledger) -> AsyncIterator[Event | Ended]: ...


#: ``released``: it goes on in another run
RunEnding = Literal["answered", "parked", "failed", "stopped", "released"]


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
