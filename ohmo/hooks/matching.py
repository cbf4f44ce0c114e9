"""Which calls a hook is about: by the name of the tool and by its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from ohmo.contracts.messages import Json, ToolCall

_NAMES = re.compile(r"[A-Za-z0-9_|, -]+")
_RULE = re.compile(r"([A-Za-z0-9_]+)(?:\((.*)\))?", re.DOTALL)
_PARTS = re.compile(r"&&|\|\||[;|&\n]")
_UNCLEAR = re.compile(r"[`(){}]|\$\(|<<")
_ASSIGNED = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*=\S*\s+)+")
#: The argument a condition is about; of other tools: all of them as one text.
_ABOUT = {
    "Bash": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "WebFetch": "url",
    "Glob": "pattern",
    "Grep": "pattern",
}


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


def fits(condition: str, call: ToolCall) -> bool:
    """Whether one rule as in ``Bash(rm *)`` is about the call. Of a command each part counts, and
    one that is not plainly made of parts always fits: the hook is rather asked too often."""
    if not condition:
        return True
    read = _RULE.fullmatch(condition.strip())
    if read is None or read[1] != call.name:
        return False
    pattern = read[2]
    if pattern is None or pattern in ("", "*"):
        return True
    text = _about(call.name, call.arguments)
    if call.name != "Bash":
        pattern = pattern.replace("**", "*")
        return fnmatchcase(text, pattern) or fnmatchcase(text, f"*/{pattern}")
    if _UNCLEAR.search(text):
        return True
    return any(_command(pattern, part) for part in (text, *_PARTS.split(text)))


def _command(pattern: str, part: str) -> bool:
    words = _ASSIGNED.sub("", part.strip(), count=1) if _ASSIGNED.match(part.strip()) else part
    words = words.strip()
    if pattern.endswith(":*"):  # the older way to write it
        pattern = f"{pattern[:-2]} *"
    return fnmatchcase(words, pattern) or (pattern.endswith(" *") and words == pattern[:-2])


def _about(name: str, arguments: Mapping[str, Json]) -> str:
    if name in _ABOUT:
        return str(arguments.get(_ABOUT[name], ""))
    return " ".join(map(str, arguments.values()))
