"""What a request is made of, in layers that each become shorter in their own way: the prompt never
does; the plan keeps what is being done and what comes next; exchanges that are over lose what tools
answered; the one that runs keeps the two ends of it. Pure: the same rows give the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from channels.record import record
from ohmo.context.window import spec_tokens, step_tokens, tokens_of
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    ModelStep,
    Step,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.provider import Section, ToolSpec

Row = tuple[int, Step]
"""A step with its number in the log."""
SHORT = 240  # characters of a result that stays as it is
HEAD = 1_200  # characters that stay of a result of the exchange that runs
TAIL = 800
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x] decided:"}


@record
class SystemLayer:
    """Prompt and tools: what stays the same, byte for byte."""

    sections: tuple[Section, ...]
    tools: tuple[ToolSpec, ...] = ()

    @property
    def tokens(self) -> int:
        prompt = sum(tokens_of(section.text) for section in self.sections)
        return prompt + sum(spec_tokens(spec) for spec in self.tools)

    def shrunk(self, budget: int) -> SystemLayer:  # noqa: ARG002
        """Itself, whatever the budget."""
        return self


@record
class PlanLayer:
    """``steps``: their words and states, in order. ``more``: so many are left out behind them,
    ``first``: the number of the first."""

    steps: tuple[tuple[str, str], ...]
    first: int = 1
    more: int = 0

    @property
    def tokens(self) -> int:
        return tokens_of(self.text) if self.steps else 0

    @property
    def text(self) -> str:
        lines = [f"(steps 1 to {self.first - 1} are decided)"] if self.first > 1 else []
        lines += [
            f"{number}. {_MARKS.get(state, '[ ]')} {words}"
            for number, (words, state) in enumerate(self.steps, self.first)
        ]
        return "\n".join([*lines, f"(and {self.more} more)"] if self.more else lines)

    def shrunk(self, budget: int) -> PlanLayer:
        """Whole, else the current step and the next two, else less of their words."""
        if self.tokens <= budget:
            return self
        states = [state for _, state in self.steps]
        undone = [at for at, state in enumerate(states) if state != "completed"]
        current = states.index("in_progress") if "in_progress" in states else -1
        current = max(0, current if current >= 0 else min(undone, default=len(states) - 1))
        near = self.steps[current : current + 3]
        room = max(20, int((budget - 40) * 3.5 / 3))
        more = len(self.steps) - current - len(near)
        cut = tuple((words[:room], state) for words, state in near)
        return PlanLayer(cut, self.first + current, self.more + more)


@record
class History:
    """Exchanges that are over."""

    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        return tokens_in(self.rows)

    def lines(self, before: int) -> History:
        """Level 1: results with a lower number are one line each."""
        calls = _calls(self.rows)
        return History(
            tuple(
                (seq, CallResult(_line(step.result, calls)))
                if seq < before and isinstance(step, CallResult)
                else (seq, step)
                for seq, step in self.rows
            )
        )

    def counts(self, before: int) -> History:
        """Level 2: of calls whose results have a lower number stays how many there were of each
        kind, with what was said beside them."""
        ended = {step.result.call: seq for seq, step in self.rows if isinstance(step, CallResult)}
        kept: list[Row] = []
        gone: set[str] = set()
        held: list[tuple[int, ModelStep]] = []  # counted, and not yet written
        for seq, step in self.rows:
            if isinstance(step, CallStarted | CallResult) and _call_of(step) in gone:
                continue
            calls = _called(step)
            over = all(ended.get(call.id, before) < before for call in calls)
            if isinstance(step, ModelStep) and calls and over:
                held.append((seq, step))
                gone |= {call.id for call in calls}
                continue
            joined = held and isinstance(step, ModelStep)
            if held and not joined:
                kept.append((held[-1][0], _counted(held)))
            kept.append((seq, _counted(held, step) if joined else step))
            held = []
        return History((*kept, (held[-1][0], _counted(held))) if held else tuple(kept))

    def shrunk(self, budget: int, again: int = 0) -> History:
        """The mildest that fits: whole, lines, counts of what was cleared before (``again``), at
        last without the oldest exchanges."""
        end = self.rows[-1][0] + 1 if self.rows else 0
        layer = self
        for layer in (self, self.lines(end), self.lines(end).counts(again)):
            if layer.tokens <= budget:
                return layer
        left = layer.tokens
        begins = starts(layer.rows)
        for start, after in zip(begins, [*begins[1:], len(layer.rows)], strict=True):
            left -= tokens_in(layer.rows[start:after])
            if left <= budget:
                return History(layer.rows[after:])
        return History(())


@record
class Working:
    """The exchange that runs."""

    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        return tokens_in(self.rows)

    def ends(self, before: int, lines: int = 0) -> Working:
        """Results with a number below ``before`` keep head and tail, those below ``lines`` become
        one line each."""
        calls = _calls(self.rows)
        shorter: list[Row] = []
        for seq, step in self.rows:
            if not isinstance(step, CallResult) or seq >= before:
                shorter.append((seq, step))
                continue
            result = _line(step.result, calls) if seq < lines else _ends(step.result)
            shorter.append((seq, CallResult(result)))
        return Working(tuple(shorter))

    def shrunk(self, budget: int) -> Working:
        """Whole, else head and tail of each result, else a line of each."""
        end = self.rows[-1][0] + 1 if self.rows else 0
        for layer in (self, self.ends(end)):
            if layer.tokens <= budget:
                return layer
        return self.ends(end, end)


def tokens_in(rows: Sequence[Row]) -> int:
    return sum(step_tokens(step) for _, step in rows)


def starts(rows: Sequence[Row]) -> list[int]:
    """Where exchanges begin: somebody speaks, and no call is open. What the house or the person
    adds while one runs (notices, steering, further messages of its turn) begins none."""
    found: list[int] = []
    calls: set[str] = set()
    speaking = False
    for at, (_, step) in enumerate(rows):
        match step:
            case UserStep(source=source):
                begins = source in ("message", "wake", "context", "memory")
                if begins and not speaking and not calls:
                    found.append(at)
                speaking = True
                continue
            case ModelStep():
                calls |= {call.id for call in _called(step)}
            case CallResult(result):
                calls.discard(result.call)
            case _:
                pass
        speaking = False
    return found


def divided(rows: tuple[Row, ...]) -> tuple[History, Working]:
    """What is over, and what runs."""
    begins = starts(rows)
    at = begins[-1] if begins else 0
    return History(rows[:at]), Working(rows[at:])


def shortened_rows(
    rows: tuple[Row, ...], keeps_from: int, before: int, again: int
) -> tuple[Row, ...]:
    """What is still sent when all below ``keeps_from`` is left out and results below ``before`` are
    cleared; those below ``again`` were cleared once already."""
    history, working = divided(tuple(_whole(row for row in rows if row[0] >= keeps_from)))
    if before:
        history = history.lines(before).counts(again)
        working = working.ends(before, again)
    return (*history.rows, *working.rows)


def _whole(rows: Iterator[Row]) -> Iterator[Row]:
    """Without results whose call was left out."""
    calls: set[str] = set()
    for seq, step in rows:
        if isinstance(step, ModelStep):
            calls |= {call.id for call in _called(step)}
        elif isinstance(step, CallStarted | CallResult) and _call_of(step) not in calls:
            continue
        yield seq, step


def _call_of(step: CallStarted | CallResult) -> str:
    return step.call if isinstance(step, CallStarted) else step.result.call


def _called(step: Step) -> list[ToolCall]:
    blocks = step.blocks if isinstance(step, ModelStep) else ()
    return [block for block in blocks if isinstance(block, ToolCall)]


def _calls(rows: Sequence[Row]) -> dict[str, ToolCall]:
    return {call.id: call for _, step in rows for call in _called(step)}


def _line(result: ToolResult, calls: Mapping[str, ToolCall]) -> ToolResult:
    if len(result.text) <= SHORT and not result.images:
        return result
    call = calls.get(result.call)
    name = call.name if call is not None else "tool"
    places = ", ".join((*result.writes, *result.reads))[:120]
    first = result.text.strip().splitlines()[0][:100] if result.text.strip() else ""
    lines = result.text.count("\n") + 1
    text = f"[cleared: {name} {places or first}, {lines} lines]"
    return replace(result, text=text, images=(), spill=None)


def _ends(result: ToolResult) -> ToolResult:
    left_out = len(result.text) - HEAD - TAIL
    if left_out <= SHORT:
        return result
    text = f"{result.text[:HEAD]}\n[... {left_out} characters left out ...]\n{result.text[-TAIL:]}"
    return replace(result, text=text)


def _counted(held: Sequence[tuple[int, ModelStep]], then: Step | None = None) -> ModelStep:
    """``held`` as words, before what the model said next."""
    counted = Counter(call.name for _, step in held for call in _called(step))
    tools = ", ".join(f"{name} {count}x" for name, count in sorted(counted.items()))
    texts = [block.text for _, step in held for block in step.blocks if isinstance(block, Text)]
    words = "\n".join([*(text for text in texts if text.strip()), f"[tools used: {tools}]"])
    if not isinstance(then, ModelStep):
        return ModelStep((Text(words),), held[-1][1].model, "end")
    rest = tuple(block for block in then.blocks if not isinstance(block, Thinking))
    return replace(then, blocks=(Text(words), *rest))
