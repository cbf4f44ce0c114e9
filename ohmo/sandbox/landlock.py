"""landlock(7) with a filter of system calls, where there is no bubblewrap or no user namespaces:
files and sockets that are not named cannot be opened. Nothing is hidden from ``stat``, a part of a
folder that may be written to cannot be made read-only, and without network there are no sockets at
all."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from ohmo.contracts.sandbox import Cage, Launch
from ohmo.processes.confinement import ALL_FILES, NEEDED, READ, landlock_abi
from ohmo.sandbox.limits import limits, own_folder, temporary
from ohmo.sandbox.seccomp import INTERNET, LOCAL, program

# linux/landlock.h: what may be done with devices: write_file, read_file, truncate
_DEVICE = 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
# Not /dev/pts: it holds the terminals of all the person's programs, to read and to write.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_MACHINE = ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems", "sys")
_LIST = 1 << 3  # read_dir
_WRITE = ALL_FILES & ~(1 << 6 | 1 << 11)  # but for making devices


def why_not() -> str:
    """In words why this kernel cannot; "" when it can."""
    abi = landlock_abi()
    if abi == 0:
        return "this kernel has no Landlock, or it is switched off"
    if abi < NEEDED:
        return f"this kernel has Landlock {abi}; {NEEDED} (Linux 6.12) is needed"
    return ""


class Landlock:
    """``scratch``: folder in which each command gets one of its own."""

    name: Literal["landlock"] = "landlock"

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    @asynccontextmanager
    async def launch(self, argv: tuple[str, ...], cwd: Path, cage: Cage) -> AsyncGenerator[Launch]:
        """Raises OSError."""
        del cwd
        async with own_folder(self._scratch) as own:
            allowed = [*_allowed(cage), (str(own), _WRITE)]
            allowed += [(f"/dev/{name}", _DEVICE | READ) for name in _DEVICES]
            allowed += [(f"/proc/{name}", READ) for name in _MACHINE]
            families = INTERNET if cage.network == "on" else ()
            families = (*families, *LOCAL) if cage.doors else families
            rules = limits(cage)
            rules["landlock"] = [[path, rights] for path, rights in allowed]
            rules["seccomp"] = program(families, alone=False).hex()
            yield Launch(argv, rules=rules, env=temporary(str(own)))


def _allowed(cage: Cage) -> Iterator[tuple[str, int]]:
    """A folder with something hidden in it is not allowed itself, but each of its other entries:
    Landlock only adds. It can be listed where that lists no hidden folder."""
    hidden = {str(path) for path in cage.hide if _can_be_opened(path)}
    above = {str(folder) for path in hidden for folder in Path(path).parents}
    closed = {str(each) for path in cage.hide if path.is_dir() for each in path.parents}
    for roots, rights in ((cage.read, READ), (cage.write, _WRITE)):
        for root in map(str, roots):
            for path in _without(root, hidden, above):
                if path not in above:
                    yield path, rights
                elif path not in closed:
                    yield path, _LIST


def _can_be_opened(path: Path) -> bool:
    """By us at all: what belongs to somebody else and is closed to us needs no walls."""
    try:
        ours = path.lstat().st_uid == os.geteuid()
    except OSError:
        return True
    return ours or os.access(path, os.R_OK) or os.access(path, os.X_OK)


def _without(path: str, hidden: AbstractSet[str], above: AbstractSet[str]) -> Iterator[str]:
    if path in hidden:
        return
    yield path
    if path not in above:
        return
    try:
        names = os.listdir(path)  # noqa: PTH208
    except OSError:
        return
    for name in names:
        yield from _without(f"{path.rstrip('/')}/{name}", hidden, above)
