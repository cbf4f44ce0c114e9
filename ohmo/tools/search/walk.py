"""Lists the files of a tree as ripgrep does with ``--hidden``: git's ignore rules inside
repositories, no ``.git``, no symlinks followed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

from channels.record import record
from ohmo.tools.answers import Trouble
from ohmo.tools.files.opening import Opening

_FOLDER = "ps_d"  # the group with which pathspec marks the slash behind a folder that a line names
_MOST = 1 << 20  # bytes of one file of rules


@record
class _Rules:
    """One ``.gitignore``; ``folder`` absolute. Of each line, the last one first, what it names and
    whether that is ignored."""

    folder: str
    lines: tuple[tuple[re.Pattern[str], bool], ...]


def _spec(folder: str, opening: Opening) -> tuple[_Rules, ...]:
    """Through a link, as ripgrep reads it; never from a pipe, or from what no tool may open."""
    try:
        data, _ = opening.content(Path(folder, ".gitignore").resolve(), _MOST)
    except (OSError, RuntimeError, Trouble):
        return ()
    lines = [
        line for text in data.decode("utf-8-sig", "replace").splitlines() for line in _line(text)
    ]
    return (_Rules(folder, tuple(reversed(lines))),)


def _line(text: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    """Nothing for an empty line, a comment, and one that is no pattern."""
    from pathspec import (
        GitIgnoreSpec,
        RegexPattern,
    )  # three engines are looked for: only when there is something to ignore

    with suppress(ValueError):
        for pattern in GitIgnoreSpec.from_lines([text]).patterns:
            if isinstance(pattern, RegexPattern) and pattern.include is not None:
                yield cast("re.Pattern[str]", pattern.regex), pattern.include


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
    if (found := line.search(relative)) is None:
        return False
    if _FOLDER not in line.groupindex or found[_FOLDER] is None:
        return True
    return any(one.end(_FOLDER) == len(relative) for one in line.finditer(relative))


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
                (one.name, one.is_dir(follow_symlinks=False), one.is_file(follow_symlinks=False))
                for one in listing
            ]
    except (OSError, Trouble):
        return []
    return sorted(kinds, key=lambda one: os.fsencode(one[0]))
