"""What the wires of all endpoints share: steps grouped as chat APIs want them, answers that are
closed and end, and arguments of tool calls read as models write them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from channels.record import record
from ohmo.contracts.errors import CutOff
from ohmo.contracts.messages import (
    UNREADABLE,
    CallResult,
    Compaction,
    Image,
    Json,
    ModelStep,
    Step,
    ToolCall,
    UserStep,
)
from ohmo.contracts.provider import ModelEvent, ModelRequest
from ohmo.providers.models import Call


@asynccontextmanager
async def streaming(call: Call, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
    """A call that is left early must not keep a connection open until the collector comes by."""
    events = call(request)
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


# Characters: an answer may always have this many; no tokenizer makes a hundred of one token on
# average.
_LEAST = 4_000_000
_PER_TOKEN = 100


class Measure:
    """Ends an answer that does not end: it may be no longer than the tokens that were asked for can
    be."""

    def __init__(self, request: ModelRequest) -> None:
        self._model = request.model
        self._left = max(_LEAST, request.max_output * _PER_TOKEN)

    def count(self, piece: str) -> None:
        """Raises CutOff."""
        self._left -= len(piece)
        if self._left < 0:
            raise CutOff(f"{self._model}: the answer is longer than anything that was asked for")


def arguments(text: str) -> dict[str, Json]:
    """The object in ``text``; empty text is an empty object. What cannot be read becomes
    ``{UNREADABLE: text}``, which no tool's input accepts, so that the model gets an error result
    that quotes what it wrote."""
    for candidate in (text.strip() or "{}", *_repairs(text)):
        try:
            value: object = json.loads(candidate)
            if isinstance(value, str):  # an object that was stringified twice
                value = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return cast("dict[str, Json]", value)
    return {UNREADABLE: text}


def _repairs(text: str) -> list[str]:
    """Only repairs that cannot change a value: a code fence around, raw control characters in
    strings, a comma before a closing bracket."""
    bare = re.sub(r"^\s*```(?:json)?\s*|\s*```\s*$", "", text).strip()
    found = [bare]
    with contextlib.suppress(ValueError, RecursionError):
        found.append(json.dumps(json.loads(bare, strict=False)))
    found.append(_without_trailing_commas(bare))
    return found


def _without_trailing_commas(text: str) -> str:
    kept: list[str] = []
    quoted = escaped = False
    for letter in text:
        if quoted:
            quoted = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            quoted = True
        elif letter in "}]":
            while kept and (kept[-1].isspace() or kept[-1] == ","):
                kept.pop()
        kept.append(letter)
    return "".join(kept)


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
