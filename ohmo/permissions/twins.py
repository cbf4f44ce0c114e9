"""Finds what is sensitive behind another name that no path tells: a hard link (link(2)) is the file
itself, a bound folder (mount(2)) the folder."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from ohmo.permissions.agent_home import AgentHome, Touch

_MOST = (
    4_000  # names looked at below one place, those next to its top first: a browser keeps far more
)


class Twins:
    """For one judgement or one call: what it finds on the disk it keeps. ``places``: existing
    sensitive files and folders (``SensitivePaths.existing``), asked for when the first file with
    two names comes. ``own``: known by its folders too, wherever they are bound.

    Bounded: a file with one name costs nothing; the first with more costs a look at each place and
    at most ``_MOST`` names below it. What lies deeper in a larger place is not known by its
    inode."""

    def __init__(self, places: Iterable[str], own: AgentHome | None = None) -> None:
        self._places = places
        self._own = own
        self._folders: dict[str, Touch] = {}

    def sensitive(self, status: os.stat_result) -> bool:
        """Whether this is one of the sensitive files, by device and inode. Folders never are."""
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return False
        return (status.st_dev, status.st_ino) in self._known

    def at(self, path: str) -> Touch:
        """``path`` absolute and resolved: what it leads to beside what its letters tell. There need
        be nothing yet."""
        status = _status(path)
        if status is not None and self.sensitive(status):
            return Touch.INSIDE
        if self._own is None or self._own.named(path) is not Touch.CLEAR:
            return Touch.CLEAR
        door = self._door(status)
        return self._in(Path(path).parent) if door is None else door

    def _in(self, folder: Path) -> Touch:
        found = self._folders.get(str(folder))
        if found is None:
            doors = (self._door(_status(each)) for each in (folder, *folder.parents))
            found = next((door for door in doors if door is not None), Touch.CLEAR)
            self._folders[str(folder)] = found
        return found

    def _door(self, status: os.stat_result | None) -> Touch | None:
        return self._doors.get((status.st_dev, status.st_ino)) if status is not None else None

    @cached_property
    def _doors(self) -> dict[tuple[int, int], Touch]:
        return self._own.doors() if self._own is not None else {}

    @cached_property
    def _known(self) -> frozenset[tuple[int, int]]:
        return frozenset(one for place in self._places for one in _files(place))


def _status(path: str | Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _files(place: str) -> Iterator[tuple[int, int]]:
    """Device and inode of each file at or below a place. Links to files count, those to folders
    not."""
    left, folders = _MOST, deque[str]()
    try:
        status = os.stat(place)  # noqa: PTH116
    except OSError:
        return
    if stat.S_ISREG(status.st_mode):
        yield status.st_dev, status.st_ino
    elif stat.S_ISDIR(status.st_mode):
        folders.append(place)
    while folders and left > 0:
        for entry in _entries(folders.popleft(), left):
            left -= 1
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif (found := _file(entry)) is not None:
                yield found


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for _, entry in zip(range(most), entries, strict=False)]
    except OSError:
        return []


def _file(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    try:
        status = entry.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
