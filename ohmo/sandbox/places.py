"""What lies where: which sensitive places a cage would show, looked for before every command, so by
as few looks at the disk as it takes; and from a cage to mounts, for the backends that put a file
system together."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from fnmatch import translate
from pathlib import Path
from typing import Literal

from ohmo.contracts.sandbox import Cage

Way = Literal["read", "write", "hide"]
_FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

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


def kept(cage: Cage, held: ExitStack) -> dict[Path, int]:
    """Of what is protected in a folder that may be written to, with the folders between, and of
    what a command named itself: a descriptor of what is there now, open while ``held`` is."""
    within = [*_within(cage), *((Path("/"), path) for path in cage.named)]
    found = [(path, _opened(root, path, held)) for root, path in within]
    return {path: fd for path, fd in found if fd is not None}


def mounts(cage: Cage, kept: Mapping[Path, int]) -> Iterator[tuple[Way, Path]]:
    """Those above first, so that the nearest decides. What is hidden is named only where it would
    be seen."""
    ways: dict[Path, Way] = dict.fromkeys(cage.read, "read")
    ways |= dict.fromkeys(cage.write, "write")
    bare = {path for path in ways if _inside(path, cage) or path in cage.named} - kept.keys()
    ways = {path: way for path, way in ways.items() if path not in bare}
    # A folder that holds a protected place is a mount of its own, else it could be moved away.
    ways |= {path: "write" for path in kept if path not in ways}
    ways |= dict.fromkeys(cage.hide, "hide")
    for path in sorted(ways, key=lambda path: len(path.parts)):
        seen = any(ways.get(above, "hide") != "hide" for above in path.parents)
        if ways[path] != "hide":
            yield ways[path], path
        # A link was put there since: nothing can be mounted on it, and what it leads to decides.
        elif seen and os.path.lexists(path) and not path.is_symlink():
            yield "hide", path


def _inside(path: Path, cage: Cage) -> bool:
    return any(root in path.parents for root in cage.write)


def _within(cage: Cage) -> Iterator[tuple[Path, Path]]:
    """What is read-only below a folder that may be written to, and the folders between, also those
    down to what is hidden, with that folder: the upper ones first."""
    found: dict[Path, Path] = {}
    for root in cage.write:
        for path in (*cage.read, *(each.parent for each in cage.hide)):
            if root in path.parents:
                found |= {each: root for each in (path, *path.parents) if root in each.parents}
    hidden = set(cage.hide)
    for path in sorted(found, key=lambda path: len(path.parts)):
        # what only leads from what is hidden to what can be read below it is not there
        if path not in hidden and (path in cage.read or hidden.isdisjoint(path.parents)):
            yield found[path], path


def _opened(root: Path, path: Path, held: ExitStack) -> int | None:
    """A descriptor of what is there, no link followed below ``root``; None: there is none."""
    with ExitStack() as steps:
        try:
            fd = os.open(root, _FOLDER)
            steps.callback(os.close, fd)
            for name in path.relative_to(root).parts:
                fd = os.open(name, _FOLDER, dir_fd=fd)
                steps.callback(os.close, fd)
        except OSError:
            return None
        if not (stat.S_ISDIR(os.fstat(fd).st_mode) or stat.S_ISREG(os.fstat(fd).st_mode)):
            return None
        copy = os.dup(fd)
        held.callback(os.close, copy)
        return copy
