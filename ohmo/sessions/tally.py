"""What a turn has cost so far, in calls, tokens and seconds: told beneath its answer."""

from __future__ import annotations

from dataclasses import replace

from channels.record import record
from ohmo.contracts.messages import ModelStep, Step, ToolCall, Usage


@record
class Tally:
    """``steps`` of the turn, ``input`` and ``output`` tokens, ``seconds`` since it began; over
    restarts."""

    steps: tuple[Step, ...] = ()
    input: int = 0
    output: int = 0
    seconds: float = 0.0

    @property
    def models(self) -> int:
        """Calls of the model."""
        return sum(isinstance(step, ModelStep) for step in self.steps)

    @property
    def calls(self) -> int:
        """Calls of tools."""
        return sum(
            isinstance(block, ToolCall)
            for step in self.steps
            if isinstance(step, ModelStep)
            for block in step.blocks
        )

    def and_then(self, steps: tuple[Step, ...], usage: Usage | None) -> Tally:
        """With what happened next."""
        spent = (usage.sent, usage.output) if usage is not None else (0, 0)
        return replace(
            self,
            steps=(*self.steps, *steps),
            input=self.input + spent[0],
            output=self.output + spent[1],
        )
