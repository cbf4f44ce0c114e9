"""What every session is built from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from channels.contract import Address, Outbound
from channels.record import record
from ohmo.ambient import Ambient
from ohmo.contracts.agent import Agent, Event
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.inwriter import Begins, Card, Closing, ToContext, ToStep
from ohmo.contracts.messages import Json, ToolCall, ToolResult
from ohmo.contracts.store import Store
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Claim, TurnCost, Work
from ohmo.sessions.planner import TurnPlan

Busy = Literal["queue", "steer", "interrupt", "collect"]
Ended = Sequence[tuple[ToolCall, ToolResult]]


class Reporting(Protocol):
    """What a turn that nobody sits in front of says. ``calls``: those of the turn that ended."""

    def first(self, wake: Wake) -> Mapping[str, Json] | None:
        """Arguments of the Bash call that such a turn begins with by itself, None: the model
        begins."""
        ...

    def stands(self, wake: Wake, calls: Ended) -> bool:
        """Whether there is a report without a word of the model."""
        ...

    async def __call__(
        self, wake: Wake, text: str, refused: Sequence[str], calls: Ended
    ) -> tuple[Outbound | None, Report]: ...


@record(kw_only=True)
class TurnInput:
    """What the model is told."""

    step: ToStep  # of an arrival
    context: ToContext | None = None  # of what was overheard
    # brings attachments to their paths; says what could not be had
    fetch: Callable[[Arrival], Awaitable[Sequence[str]]]


@record(kw_only=True)
class TurnOutput:
    """What people see."""

    emit: Callable[[str, Event], None]
    card: Card
    closing: Closing
    # where a turn ended in a dead letter, where that was said, and why
    dead: Callable[[Address, Address | None, str], Awaitable[None]]
    # how far a draft has grown since it was stored
    grown: Callable[[str], str | None] = lambda _: None
    # beneath an answer in a place; "" for nothing
    footnote: Callable[[Address, TurnCost], str] = lambda _, __: ""
    # whether only a guest reads the answer
    guest: Callable[[Work], bool] = lambda _: False


@record(kw_only=True)
class TurnLimits:
    """How long, in seconds, and what meanwhile."""

    busy: Busy  # of threads whose people chose nothing
    turn_timeout: float
    # a question may stay open: of a call of this tool, in a turn that may ask until then
    patience: Callable[[str, datetime | None], float]
    # of silence by the wall clock, after which a thread begins a new session now
    idle: Callable[[], float | None] = lambda: None
    # whether an old message is still wanted
    late: Callable[[Work], Question | None] = lambda _: None

    def busy_in(self, claim: Claim) -> Busy:
        """What its people chose, else the configuration."""
        return claim.settings.busy or self.busy


@record(kw_only=True)
class SessionDeps:
    """What the other rooms do for a turn."""

    store: Store
    agent: Agent
    plan: Callable[[Claim, Work], TurnPlan]  # decides model, prompt and permissions
    input: TurnInput
    output: TurnOutput
    limits: TurnLimits
    ambient: Ambient
    report: Reporting | None = None  # for turns that nobody sits in front of
    under: Begins | None = None  # what holds for a turn that begins, kept with it
