"""bwrap(1): namespaces of its own for everything, a file system put together from what the cage
names."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from ohmo.contracts.sandbox import Cage, Launch
from ohmo.sandbox.limits import limits, temporary
from ohmo.sandbox.seccomp import INTERNET, LOCAL, program

_OWN_NAMESPACES = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts")
# By these git takes its settings from elsewhere (gitrepository-layout(5)). They cannot be kept from
# being made, so what a command made goes when it ends.
_POINTERS = ("commondir", "config.worktree")
_FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# A link that was put in the place of a protected folder, between the look and bwrap's mount, would
# bring in what it leads to; what is mounted cannot be exchanged any more. So it is compared inside,
# before anything of the command runs.
_COMPARE = """
until [ "$1" = -- ]; do
  [ "/proc/self/fd/$1" -ef "$2" ] || { echo "no cage: $2 was exchanged" >&2; exit 126; }
  eval "exec $1<&-"; shift 2
done
shift; exec "$@"
"""


def find(path: str | None = None) -> str | None:
    """The program, wherever it is."""
    return shutil.which("bwrap", path=path)


class Bubblewrap:
    """``program``: bwrap itself."""

    name: Literal["bubblewrap"] = "bubblewrap"

    def __init__(self, bwrap: str) -> None:
        self._bwrap = bwrap

    @asynccontextmanager
    async def launch(self, argv: tuple[str, ...], cwd: Path, cage: Cage) -> AsyncGenerator[Launch]:
        """Raises OSError."""
        own_network = cage.network == "off"
        with ExitStack() as held:
            families = (*LOCAL, *INTERNET) if own_network or cage.doors else INTERNET
            filter_fd = os.memfd_create("seccomp")
            held.callback(os.close, filter_fd)
            os.write(filter_fd, program(families))
            os.lseek(filter_fd, 0, os.SEEK_SET)
            within = [*_within(cage), *((Path("/"), path) for path in cage.named)]
            inner = [(path, _opened(root, path, held)) for root, path in within]
            kept = {path: fd for path, fd in inner if fd is not None}
            words = [self._bwrap, *_OWN_NAMESPACES, "--unshare-cgroup-try", "--disable-userns"]
            words += ["--unshare-net"] if own_network else []
            words += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
            words += ["--seccomp", str(filter_fd), "--proc", "/proc", "--dev", "/dev"]
            room = str(max(1 << 20, cage.memory // 4))
            words += ["--size", room, "--tmpfs", "/dev/shm", "--size", room, "--tmpfs", "/tmp"]  # noqa: S108
            # /proc/sys and its like are files of root, who needs no capability to write to them.
            words += ["--remount-ro", "/proc", "--remount-ro", "/dev"]
            # Also what stands above those mounts: a file made there would be lost without a word.
            words += [*_mounts(cage, kept), "--remount-ro", "/", "--chdir", str(cwd), "--"]
            if kept:
                words += ["/bin/bash", "--norc", "--noprofile", "-c", _COMPARE, "sandbox"]
                for path, fd in kept.items():
                    words += [str(fd), str(path)]
                words.append("--")
            env = temporary("/tmp")  # noqa: S108 - the cage's own
            fds = (filter_fd, *kept.values())
            for path, fd in kept.items():
                if path.name == ".git":
                    held.callback(_unlinked, fd, [each for each in _POINTERS if _none(fd, each)])
            yield Launch((*words, *argv), fds, {**limits(cage), "own": 1}, env)


def _mounts(cage: Cage, kept: dict[Path, int]) -> Iterator[str]:
    """Those above first, so that the nearest decides."""
    ways: dict[Path, str] = dict.fromkeys(cage.read, "--ro-bind-try")
    ways |= dict.fromkeys(cage.write, "--bind")
    bare = {path for path in ways if _inside(path, cage) or path in cage.named} - kept.keys()
    ways = {path: way for path, way in ways.items() if path not in bare}
    # A folder that holds a protected place is a mount of its own, else it could be moved away.
    ways |= {path: "--bind" for path in kept if path not in ways}
    ways |= dict.fromkeys(cage.hide, "")
    closed: list[Path] = []
    for path in sorted(ways, key=lambda path: len(path.parts)):
        way = ways[path]
        shown = [above for above in path.parents if ways.get(above)]
        if way:
            yield from (way, str(path), str(path))
        elif path.is_symlink():
            continue  # put there since: nothing can be mounted on it, and what it leads to decides
        elif path.is_dir() and shown:
            closed.append(path)  # in the end: something below it may be shown
            yield from ("--tmpfs", str(path))
        elif shown:
            with suppress(OSError):
                path.lstat()
                yield from ("--ro-bind", os.devnull, str(path))
    for path in closed:
        yield from ("--remount-ro", str(path))


def _none(fd: int, name: str) -> bool:
    """In the folder that is open, nothing is called so."""
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return True
    return False


def _unlinked(fd: int, names: list[str]) -> None:
    for name in names:
        with suppress(OSError):
            os.unlink(name, dir_fd=fd)


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
