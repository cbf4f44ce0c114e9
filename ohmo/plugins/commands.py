"""``/plugin:NAME:FILE ARGUMENTS``, or ``/FILE ARGUMENTS`` where only that can be meant: the words
of a plugin's file, said as a person's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

_SAID = re.compile(
    r"\s*/(?P<name>[^\s@]+)(?:@\S+)?(?:\s+(?P<argument>.*))?\s*", re.DOTALL | re.IGNORECASE
)
_PLACE = "$ARGUMENTS"
_MOST = 20  # places that are filled


def named(plugins: Mapping[str, Mapping[str, str]], taken: Collection[str]) -> Mapping[str, str]:
    """Words by all that may stand behind the slash, in lower case: the whole name, as published
    plugins are told of (``NAME:FILE``), and the file's alone; the short ones where only one command
    has them. ``plugins``: words by file of each, by its name. ``taken``: short names that mean
    something else, in lower case."""
    whole = {
        f"{plugin}:{file}".lower(): (file.lower(), words)
        for plugin, files in plugins.items()
        for file, words in files.items()
    }
    short = Counter([*whole, *(file for file, _ in whole.values())])
    found = {f"plugin:{name}": words for name, (_, words) in whole.items()}
    for name, (file, words) in whole.items():
        found |= {each: words for each in (name, file) if short[each] == 1 and each not in taken}
    return found


def spelled(text: str, commands: Mapping[str, str]) -> str | None:
    """What is meant; None: it is no such command, or none of these. ``commands``: as ``named``
    gives them."""
    match = _SAID.fullmatch(text)
    words = commands.get(match["name"].lower()) if match is not None else None
    if match is None or words is None:
        return None
    argument = (match["argument"] or "").strip()
    if _PLACE in words:
        return words.replace(_PLACE, argument, _MOST)
    return f"{words}\n\n{argument}" if argument else words
