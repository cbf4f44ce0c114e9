"""Whoever can run a turn: our engine, or a foreign CLI. And what it is handed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from channels.record import record
from ohmo.contracts.events import Event
from ohmo.contracts.messages import Step, ToolCall, Usage
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

    async def request(
        self, *, shrink: bool = False
    ) -> ModelRequest: ...  # may compact first; shrink after "prompt too long"
    def open_calls(
        self,
    ) -> tuple[OpenCall, ...]: ...  # calls of the last model step without a result
    async def record(self, *steps: Step, usage: Usage | None = None) -> None: ...
    async def answered(
        self, call: str, digest: str
    ) -> Verdict | None: ...  # consumes a human's answer, once
    async def result(self, output: ToolOutput) -> None: ...  # result and posts, one transaction
    async def steered(
        self,
    ) -> bool: ...  # takes messages that arrived meanwhile (busy: steer); True if any
    def last_was_final(self) -> bool: ...  # the last step is a model step without calls
    def final_text(self) -> str: ...
    def model_calls(self) -> int: ...  # of this turn so far, earlier runs of it included
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


Outcome = Answered | Parked | Failed


@record
class Ended:
    """Always the last item of a run; cancellation is the one exit without it."""

    outcome: Outcome


class Agent(Protocol):
    def run(self, turn: str, ledger: Ledger) -> AsyncIterator[Event | Ended]: ...
