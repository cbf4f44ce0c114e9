"""Arguments of tool calls as models really write them. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from typing import cast

from ohmo.contracts.messages import UNREADABLE, Json


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
