"""What one judgement has found out about the disk, resolved folders and links, so that a command of
thousands of words asks once."""

from __future__ import annotations

import os
from collections import Counter

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
                # A disk may take a name in other letters for the same.
                if count >= _MOST_NAMES or not entry.name.isascii():
                    return None
                if entry.is_symlink():
                    names.add(entry.name.lower())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return None
    return frozenset(names)
