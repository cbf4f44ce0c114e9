"""How much of a model's window words, steps and tools take: estimates that are rather too high."""

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

FRAME = 80  # tokens of the words around a summary
IMAGE_TOKENS = 1_600  # the most Anthropic and OpenAI bill for one picture


def tokens_of(text: str) -> int:
    """An estimate that is rather too high: 3.5 Latin characters or one Han, kana or Hangul
    character a token."""
    wide = sum(1 for char in text if char >= "\u2e80") if not text.isascii() else 0
    return int((len(text) - wide) / 3.5) + wide + 4


def beginning(text: str, most: int) -> str:
    """At most so many characters of it: to the end of a line; within a long one at a word, where
    else a quarter of them would be lost."""
    if len(text) <= most:
        return text
    head = text[: max(0, most)]
    ends = (head.rfind(end) for end in ("\n", " "))
    return head[: next((at for at in ends if at >= most * 3 // 4), None)]


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
        case Compaction(summary, carry=carry):
            return tokens_of(summary + carry) + FRAME
        case _:
            return 0


def request_tokens(request: ModelRequest) -> int:
    """Estimated tokens of everything that is sent; rather too many."""
    return (
        sum(tokens_of(section.text) for section in request.system)
        + sum(spec_tokens(spec) for spec in request.tools)
        + sum(step_tokens(step) for step in request.steps)
    )
