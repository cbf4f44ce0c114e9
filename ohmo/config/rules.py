"""How a permission rule is written; what it covers is decided in ``ohmo/permissions``."""

from __future__ import annotations

import difflib
import ipaddress
import re
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import BeforeValidator, ValidationInfo

from channels.entry_points import offered
from ohmo.config.values import expand_text

_FORM = re.compile(r"(?P<tool>[A-Za-z][\w-]*|mcp__[\w*-]+)(?:\((?P<pattern>.+)\))?", re.DOTALL)
_NAME = re.compile(r"\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", re.IGNORECASE | re.ASCII)


@cache
def tool_names() -> tuple[str, ...]:
    """What rules may name, beside ``mcp__server__tool``; none is imported for it: each tool has a
    page in ``ohmo/tools/texts``, and one of another package is called as its entry point."""
    pages = resources.files("ohmo").joinpath("tools", "texts").iterdir()
    names = {page.name.removesuffix(".txt") for page in pages if page.name.endswith(".txt")}
    return tuple(sorted(names | offered("ohmo.tools").names))


def form_of(text: str) -> tuple[str, str | None]:
    """The tool and the pattern between its parentheses, None for every call. Raises ValueError with
    one line."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not a rule; write Tool or Tool(pattern), for example Bash(git"
            " status:*) or Read(${WORKSPACE}/**)"
        )
    tool, pattern = match["tool"], match["pattern"]
    if pattern is None or pattern.strip() in ("", "*", "**"):
        return tool, None
    # What no call can be would guard nothing, silently.
    if tool == "Bash" and not pattern.strip().removesuffix(":*").strip():
        raise ValueError(f"{text!r} names no command; write Bash for all of them")
    if tool == "WebFetch" and not _is_host(pattern.strip()):
        raise ValueError(
            f"{text!r}: WebFetch takes domain:HOST, a name without https://, port or path and with"
            " other letters as xn--…, for example WebFetch(domain:example.org)"
        )
    return tool, pattern


def _is_host(pattern: str) -> bool:
    kind, _, host = pattern.partition(":")
    if kind != "domain":
        return False
    try:
        return _NAME.fullmatch(host) is not None or bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def named_tool(tool: str) -> None:
    """Raises ValueError with one line for a tool that does not exist: a rule about it would guard
    nothing, silently."""
    if tool.startswith("mcp__") or tool in tool_names():
        return
    lower = {name.lower(): name for name in tool_names()}
    guess = difflib.get_close_matches(tool.lower(), lower, n=1)
    hint = f"did you mean {lower[guess[0]]}?" if guess else f"only {', '.join(tool_names())}"
    raise ValueError(f"there is no tool {tool!r}, {hint}")


def _rule(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    named_tool(form_of(value)[0])
    return expand_text(value.strip(), info)


Rule = Annotated[str, BeforeValidator(_rule)]
