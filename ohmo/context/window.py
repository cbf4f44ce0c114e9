"""How much of a conversation fits. Whole exchanges are kept, the oldest left out first, in large
pieces. Deterministic, so that a restart sends what would have been sent without it."""

from __future__ import annotations

import json

from ohmo.contracts.messages import (
    CallResult,
    Compaction,
    Image,
    ModelStep,
    Step,
    Text,
    Thinking,
    ToolCall,
    UserStep,
)
from ohmo.contracts.provider import ModelRequest, ToolSpec

IMAGE_TOKENS = 1_600  # the most Anthropic and OpenAI bill for one picture
KEEP_SHARE = 0.6  # of the budget that stays after a cut


def tokens_of(text: str) -> int:
    """An estimate that is rather too high: 3.5 Latin characters or one Han, kana or Hangul
    character a token."""
    wide = sum(1 for char in text if char >= "\u2e80") if not text.isascii() else 0
    return int((len(text) - wide) / 3.5) + wide + 4


def spec_tokens(spec: ToolSpec) -> int:
    """Estimated tokens of a tool as a model is told of it."""
    return tokens_of(f"{spec.name} {spec.description} {spec.schema}")


def step_tokens(step: Step) -> int:
    """Estimated tokens of one step; 0 for steps the model never sees."""
    match step:
        case UserStep(blocks, _, _):
            return sum(
                IMAGE_TOKENS if isinstance(block, Image) else tokens_of(block.text)
                for block in blocks
            )
        case ModelStep(blocks, _, _):
            total = 0
            for block in blocks:
                match block:
                    case Text(text):
                        total += tokens_of(text)
                    case Thinking(_, opaque):
                        total += tokens_of(opaque)
                    case ToolCall(_, name, arguments, _):
                        words = json.dumps(dict(arguments), ensure_ascii=False, default=str)
                        total += tokens_of(name) + tokens_of(words)
            return total
        case CallResult(result):
            return tokens_of(result.text) + IMAGE_TOKENS * len(result.images)
        case Compaction(summary, _):
            return tokens_of(summary)
        case _:
            return 0


def request_tokens(request: ModelRequest) -> int:
    """Estimated tokens of everything that is sent; rather too many."""
    return (
        sum(tokens_of(section.text) for section in request.system)
        + sum(spec_tokens(spec) for spec in request.tools)
        + sum(step_tokens(step) for step in request.steps)
    )


class Window:
    """Where the conversation begins for the model. Fed with every step once, in order; ``start`` is
    an index into those not yet forgotten.

    ``budget``: tokens for the conversation (the model's window less system, tools, answer and
    reserve). What the house or the person adds while the exchange runs (notices, steering, further
    messages of the same turn) never begins an exchange.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._sizes: list[int] = []
        self._starts: list[int] = []  # indexes where an exchange begins (a person speaks)
        self._speaking = False  # the last step was somebody's words
        self._sum = 0
        self.start = 0

    def add(self, step: Step) -> None:
        """Append; may move ``start``."""
        size = step_tokens(step)
        if (
            isinstance(step, UserStep)
            and step.source in ("message", "wake", "context")
            and not self._speaking
        ):
            self._starts.append(len(self._sizes))
        self._speaking = isinstance(step, UserStep)
        self._sizes.append(size)
        self._sum += size
        if self._sum > self._budget:
            self.shrink(int(self._budget * KEEP_SHARE))

    def shrink(self, target: int | None = None) -> bool:
        """Leave out the oldest exchanges until at most ``target`` tokens stay (default: half of
        what is there). False: nothing more to leave out."""
        target = self._sum // 2 if target is None else target
        before = self.start
        for start in self._starts:
            if start <= self.start:
                continue
            if self._sum <= target:
                break
            self._sum -= sum(self._sizes[self.start : start])
            self.start = start
        return self.start > before

    def forget(self) -> int:
        """Drop what was left out from the books; how many steps that was. ``start`` is 0
        afterwards."""
        gone, self.start = self.start, 0
        if gone:
            self._sizes = self._sizes[gone:]
            self._starts = [start - gone for start in self._starts if start >= gone]
        return gone
