"""Groups the steps of a conversation the way every chat API wants them: a model step, the results
of its calls, what was said then."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from channels.record import record
from ohmo.contracts.messages import (
    CallResult,
    Compaction,
    Image,
    ModelStep,
    Step,
    ToolCall,
    UserStep,
)

MISSING_RESULT = "No result was recorded for this call."
NOTHING_SAID = "(no message)"
GO_ON = "Go on."
SUMMARY_BEFORE = "Summary of the earlier conversation:\n\n"


@record
class StepGroup:
    """A model step and what followed it."""

    model: ModelStep | None  # None: what was said before the model's first step
    #: One per call, in call order; None where none was recorded.
    results: tuple[tuple[ToolCall, CallResult | None], ...]
    said: tuple[UserStep | Compaction, ...]  # user steps and summaries, in order


def dump(value: object) -> bytes:
    """Compact JSON. A lone surrogate, which no API accepts, becomes "?"."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def last_model_step(steps: Sequence[Step]) -> int:
    """Where the open exchange begins: everything before it can never change again."""
    for index in range(len(steps) - 1, -1, -1):
        if isinstance(steps[index], ModelStep):
            return index
    return 0


def split(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """Cut before every model step."""
    start = 0
    for index, step in enumerate(steps):
        if index > start and isinstance(step, ModelStep):
            yield tuple(steps[start:index])
            start = index
    if start < len(steps):
        yield tuple(steps[start:])


def exchange(steps: Sequence[Step]) -> StepGroup:
    """``steps``: one piece of ``split``. A result without its call (left out with an old exchange)
    is dropped: no wire accepts it."""
    first = steps[0] if steps else None
    model = first if isinstance(first, ModelStep) else None
    results: dict[str, CallResult] = {}
    said: list[UserStep | Compaction] = []
    for step in steps:
        if isinstance(step, CallResult):
            results.setdefault(step.result.call, step)
        elif isinstance(step, UserStep | Compaction):
            said.append(step)
    calls = (
        [block for block in model.blocks if isinstance(block, ToolCall)]
        if model is not None
        else []
    )
    return StepGroup(model, tuple((call, results.get(call.id)) for call in calls), tuple(said))


def images(steps: Sequence[Step]) -> Iterator[Image]:
    for step in steps:
        if isinstance(step, UserStep):
            yield from (block for block in step.blocks if isinstance(block, Image))
        elif isinstance(step, CallResult):
            yield from step.result.images
