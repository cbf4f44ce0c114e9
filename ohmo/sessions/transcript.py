"""A session's steps in memory: appended as they are committed, read by every request."""

from __future__ import annotations

from collections.abc import Sequence

from ohmo.context.window import Window, step_tokens
from ohmo.contracts.agent import OpenCall
from ohmo.contracts.messages import CallResult, CallStarted, ModelStep, Step, Text, ToolCall


class Transcript:
    """``budget``: tokens the model's window leaves for the conversation. ``last``: number of the newest step; ``generation``: of the claim
    that wrote it, to notice that another instance had the thread in between."""

    def __init__(self, session_seq: int, budget: int) -> None:
        self.session_seq = session_seq
        self.last = session_seq - 1
        self.generation = 0
        self.weight = 0  # rough bytes
        self._steps: list[Step] = []
        self._window = Window(budget)
        self._budget: int = budget
        self._told_start = 0

    def add(self, numbered: Sequence[tuple[int, Step]]) -> None:
        """Steps with their numbers, in order; known ones are passed over."""
        for seq, step in numbered:
            if seq > self.last:
                self.last = seq
                self._steps.append(step)
                self._window.add(step)
                self.weight += 400 + 8 * step_tokens(step)

    def refit(self, budget: int) -> None:
        """Another model, another window: decide anew where the conversation begins."""
        if budget != self._budget:
            self._budget = budget
            self._window = Window(budget)
            for step in self._steps:
                self._window.add(step)

    def shrink(self) -> bool:
        """After "prompt too long": False when nothing can be left out any more."""
        return self._window.shrink()

    def visible(self) -> tuple[Step, ...]:
        """What the next request sends."""
        return tuple(self._steps[self._window.start :])

    def newly_left_out(self) -> bool:
        """True once after exchanges were left out."""
        grown = self._window.start > self._told_start
        self._told_start = self._window.start
        return grown

    def open_calls(self) -> tuple[OpenCall, ...]:
        """Calls of the last model step that have no result."""
        started: set[str] = set()
        ended: set[str] = set()
        for step in reversed(self._steps):
            match step:
                case CallResult(result):
                    ended.add(result.call)
                case CallStarted(call, _):
                    started.add(call)
                case ModelStep(blocks, _, _):
                    calls = (block for block in blocks if isinstance(block, ToolCall))
                    return tuple(OpenCall(call, call.id in started) for call in calls if call.id not in ended)
                case _:
                    continue
        return ()

    def last_was_final(self) -> bool:
        """The last step is a model step without calls."""
        last = self._steps[-1] if self._steps else None
        return isinstance(last, ModelStep) and not any(isinstance(block, ToolCall) for block in last.blocks)

    def final_text(self) -> str:
        """Words of the last model step."""
        last = self._steps[-1] if self._steps else None
        return "".join(block.text for block in last.blocks if isinstance(block, Text)).strip() if isinstance(last, ModelStep) else ""
