"""``/plugin:NAME:FILE ARGUMENTS``, or ``/FILE ARGUMENTS`` where only that can be meant: the words
of a plugin's file, said as a person's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

_SAID = re.compile(
    r"\s*/(?P<name>[^\s@]+)(?:@\S+)?(?:\s+(?P<argument>.*))?\s*", re.DOTALL | re.IGNORECASE
)
#: All words, or one of them; no sum of money, and no word that was not said.
_PLACE = re.compile(r"\$ARGUMENTS(?:\[(?P<at>\d{1,2})\])?|\$(?P<nth>\d{1,2})(?!\d|[.,]\d)")
_WORD = re.compile(r"\"(?P<two>[^\"]*)\"|'(?P<one>[^']*)'|(?P<plain>\S+)")
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
    found = {f"plugin:{name}": words for name, (_, words) in whole.items()}
    # A file may be called as another plugin's whole name (commands/plugin/NAME/FILE.md).
    short = Counter([*found, *whole, *(file for file, _ in whole.values())])
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
    found = _filled(words, argument)
    return found if found != words or not argument else f"{words}\n\n{argument}"


def _filled(words: str, argument: str) -> str:
    """As published commands are written: ``$1`` is the first word, but where ``$0`` or
    ``$ARGUMENTS[0]`` stands, which is (code.claude.com/docs/en/skills). Quotes hold words
    together."""
    places = [(match["at"], match["nth"]) for match in _PLACE.finditer(words)]
    first = 0 if any(at or nth == "0" for at, nth in places) else 1
    single = any(at or nth for at, nth in places)
    said = [match[match.lastgroup or 0] for match in _WORD.finditer(argument)] if single else []

    def fill(match: re.Match[str]) -> str:
        number = match["at"] or match["nth"]
        if number is None:
            return argument
        at = int(number) - first
        return said[at] if 0 <= at < len(said) else match[0]

    return _PLACE.sub(fill, words, _MOST)
