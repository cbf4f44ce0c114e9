"""``/plugin:NAME:FILE ARGUMENTS``: the words of a plugin's file, said as a person's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAID = re.compile(
    r"\s*/plugin:(?P<name>[^\s@]+)(?:@\S+)?(?:\s+(?P<argument>.*))?\s*", re.DOTALL | re.IGNORECASE
)
_PLACE = "$ARGUMENTS"
_MOST = 20  # places that are filled


def spelled(text: str, commands: Mapping[str, str]) -> str | None:
    """What is meant; None: it is no such command, or none of these. ``commands``: words by
    ``name:file`` in lower case."""
    match = _SAID.fullmatch(text)
    words = commands.get(match["name"].lower()) if match is not None else None
    if match is None or words is None:
        return None
    argument = (match["argument"] or "").strip()
    if _PLACE in words:
        return words.replace(_PLACE, argument, _MOST)
    return f"{words}\n\n{argument}" if argument else words
