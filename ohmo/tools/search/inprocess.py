"""Searches without ripgrep: walks the files, looks for a pattern in them, and for one that may take
for ever (backtracking) does so in a process of its own: order on stdin, hits on stdout, both
JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import cast

from channels.record import record
from ohmo.permissions.sensitive_places import FileAliases
from ohmo.tools.files import Opening, coding_of
from ohmo.tools.isolated import bounded, run_isolated
from ohmo.tools.results import ToolError
from ohmo.tools.search.request import Hit, Line, Search

_FOLDER = "ps_d"  # the group with which pathspec marks the slash behind a folder that a line names
_MOST_RULES = 1 << 20  # bytes of one file of rules


@record
class _Rules:
    """One ``.gitignore``."""

    folder: str  # absolute
    #: Of each line, the last one first, what it names and whether that is ignored.
    lines: tuple[tuple[re.Pattern[str], bool], ...]


def _spec(folder: str, opening: Opening) -> tuple[_Rules, ...]:
    """Through a link, as ripgrep reads it; never from a pipe, or from what no tool may open."""
    try:
        data, _ = opening.content(Path(folder, ".gitignore").resolve(), _MOST_RULES)
    except (OSError, RuntimeError, ToolError):
        return ()
    # Three engines are looked for: only when there is something to ignore.
    from pathspec import GitIgnoreSpec, RegexPattern

    lines: list[tuple[re.Pattern[str], bool]] = []
    for text in data.decode("utf-8-sig", "replace").splitlines():
        with suppress(ValueError):  # no pattern
            patterns = GitIgnoreSpec.from_lines([text]).patterns
            lines += [
                (cast("re.Pattern[str]", each.regex), each.include)
                for each in patterns
                if isinstance(each, RegexPattern) and each.include is not None
            ]
    return (_Rules(folder, tuple(reversed(lines))),)


def _is_repository(folder: str) -> bool:
    return os.path.lexists(f"{folder}/.git")


def _inherited(root: str, opening: Opening) -> tuple[_Rules, ...] | None:
    """Rules from above ``root`` down to its parent, when it stands inside a repository; None when
    it does not."""
    if _is_repository(root):
        return ()
    above: list[_Rules] = []
    folder: str = root
    while folder != "/":
        folder = folder.rpartition("/")[0] or "/"
        above = [*_spec(folder, opening), *above]
        if _is_repository(folder):
            return tuple(above)
    return None


def _ignored(rules: tuple[_Rules, ...], path: str, folder: bool) -> bool:
    """The deepest file that says something decides."""
    for each in reversed(rules):
        relative = path[len(each.folder.rstrip("/")) + 1 :] + ("/" if folder else "")
        verdict = next((ignored for line, ignored in each.lines if _names(line, relative)), None)
        if verdict is not None:
            return verdict
    return False


def _names(line: re.Pattern[str], relative: str) -> bool:
    """Whether a line names the entry itself. Of one that names a folder above it nothing follows
    here: below the top such a folder is never entered, and whoever asks for an ignored folder by
    its name wants to see what is in it."""
    match = line.search(relative)
    if match is None:
        return False
    if _FOLDER not in line.groupindex or match[_FOLDER] is None:
        return True
    return any(each.end(_FOLDER) == len(relative) for each in line.finditer(relative))


def walk(root: Path, opening: Opening, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Relative paths with ``/``, in the order of their components. Unreadable folders are left out.
    ``stop`` ends it early."""
    top = str(root)
    yield from _below(top, "", _inherited(top, opening), opening, stop)


def _below(
    folder: str,
    prefix: str,
    rules: tuple[_Rules, ...] | None,
    opening: Opening,
    stop: Callable[[], bool],
) -> Iterator[str]:
    if _is_repository(folder):
        rules = _spec(folder, opening)
    elif rules is not None:
        rules = (*rules, *_spec(folder, opening))
    for name, is_folder, is_file in _entries(folder, opening):
        if stop():
            return
        path = f"{folder.rstrip('/')}/{name}"
        if name == ".git" or opening.hides(path) or (rules and _ignored(rules, path, is_folder)):
            continue
        if is_folder:
            yield from _below(path, f"{prefix}{name}/", rules, opening, stop)
        elif is_file:
            yield prefix + name


def _entries(folder: str, opening: Opening) -> list[tuple[str, bool, bool]]:
    """Each name, and whether a folder or a file has it; links are neither. In the order of their
    bytes."""
    try:
        with opening.listed(Path(folder)) as here, os.scandir(here) as listing:
            kinds = [
                (
                    entry.name,
                    entry.is_dir(follow_symlinks=False),
                    entry.is_file(follow_symlinks=False),
                )
                for entry in listing
            ]
    except (OSError, ToolError):
        return []
    return sorted(kinds, key=lambda entry: os.fsencode(entry[0]))


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
    flags = re.MULTILINE
    if request.ignore_case:
        flags |= re.IGNORECASE
    if request.multiline:
        flags |= re.DOTALL
    expression = re.compile(request.pattern, flags)
    for path in paths:
        try:
            data, _ = opening.content(request.root / path, _MOST)
        except (OSError, ToolError):
            continue
        hit = _file(data, path or request.root.name, expression, request)
        if hit is not None:
            yield hit


def _file(data: bytes, shown: str, expression: re.Pattern[str], request: Search) -> Hit | None:
    coding = coding_of(data[:8192], whole=True)
    wide = coding is not None and coding.name.startswith("utf-16")
    if not wide and b"\0" in data:
        return None
    if coding is not None and wide:
        text = data[len(coding.bom) :].decode(coding.name, "replace")
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if request.multiline:  # every line that a match touches
        touched: set[int] = set()
        for match in expression.finditer(text):
            if match.start() == len(text) and text.endswith("\n"):
                continue
            first = text.count("\n", 0, match.start())
            last = text.count("\n", 0, max(match.start(), match.end() - 1))
            touched.update(range(first, last + 1))
        matched = sorted(touched)
    else:
        matched = [number for number, line in enumerate(lines) if expression.search(line)]
    if not matched:
        return None
    if request.mode != "content":
        return Hit(shown, len(matched))
    near: set[int] = set()  # those that match and their context
    for number in matched:
        last = min(len(lines), number + request.after + 1)
        near.update(range(max(0, number - request.before), last))
    hits = set(matched)
    shown_lines = [Line(number + 1, lines[number], number in hits) for number in sorted(near)]
    return Hit(shown, len(matched), tuple(shown_lines))


_RISKY = frozenset("*+?{|")  # without these nothing is tried twice


def may_take_long(pattern: str) -> bool:
    return not _RISKY.isdisjoint(pattern)


async def search_isolated(
    request: Search, paths: Sequence[str], places: Sequence[str], most: int, seconds: float
) -> list[Hit]:
    """Hits in ``paths``, relative to the root, until their rows pass ``most``. ``places``: existing
    sensitive ones, no file of which is opened by another name. Raises TimeoutError, OSError."""
    flags = [
        request.pattern,
        request.mode,
        request.ignore_case,
        request.multiline,
        request.before,
        request.after,
    ]
    order = json.dumps(
        [str(request.root), flags, list(paths), list(places), most, int(seconds) + 1]
    )
    answer = json.loads(
        await run_isolated(__name__, order.encode("utf-8", "surrogatepass"), seconds)
    )
    return [
        Hit(hit["path"], hit["count"], tuple(Line(**line) for line in hit["lines"]))
        for hit in answer
    ]


def main() -> None:
    root, flags, paths, places, most, seconds = json.loads(
        sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    )
    bounded(seconds)
    request = Search(Path(root), flags[0], lambda _: True, *flags[1:])
    hits: list[Hit] = []
    rows = 0
    # The names were looked at before they came here.
    opening = Opening(lambda _: False, FileAliases(places))
    for hit in look(request, paths, opening):
        hits.append(hit)
        rows += len(hit.lines) or 1
        if rows > most:
            break
    sys.stdout.write(json.dumps([asdict(hit) for hit in hits]))


if __name__ == "__main__":
    main()
