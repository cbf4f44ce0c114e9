"""What one judgement has found out about the disk: resolved folders and links, so that a command
of thousands of words asks once; and sensitive files behind another name that no path tells (a hard
link, link(2), is the file itself; a bound folder, mount(2), the folder)."""

from __future__ import annotations

import os
import stat
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from ohmo.permissions.sensitive_places import AgentHome, Touch
from ohmo.shell.patterns import real

_OFTEN = 16  # questions about one folder; from then on its names are read at once
_MOST_NAMES = 20_000  # names of one folder that are read


class FsCache:
    """For one judgement only: what is remembered is not looked up again."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        self._asked: Counter[str] = Counter()
        self._links: dict[str, frozenset[str] | None] = {}

    def folder(self, path: str) -> str:
        """Its resolved path. Raises ValueError as ``real`` does."""
        known = self.folders.get(path)
        if known is None:
            known = self.folders[path] = real(path or "/")
        return known

    def resolved(self, whole: str) -> str:
        """``realpath`` of an absolute path: most names of one command share their folder. Raises
        ValueError."""
        folder, _, name = whole.rpartition("/")
        if not name or name in (".", ".."):
            return real(whole)
        inside = self.folder(folder)
        path = f"{inside.rstrip('/')}/{name}"
        return real(path) if self.is_link(inside, name) else path

    def is_link(self, folder: str, name: str) -> bool:
        """``folder`` resolved. Raises ValueError for a name no system takes."""
        if folder not in self._links:
            self._asked[folder] += 1
            if self._asked[folder] <= _OFTEN:
                return _reads(f"{folder}/{name}")
            self._links[folder] = _links_in(folder)
        links = self._links[folder]
        if links is not None and name.isascii() and "\0" not in name and name.lower() not in links:
            return False
        return _reads(f"{folder}/{name}")


def _reads(path: str) -> bool:
    try:
        os.readlink(path)  # noqa: PTH115
    except OSError:
        return False
    return True


def _links_in(folder: str) -> frozenset[str] | None:
    """The names of its links in small letters (some disks take both cases for one); None when only
    each single name can be asked."""
    names: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if (
                    count >= _MOST_NAMES or not entry.name.isascii()
                ):  # a disk may take a name in other letters for the same
                    return None
                if entry.is_symlink():
                    names.add(entry.name.lower())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None
    return frozenset(names)


_MOST_BELOW = (
    4_000  # names looked at below one place, those next to its top first: a browser keeps far more
)


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
