"""What the gateway and sessions may look up in the store while they work."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from channels.record import record
from ohmo.contracts.messages import ModelStep, Step, ToolCall, Usage
from ohmo.contracts.posts import OutRow


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


class Looking(Protocol):
    """Part of ``Store``. Reads only; raises Unavailable."""

    async def turn_cost(self, thread: str, turn: str) -> TurnCost:
        """Of a turn that is still open, over all its runs."""
        ...

    async def drafted(self, turn: str) -> OutRow | None:
        """The draft of a turn that its end will take the place of."""
        ...

    async def post_row(self, id: str) -> OutRow | None:
        """One row of the outbox, whatever its state; None: there is none."""
        ...
