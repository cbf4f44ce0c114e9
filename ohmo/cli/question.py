"""What a permission card asks for, read back from its text: tool, argument, and the rule that would
allow exactly this."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from channels.record import record
from ohmo.cli.show import clean

_TITLE = re.compile(r"(?P<tool>[A-Za-z][\w-]*)(?:: (?P<about>.+))?", re.DOTALL)
_LINE = re.compile(r"(?P<name>\w+): `(?P<value>[^`\n]+)`")
_FENCE = re.compile(r"`{3,}")
_WRITTEN_OUT = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|r)")


@record
class Wanted:
    """``argument`` and ``value``: what the call is about, when the card shows it whole and on one
    line; else empty."""

    tool: str
    argument: str
    value: str
    rule: str


def read(question: Mapping[str, Any]) -> Wanted:
    """Nothing is guessed: what is cut, spread over lines or holds what nobody sees has no value,
    and only a rule for the whole tool can cover it."""
    title, detail = str(question["title"]), str(question["detail"])
    match = _TITLE.fullmatch(title) if question["kind"] == "permission" else None
    if match is None:
        return Wanted("", "", "", clean(title)[:200])
    about = match["about"]
    for line in _outside_of_fences(detail):
        shown = _LINE.fullmatch(line)
        if shown is not None and shown["value"] == about and not _WRITTEN_OUT.search(about):
            return Wanted(match["tool"], shown["name"], about, f"{match['tool']}({clean(about)})")
    return Wanted(match["tool"], "", "", match["tool"])


def _outside_of_fences(detail: str) -> Iterator[str]:
    """The lines that the house wrote: what a text of several lines says of itself is no
    argument."""
    fence = ""
    for line in detail.split("\n"):
        if not fence:
            yield line
            fence = line if _FENCE.fullmatch(line) else ""
        elif line == fence:
            fence = ""
