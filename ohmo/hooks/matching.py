"""Which calls a hook is about by the name of the tool, and how it is written."""

from __future__ import annotations

import re
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

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
    pattern = _linear(tools)
    return pattern.isinstance_python(name) if pattern is not None else bool(re.search(tools, name))


def takes_its_time(tools: str) -> bool:
    """Whether only Python can match it, which may take years for a name that is well chosen."""
    return tools not in ("", "*") and not _NAMES.fullmatch(tools) and _linear(tools) is None


@lru_cache(maxsize=256)
def _linear(pattern: str) -> SchemaValidator | None:
    """Pydantic's way to the regular expressions of Rust, which know neither look-around nor
    backreferences and run in linear time. None: they cannot read it."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except (SchemaError, ValueError):
        return None
