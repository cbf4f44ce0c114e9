"""What Grep and Glob ask an engine, and what comes back: regular expressions that ripgrep and
Python read the same way (everything else is refused in the same words by both), file name patterns
as people know them from ripgrep (``*.py`` anywhere, ``src/**/*.ts``, ``{a,b}``, ``[ab]``), file
types by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.tools.results import ToolError


@record
class Search:
    """What is searched for."""

    root: Path
    pattern: str
    accepts: Callable[[str], bool]  # which relative paths count
    mode: Literal["content", "files_with_matches", "count"]
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0  # lines of context
    after: int = 0  # lines of context


@record
class Line:
    """A line of a file."""

    number: int
    text: str
    match: bool  # False: context


@record
class Hit:
    """A file with matches."""

    path: str
    count: int  # lines that match
    lines: tuple[Line, ...] = ()  # in content mode


_GROUP = re.compile(r"\(\?(?::|P<[A-Za-z_]\w*>|[ims]+(?:-[ims]+)?:)")
_REPEAT = re.compile(r"\{\d{1,4}(?:,\d{0,4})?\}")
_ESCAPE = re.compile(r"\\(?:[dDwWsSbBntrfv]|x[0-9a-fA-F]{2}|[^A-Za-z0-9<>\s]| )")
_NAMES = {"d": "digits", "w": "word characters", "s": "white space"}
_LONGEST_EXPRESSION = 10_000


def portable(pattern: str) -> str:
    """The pattern itself. Raises ToolError with what to write instead."""
    if len(pattern) > _LONGEST_EXPRESSION:
        raise ToolError(f"`pattern` is longer than {_LONGEST_EXPRESSION} characters")
    at, start = 0, True
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at = _escape(pattern, at)
        elif char == "[":
            at = _class(pattern, at)
        elif char == "(":
            at = _group(pattern, at, start)
        elif char == "{":
            match = _REPEAT.match(pattern, at)
            if match is None:
                raise _refused("a bare {", "escape it with \\{")
            at = match.end()
            if pattern[at : at + 1] in ("+", "*", "{"):
                raise _refused("a repetition of a repetition", "put the first one in ( )")
        elif char in "*+?" and pattern[at + 1 : at + 2] == "+":
            raise _refused("possessive repetition", "leave out the second +")
        elif char in "*+" and pattern[at + 1 : at + 2] == "*":
            raise _refused("a repetition of a repetition", "put the first one in ( )")
        else:
            at += 1
        start = False
    try:
        re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError) as error:
        raise ToolError(
            f"`pattern` is no regular expression: {error}; escape special characters with \\"
        ) from error
    return pattern


def _refused(what: str, instead: str) -> ToolError:
    return ToolError(f"`pattern`: {what} is not supported; {instead}")


def _escape(pattern: str, at: int) -> int:
    match = _ESCAPE.match(pattern, at)
    if match is None:
        shown = pattern[at : at + 2]
        raise _refused(
            f"{shown} ",
            "only \\d \\w \\s \\b, their capitals, \\n \\t \\r \\f \\v \\xHH and escaped"
            " punctuation are",
        )
    return match.end()


def _class(pattern: str, at: int) -> int:
    at += 1
    if pattern[at : at + 1] == "^":
        at += 1
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return at + 1
        if char == "[" or (char == "]" and first):
            raise _refused("a bare bracket inside [ ]", "escape it with \\")
        if pattern[at : at + 2] in ("&&", "--", "~~", "||"):
            raise _refused("set arithmetic inside [ ]", "list the characters")
        if char == "\\":
            if pattern[at + 1 : at + 2] in ("b", "B"):
                raise _refused("\\b inside [ ]", "use \\x08")
            at = _escape(pattern, at)
        else:
            at += 1
        first = False
    raise ToolError("`pattern` is no regular expression: a [ without its ]; escape it with \\[")


def _group(pattern: str, at: int, start: bool) -> int:
    if pattern[at + 1 : at + 2] != "?":
        return at + 1
    if start and (match := re.compile(r"\(\?[ims]+\)").match(pattern, at)):
        return match.end()
    match = _GROUP.match(pattern, at)
    if match is None:
        raise _refused(
            "look-around, back-references, comments and other (?...)",
            "use plain groups ( ), (?: ) or (?i: )",
        )
    return match.end()


_LONGEST_GLOB = 1000


@lru_cache(maxsize=256)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Matches relative paths with ``/``. A pattern without ``/`` matches the last component
    anywhere. Raises ToolError."""
    if len(pattern) > _LONGEST_GLOB:
        raise ToolError(f"`pattern` is longer than {_LONGEST_GLOB} characters")
    anchored = pattern.removeprefix("./")
    body = _translated(anchored.lstrip("/"))
    return re.compile(body if "/" in anchored else f"(?:.*/)?{body}", re.DOTALL)


def _set(inner: str) -> str:
    """``[abc]``, and ``[!abc]`` or ``[^abc]``: any character but a slash and these."""
    body = inner.replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
    if body.startswith("!"):
        body = "^" + body[1:].removeprefix("\\")
    elif body.startswith("\\^"):
        body = "^" + body[2:]
    return f"(?!/)[{body}]"


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
                raise ToolError(
                    f"`{pattern}`: a [ without its ]; write \\[ for the character itself"
                )
            out.append(_set(pattern[at + 1 : end]))
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
        raise ToolError(f"`{pattern}`: a {{ without its }}; write \\{{ for the character itself")
    try:
        re.compile("".join(out))
    except re.error as error:
        raise ToolError(f"`{pattern}` is no pattern: {error}") from error
    return "".join(out)


KINDS: dict[str, tuple[str, ...]] = {
    "c": ("*.c", "*.h", "*.H"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.h", "*.inl"),
    "cs": ("*.cs",),
    "css": ("*.css", "*.scss"),
    "go": ("*.go",),
    "html": ("*.html", "*.htm"),
    "java": ("*.java", "*.jsp"),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue"),
    "json": ("*.json", "*.jsonl"),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "md": ("*.md", "*.markdown", "*.mdx"),
    "php": ("*.php",),
    "py": ("*.py", "*.pyi"),
    "rb": ("*.rb", "Gemfile", "Rakefile"),
    "rust": ("*.rs",),
    "sh": ("*.sh", "*.bash", "*.zsh", ".bashrc", ".profile"),
    "sql": ("*.sql",),
    "swift": ("*.swift",),
    "toml": ("*.toml", "Cargo.lock"),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "txt": ("*.txt",),
    "xml": ("*.xml", "*.xsd", "*.xsl"),
    "yaml": ("*.yaml", "*.yml"),
}
ALIASES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "markdown": "md",
    "ruby": "rb",
    "rs": "rust",
    "shell": "sh",
    "bash": "sh",
    "yml": "yaml",
}
