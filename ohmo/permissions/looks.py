"""What one judgement finds below folders: sensitive files, and where links lead."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache, partial

from ohmo.permissions.sensitive_paths import SensitivePaths, Touch
from ohmo.permissions.sensitive_places import FileAliases
from ohmo.shell.git_repository import repository_at
from ohmo.shell.handed import EVEN
from ohmo.shell.patterns import OPTION_LIKE, real
from ohmo.shell.script import Handed

_MOST_ENTRIES = 50_000  # entries of one tree


class Looks:
    """What one judgement finds below folders and in repositories: each is looked through once, all
    folders together no further than one alone, however often a line names them."""

    def __init__(self, sensitive: SensitivePaths, aliases: FileAliases) -> None:
        self.aliases = aliases
        self.repository = cache(repository_at)
        self.twin = cache(partial(first_sensitive, sensitive=None, aliases=aliases))
        self._sensitive = sensitive
        self._found: dict[tuple[str, bool], str] = {}
        self._handed: dict[tuple[str, Handed], tuple[str, Sequence[str]]] = {}
        self._left = _MOST_ENTRIES

    def below(self, path: str, *, linked: bool) -> str:
        """As ``first_sensitive``."""
        key = (path, linked)
        if key not in self._found:
            self._found[key], self._left = _searched(
                path, self._sensitive, self.aliases, linked=linked, left=self._left
            )
        return self._found[key]

    def handed(self, path: str, how: Handed) -> tuple[str, Sequence[str]]:
        """``path`` absolute and resolved: why nobody may be handed the names below it unasked, ""
        when they may; and where links among them lead."""
        key = (path, replace(how, at=frozenset()))
        if key not in self._handed:
            why, led, self._left = _handed_on(path, self._sensitive, self.aliases, how, self._left)
            self._handed[key] = why, led
        return self._handed[key]


def followed_to(path: str, sensitive: SensitivePaths, aliases: FileAliases, *, whole: bool) -> str:
    """``path`` absolute and resolved: the first sensitive file that a program comes to which reads
    all below a folder and follows links; "" when it comes to none. ``whole``: of a tree too large
    to be looked through "more than ...", else ""."""
    left = _MOST_ENTRIES
    queue = deque([path])
    seen = {path}
    while queue:
        try:
            with os.scandir(queue.popleft()) as entries:  # what lies near first
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return f"more than {_MOST_ENTRIES} files" if whole else ""
                    goal, led = entry.path, entry.is_symlink()
                    if led:
                        goal = real(goal)
                        led = sensitive.touch(goal, "/") > Touch.PAGE
                    if led or sensitive.hides(goal) or aliases.at(goal) is Touch.INSIDE:
                        return entry.path
                    if entry.is_dir() and goal not in seen:
                        seen.add(goal)
                        queue.append(goal)
        except OSError:
            continue  # what cannot be listed cannot be read through either
    return ""


def first_sensitive(
    path: str, sensitive: SensitivePaths | None, aliases: FileAliases, *, linked: bool = False
) -> str:
    """``path`` absolute and resolved: the first sensitive file below it, or "more than ..." for a
    tree too large to be looked through; "" when there is none. What begins with a dot counts: rules
    of what to leave out, which may lie in the tree, bring it in. A file or folder that is sensitive
    under another name counts too; with ``linked`` a link that leads out of the tree, which git
    follows where it once knew a folder. ``sensitive`` None: for what reads the files of a
    repository, whose names it keeps anyway: other names only, beside ``.git``, and any tree is
    small enough."""
    return _searched(path, sensitive, aliases, linked=linked, left=_MOST_ENTRIES)[0]


def _searched(
    path: str, sensitive: SensitivePaths | None, aliases: FileAliases, *, linked: bool, left: int
) -> tuple[str, int]:
    """And how many of ``left`` entries are left."""
    queue = [path]
    while queue:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        many = f"more than {_MOST_ENTRIES} files" if sensitive is not None else ""
                        return many, 0
                    if sensitive is None and entry.name == ".git":
                        continue
                    hidden = sensitive is not None and sensitive.hides(entry.path)
                    if hidden or aliases.at(entry.path) is Touch.INSIDE:
                        return entry.path, left
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
                    elif linked and entry.is_dir():
                        within = f"{real(entry.path)}/".startswith(f"{path}/")
                        if not within:
                            return entry.path, left
        except OSError:
            continue  # what cannot be listed cannot be read through either
    return "", left


def _handed_on(
    path: str, sensitive: SensitivePaths, aliases: FileAliases, how: Handed, left: int
) -> tuple[str, Sequence[str], int]:
    """As ``Looks.handed``, and how many of ``left`` entries are left."""
    queue, seen = deque([path]), {path}
    led: list[str] = []
    while queue:
        folder = queue.popleft()
        try:
            with os.scandir(folder) as opened:
                entries = list(itertools.islice(opened, left + 1))
        except OSError:
            continue  # what cannot be listed cannot be told either
        left -= len(entries)
        if left < 0:
            return f"more than {_MOST_ENTRIES} files", led, 0
        for entry in entries:
            goal, is_folder = entry.path, entry.is_dir(follow_symlinks=False)
            told = all(fnmatchcase(entry.name, form) for form in how.only)
            told = told and not (how.files and (is_folder or entry.is_symlink()))
            if told and entry.is_symlink():
                goal, is_folder = real(goal), entry.is_dir()
                led += [goal] if not f"{goal}/".startswith(f"{path.rstrip('/')}/") else []
                if sensitive.touch(goal, "/") > Touch.PAGE:
                    return entry.path, led, left
            if is_folder and goal not in seen:
                seen.add(goal)
                queue.append(goal)
            if how.split and (told or is_folder) and not EVEN.fullmatch(entry.name):
                return f"{entry.path!r}, a name that would be taken apart,", led, left
            if how.bare and folder == path and OPTION_LIKE.match(entry.name):
                return f"{entry.path!r}, a name like an option,", led, left
            if told and is_folder and how.only and not how.files:
                return f"{entry.path!r}, a folder with such a name,", led, left
            if told and (sensitive.hides(goal) or aliases.at(goal) is Touch.INSIDE):
                return entry.path, led, left
    return "", led, left
