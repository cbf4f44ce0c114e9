"""Which calls a hook is about by the name of the tool, and how it is written."""

from __future__ import annotations

import re

_NAMES = re.compile(r"[A-Za-z0-9_|, -]+")
_RULE = re.compile(r"(?:[A-Za-z][\w-]*|mcp__[\w*-]+)(?:\(.*\))?", re.DOTALL)


def wrong_names(tools: str) -> str:
    """Why this cannot be matched; empty when it can."""
    if tools in ("", "*") or _NAMES.fullmatch(tools):
        return ""
    try:
        re.compile(tools)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{tools!r} is neither names (Edit|Write) nor a regular expression: {error}"
    return ""


def wrong_condition(condition: str) -> str:
    """The same of what stands in ``if``."""
    if not condition or _RULE.fullmatch(condition.strip()):
        return ""
    return f"{condition!r} is not of the form Bash(git push *)"


def names(tools: str, name: str) -> bool:
    """As Claude Code documents matchers: ``*``, nothing, a name, ``A|B`` or ``A, B``; whatever has
    another sign in it is a regular expression that may be found anywhere in the name."""
    if tools in ("", "*"):
        return True
    if _NAMES.fullmatch(tools):
        return name in (part.strip() for part in re.split(r"[|,]", tools))
    return re.search(tools, name) is not None
