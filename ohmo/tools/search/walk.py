"""Lists the files of a tree as ripgrep does with ``--hidden``: git's ignore rules inside repositories, no ``.git``, no symlinks followed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from channels.record import record

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

Blocked = Callable[[str], bool]
"""Absolute path of a file or folder that no tool may look at."""


@record
class _Rules:
    """One ``.gitignore``; ``folder`` absolute."""

    folder: str
    spec: GitIgnoreSpec


def _spec(folder: str) -> tuple[_Rules, ...]:
    try:
        data = Path(folder, ".gitignore").read_bytes()
    except OSError:
        return ()
    from pathspec import GitIgnoreSpec  # three engines are looked for: only when there is something to ignore

    lines = data.decode("utf-8-sig", "replace").splitlines()
    return (_Rules(folder, GitIgnoreSpec.from_lines(lines)),)


def _is_repository(folder: str) -> bool:
    return os.path.lexists(f"{folder}/.git")


def _inherited(root: str) -> tuple[_Rules, ...] | None:
    """Rules from above ``root`` down to its parent, when it stands inside a repository; None when it does not."""
    if _is_repository(root):
        return ()
    above: list[_Rules] = []
    folder: str = root
    while folder != "/":
        folder = folder.rpartition("/")[0] or "/"
        above = [*_spec(folder), *above]
        if _is_repository(folder):
            return tuple(above)
    return None


def _ignored(rules: tuple[_Rules, ...], path: str, folder: bool) -> bool:
    """The deepest file that says something decides."""
    for each in reversed(rules):
        relative = path[len(each.folder.rstrip("/")) + 1 :] + ("/" if folder else "")
        verdict = each.spec.check_file(relative).include
        if verdict is not None:
            return verdict
    return False


def walk(root: Path, blocked: Blocked, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Relative paths with ``/``, in the order of their components. Unreadable folders are left out. ``stop`` ends it early."""
    top = str(root)
    yield from _below(top, "", _inherited(top), blocked, stop)


def _below(folder: str, prefix: str, rules: tuple[_Rules, ...] | None, blocked: Blocked, stop: Callable[[], bool]) -> Iterator[str]:
    if _is_repository(folder):
        rules = _spec(folder)
    elif rules is not None:
        rules = (*rules, *_spec(folder))
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in entries:
        if stop():
            return
        path = f"{folder.rstrip('/')}/{entry.name}"
        if entry.name == ".git" or blocked(path):
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        if rules and _ignored(rules, path, is_folder):
            continue
        if is_folder:
            yield from _below(path, f"{prefix}{entry.name}/", rules, blocked, stop)
        elif entry.is_file(follow_symlinks=False):
            yield prefix + entry.name
