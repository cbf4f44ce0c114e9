"""Searches without ripgrep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ohmo.tools.answers import Trouble
from ohmo.tools.files.opening import Opening
from ohmo.tools.files.text import coding_of
from ohmo.tools.search.request import Hit, Line, Search
from ohmo.tools.search.walk import walk

_MOST = 64 * 1024 * 1024  # larger files are left to ripgrep


def search(request: Search, opening: Opening, stop: Callable[[], bool]) -> Iterator[Hit]:
    """Files with matches, in path order."""
    yield from look(request, candidates(request, opening, stop), opening)


def candidates(request: Search, opening: Opening, stop: Callable[[], bool]) -> Iterator[str]:
    """The files to look into, relative to the root; "" is the root itself."""
    if request.root.is_file():
        yield ""
    else:
        yield from (path for path in walk(request.root, opening, stop) if request.accepts(path))


def look(request: Search, paths: Iterable[str], opening: Opening) -> Iterator[Hit]:
    flags = (
        re.MULTILINE
        | (re.IGNORECASE if request.ignore_case else 0)
        | (re.DOTALL if request.multiline else 0)
    )
    expression = re.compile(request.pattern, flags)
    for path in paths:
        try:
            data, _ = opening.content(request.root / path, _MOST)
        except (OSError, Trouble):
            continue
        if (hit := _file(data, path or request.root.name, expression, request)) is not None:
            yield hit


def _file(data: bytes, shown: str, expression: re.Pattern[str], request: Search) -> Hit | None:
    coding = coding_of(data[:8192], whole=True)
    wide = coding is not None and coding.name.startswith("utf-16")
    if not wide and b"\0" in data:
        return None
    text = (
        data[len(coding.bom) :].decode(coding.name, "replace")
        if coding is not None and wide
        else _utf8(data)
    )
    matched = (
        _lines_across(text, expression) if request.multiline else _lines_within(text, expression)
    )
    if not matched:
        return None
    lines = _with_context(text.split("\n"), matched, request) if request.mode == "content" else ()
    return Hit(shown, len(matched), lines)


def _utf8(data: bytes) -> str:
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _lines_within(text: str, expression: re.Pattern[str]) -> list[int]:
    """Numbers of the lines that match, from 0."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [number for number, line in enumerate(lines) if expression.search(line)]


def _lines_across(text: str, expression: re.Pattern[str]) -> list[int]:
    """Every line that a match touches."""
    touched: set[int] = set()
    for match in expression.finditer(text):
        first = text.count("\n", 0, match.start())
        last = text.count("\n", 0, max(match.start(), match.end() - 1))
        if match.start() == len(text) and text.endswith("\n"):
            continue
        touched.update(range(first, last + 1))
    return sorted(touched)


def _with_context(lines: list[str], matched: list[int], request: Search) -> tuple[Line, ...]:
    if lines and lines[-1] == "":
        lines = lines[:-1]
    wanted: set[int] = set()
    for number in matched:
        wanted.update(
            range(max(0, number - request.before), min(len(lines), number + request.after + 1))
        )
    hits = set(matched)
    return tuple(Line(number + 1, lines[number], number in hits) for number in sorted(wanted))
