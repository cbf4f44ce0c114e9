"""File name patterns as people know them from ripgrep: ``*.py`` anywhere, ``src/**/*.ts``,
``{a,b}``, ``[ab]``."""

from __future__ import annotations

import re
from functools import lru_cache

from ohmo.tools.answers import Trouble

_MOST = 1000


@lru_cache(maxsize=256)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Matches relative paths with ``/``. A pattern without ``/`` matches the last component
    anywhere. Raises Trouble."""
    if len(pattern) > _MOST:
        raise Trouble(f"`pattern` is longer than {_MOST} characters")
    anchored = pattern.removeprefix("./")
    body = _translated(anchored.lstrip("/"))
    return re.compile(body if "/" in anchored else f"(?:.*/)?{body}", re.DOTALL)


def _translated(pattern: str) -> str:
    out: list[str] = []
    depth = at = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**", at):
            end = at + 2
            whole = (at == 0 or pattern[at - 1] in "/{,") and (
                end == len(pattern) or pattern[end] in "/},"
            )
            if whole and pattern[end : end + 1] == "/":
                out.append("(?:[^/]+/)*")
                end += 1
            else:
                out.append(".*" if whole else "[^/]*")
            at = end
            continue
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = pattern.find("]", at + 2)
            if end < 0:
                raise Trouble(f"`{pattern}`: a [ without its ]; write \\[ for the character itself")
            body = (
                pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            )
            out.append(
                f"(?!/)[{'^' + body[1:].removeprefix(chr(92)) if body[0] == '!' else '^' + body[2:] if body.startswith(chr(92) + '^') else body}]"
            )
            at = end
        elif char == "{":
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        elif char == "\\" and at + 1 < len(pattern):
            at += 1
            out.append(re.escape(pattern[at]))
        else:
            out.append(re.escape(char))
        at += 1
    if depth:
        raise Trouble(f"`{pattern}`: a {{ without its }}; write \\{{ for the character itself")
    try:
        re.compile("".join(out))
    except re.error as error:
        raise Trouble(f"`{pattern}` is no pattern: {error}") from error
    return "".join(out)
