"""Which sensitive places lie where a cage can be looked into: looked for before every command, so
by as few looks at the disk as it takes."""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import translate
from pathlib import Path

_OWN = ("/proc/", "/dev/")  # the cage has them of its own, or next to nothing of them
_WILD = re.compile(r"[*?[]")


class Hiding:
    """``absolute``: patterns of places; ``anywhere``: of what is one below whatever folder."""

    def __init__(self, absolute: Iterable[str], anywhere: Iterable[str]) -> None:
        self._fixed: list[str] = []
        self._deep: list[str] = []
        by_folder: dict[str, list[str]] = defaultdict(list)
        for pattern in map(os.path.realpath, absolute):
            folder, _, name = pattern.rpartition("/")
            if pattern.startswith(_OWN):
                continue
            if not _WILD.search(pattern):
                self._fixed.append(pattern)
            elif _WILD.search(folder) or not folder:
                self._deep.append(pattern)
            else:
                by_folder[folder].append(name)
        self._listed = {folder: _any_of(names) for folder, names in by_folder.items()}
        self._anywhere = [pattern.partition("/")[::2] for pattern in anywhere]
        self._first = _any_of(first for first, _ in self._anywhere)

    def __call__(self, folders: Iterable[Path]) -> Iterator[Path]:
        """Of the system, and at the top of these ``folders`` (without links). A link is what it
        leads to, and nothing where that is elsewhere: else whoever makes one in a workspace could
        close the system, or all of the workspace, to whatever runs next."""
        yield from (Path(place) for place in self._fixed if os.path.lexists(place))
        for pattern in self._deep:
            yield from map(Path, glob.iglob(pattern))  # noqa: PTH207 - absolute
        for folder, form in self._listed.items():
            yield from (Path(folder, name) for name in _names(folder) if form.match(name))
        for folder in folders:
            for name in filter(self._first.match, _names(folder)):
                for found in map(Path, map(os.path.realpath, self._below(folder, name))):
                    if folder in found.parents:
                        yield found

    def _below(self, folder: Path, name: str) -> Iterator[Path]:
        for first, rest in self._anywhere:
            if _any_of([first]).match(name):
                yield from folder.glob(f"{glob.escape(name)}/{rest}") if rest else (folder / name,)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _names(folder: str | Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
