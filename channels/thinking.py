"""What local models (DeepSeek R1, Qwen, QwQ and others) think aloud before their answer, between
``<think>`` and ``</think>``."""

from __future__ import annotations

import re

_BEGIN, _END = "<think>", "</think>"
_THINKING = re.compile(r"\A\s*<think>(.*?)(?:</think>|\Z)\s*", re.DOTALL | re.IGNORECASE)


def quoted(text: str) -> str:
    """CommonMark with the thinking as a quote, also while it is still being thought. Done twice it
    is the same."""
    found = _THINKING.match(text)
    if found is None:
        return text
    thought = found[1].strip()
    quote = "\n".join(f"> {line}".rstrip() for line in thought.split("\n"))
    return f"{quote}\n\n{text[found.end() :]}".rstrip() if thought else text[found.end() :]


def without(text: str) -> str:
    """The answer alone."""
    return _THINKING.sub("", text)


def growing(text: str) -> str:
    """``quoted`` of an answer that is still written: only what no later text changes, so that what
    was shown stays as it was. A mark that is not complete yet is held back."""
    beginning = text.lstrip().lower()
    if len(beginning) < len(_BEGIN) and _BEGIN.startswith(beginning):
        return ""
    if beginning.startswith(_BEGIN) and _END not in beginning:
        held = next(
            (size for size in range(len(_END) - 1, 0, -1) if beginning.endswith(_END[:size])), 0
        )
        text = text[: len(text) - held].rstrip()
    return quoted(text)
