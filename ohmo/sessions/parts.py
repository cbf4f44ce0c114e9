"""What every session is built from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

from channels.contract import Address, Clock, Outbound
from channels.record import record
from ohmo.contracts.agent import Agent
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.events import Event
from ohmo.contracts.messages import Json, ToolCall, ToolResult
from ohmo.contracts.store import Card, Claim, Closing, Store, ToContext, ToStep, Work
from ohmo.contracts.tool import Question
from ohmo.failpoints import Failpoint
from ohmo.ids import NewId
from ohmo.sessions.plan import TurnPlan
from ohmo.sessions.tally import Tally

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
class SessionParts:
    """What the other rooms do for a turn. Times in seconds."""

    store: Store
    agent: Agent
    plan: Callable[[Claim, Work], TurnPlan]  # decides model, prompt and permissions
    new_id: NewId
    failpoint: Failpoint
    clock: Clock = lambda: datetime.now(UTC)

    # what the model is told
    step: ToStep
    context: ToContext | None = None  # of what was overheard
    fetch: Callable[
        [Arrival], Awaitable[Sequence[str]]
    ]  # brings attachments to their paths; says what could not be had

    # what people see
    emit: Callable[[str, Event], None]
    card: Card
    closing: Closing
    grown: Callable[[str], str | None] = lambda _: (
        None
    )  # how far a draft has grown since it was stored
    footnote: Callable[[Address, Tally], str] = lambda _, __: (
        ""
    )  # beneath an answer in a place; "" for nothing
    guest: Callable[[Work], bool] = lambda _: False  # whether only a guest reads the answer
    report: Reporting | None = None  # for turns that nobody sits in front of
    dead: Callable[
        [Address, Address | None, str], Awaitable[None]
    ]  # where a turn ended in a dead letter, where that was said, and why

    # how long, and what meanwhile
    busy: Busy  # of threads whose people chose nothing
    turn_timeout: float
    approval_timeout: float
    idle: Callable[[], float | None] = lambda: (
        None
    )  # of silence by the wall clock, after which a thread begins a new session now
    late: Callable[[Work], Question | None] = lambda _: (
        None
    )  # whether an old message is still wanted

    def busy_in(self, claim: Claim) -> Busy:
        """What its people chose, else the configuration."""
        return claim.settings.busy or self.busy
