"""Sensitive files behind another name, which no path tells: a hard link (link(2)) is the file, a
bound folder (mount(2)) the folder; and the agent's own home, closed but for two pages."""

from __future__ import annotations

import itertools
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from ohmo.permissions.sensitive_places import PAGES, Touch
from ohmo.shell.patterns import folded

# Names looked at below one place, those next to its top first: a browser keeps far more.
_MOST_BELOW = 4_000


class AgentHome:
    """``root``: $OHMO_HOME. It need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.roots = tuple(dict.fromkeys((os.path.normpath(root), os.path.realpath(root))))
        self._closed = tuple(folded(root) for root in self.roots)
        self._shown = tuple(f"{root}/{page}" for root in self.roots for page in PAGES)

    def named(self, path: str) -> Touch:
        """By the letters of an absolute path: closed in every spelling, shown in its own only."""
        if not _lies_in(folded(path), self._closed):
            return Touch.CLEAR
        return Touch.PAGE if _lies_in(path, self._shown) else Touch.INSIDE

    def closed(self) -> Iterator[str]:
        """What lies in the home directly and is no page."""
        return (path for path in _names_in(self.roots[-1]) if self.named(path) is Touch.INSIDE)

    def doors(self) -> dict[tuple[int, int], Touch]:
        """The home and what lies in it directly, by device and inode; empty while there is none: so
        it is known under another name, a bind mount or letters that the disk takes for the same."""
        found: dict[tuple[int, int], Touch] = {}
        for path in (self.roots[-1], *_names_in(self.roots[-1])):
            there = _status(path)
            if there is not None:
                found[there.st_dev, there.st_ino] = self.named(path)
        return found


def _lies_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _status(path: str | Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _names_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries]
    except OSError:
        return []


class FileAliases:
    """For one judgement or one call: what it finds on the disk it keeps. ``places``: existing
    sensitive files and folders (``SensitivePaths.existing``), asked for when the first file with
    two names comes. ``own``: known by its folders too, wherever they are bound.

    Bounded: a file with one name costs nothing; the first with more costs a look at each place and
    at most ``_MOST_BELOW`` names below it. What lies deeper in a larger place is not known by its
    inode."""

    def __init__(self, places: Iterable[str], own: AgentHome | None = None) -> None:
        self._places = places
        self._own = own
        self._folders: dict[str, Touch] = {}

    def sensitive(self, status: os.stat_result) -> bool:
        """Whether this is one of the sensitive files, by device and inode. Folders never are."""
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return False
        return (status.st_dev, status.st_ino) in self._inodes

    def at(self, path: str) -> Touch:
        """``path`` absolute and resolved: what it leads to beside what its letters tell. There need
        be nothing yet."""
        status = _status(path)
        if status is not None and self.sensitive(status):
            return Touch.INSIDE
        if self._own is None or self._own.named(path) is not Touch.CLEAR:
            return Touch.CLEAR
        door = self._door(status)
        if door is not None:
            return door
        folder = Path(path).parent
        if str(folder) not in self._folders:
            doors = (self._door(_status(each)) for each in (folder, *folder.parents))
            known = (door for door in doors if door is not None)
            self._folders[str(folder)] = next(known, Touch.CLEAR)
        return self._folders[str(folder)]

    def _door(self, status: os.stat_result | None) -> Touch | None:
        """What of the agent's home has this inode."""
        return self._doors.get((status.st_dev, status.st_ino)) if status is not None else None

    @cached_property
    def _doors(self) -> dict[tuple[int, int], Touch]:
        return self._own.doors() if self._own is not None else {}

    @cached_property
    def _inodes(self) -> frozenset[tuple[int, int]]:
        """Device and inode of each file at or below a place."""
        found: set[tuple[int, int]] = set()
        for place in self._places:
            found.update(_files(place))
        return frozenset(found)


def _files(place: str) -> Iterator[tuple[int, int]]:
    """Links to files count, those to folders not."""
    left, folders = _MOST_BELOW, deque[str]()
    try:
        status = os.stat(place)  # noqa: PTH116
    except OSError:
        return
    if stat.S_ISREG(status.st_mode):
        yield status.st_dev, status.st_ino
    elif stat.S_ISDIR(status.st_mode):
        folders.append(place)
    while folders and left > 0:
        try:
            with os.scandir(folders.popleft()) as opened:
                entries = list(itertools.islice(opened, left))
        except OSError:
            continue
        for entry in entries:
            left -= 1
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                continue
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield status.st_dev, status.st_ino
