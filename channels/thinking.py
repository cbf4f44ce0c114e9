"""What local models (DeepSeek R1, Qwen, QwQ and others) think aloud before their answer, between ``<think>`` and ``</think>``."""

from __future__ import annotations

import re

_THINKING = re.compile(r"\A\s*<think>(.*?)(?:</think>|\Z)\s*", re.DOTALL | re.IGNORECASE)


def quoted(text: str) -> str:
    """CommonMark with the thinking as a quote, also while it is still being thought. Done twice it is the same."""
    found = _THINKING.match(text)
    if found is None:
        return text
    thought = found[1].strip()
    quote = "\n".join(f"> {line}".rstrip() for line in thought.split("\n"))
    return f"{quote}\n\n{text[found.end() :]}".rstrip() if thought else text[found.end() :]


def without(text: str) -> str:
    """The answer alone."""
    return _THINKING.sub("", text)
