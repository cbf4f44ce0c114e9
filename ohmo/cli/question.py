"""What a permission is asked for: tool, argument, and the rule that would allow exactly this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.record import record
from ohmo.cli.show import clean


@record
class Wanted:
    """``argument`` and ``value``: what the call is about, when the card shows it whole and on one
    line; else empty, and only a rule for the whole tool can cover it."""

    tool: str
    argument: str
    value: str
    rule: str


def read(question: Mapping[str, Any]) -> Wanted:
    """Of a question as the API sends it; an older daemon tells no tool."""
    tool, about = str(question.get("tool", "")), str(question.get("about", ""))
    if question["kind"] != "permission" or not tool:
        return Wanted("", "", "", clean(question["title"])[:200])
    if not about:
        return Wanted(tool, "", "", tool)
    value = str(question["arguments"][about])
    return Wanted(tool, about, value, f"{tool}({clean(value)})")
