"""bwrap(1): namespaces of its own for everything, a file system put together from what the cage
names."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from ohmo.contracts.messages import Json
from ohmo.contracts.sandbox import Cage, Launch
from ohmo.sandbox.limits import limits, temporary
from ohmo.sandbox.places import kept, mounts
from ohmo.sandbox.seccomp import INTERNET, LOCAL, program

_OWN_NAMESPACES = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts")
# By these git takes its settings from elsewhere (gitrepository-layout(5)). They cannot be kept from
# being made, so what a command made goes when it ends.
_POINTERS = ("commondir", "config.worktree")
# A link that was put in the place of a protected folder, between the look and bwrap's mount, would
# bring in what it leads to; what is mounted cannot be exchanged any more. So it is compared inside,
# before anything of the command runs, its environment included: that may name files to load, which
# would find those descriptors.
# What the shell would take for its own goes by env(1): seen for a moment by who lists processes.
_COMPARE = """
until [ "$1" = -- ]; do
  [ "/proc/self/fd/$1" -ef "$2" ] || { echo "no cage: $2 was exchanged" >&2; exit 126; }
  eval "exec $1<&-"; shift 2
done
shift
while IFS= read -r -d '' _own_each; do
  case ${_own_each%%=*} in
    '' | *[!A-Za-z0-9_]* | [0-9]* | _ | _own_* | BASH* | COMP_* | EPOCH* | OPT* | HISTCMD | IFS | \
      UID | EUID | PPID | GROUPS | *RANDOM | SECONDS | LINENO | SHELLOPTS | POSIXLY_CORRECT | \
      DIRSTACK | FUNCNAME | PIPESTATUS) _own_rest+=("$_own_each") ;;
    *) export "$_own_each" ;;
  esac
done <&"$1"
eval "exec $1<&-"; shift
[ -z "${_own_rest+x}" ] || exec -- /usr/bin/env -- "${_own_rest[@]}" "$@"
exec -- "$@"
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
        own_network = cage.network != "on"
        with ExitStack() as held:
            families = (*LOCAL, *INTERNET) if own_network or cage.doors else INTERNET
            filter_fd, env_fd = os.memfd_create("seccomp"), os.memfd_create("environment")
            for fd in (filter_fd, env_fd):
                held.callback(os.close, fd)
            os.write(filter_fd, program(families))
            os.lseek(filter_fd, 0, os.SEEK_SET)
            protected = kept(cage, held)
            words = [self._bwrap, *_OWN_NAMESPACES, "--unshare-cgroup-try", "--disable-userns"]
            words += ["--unshare-net"] if own_network else []
            words += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
            words += ["--seccomp", str(filter_fd), "--proc", "/proc", "--dev", "/dev"]
            room = str(max(1 << 20, cage.memory // 4))
            words += ["--size", room, "--tmpfs", "/dev/shm", "--size", room, "--tmpfs", "/tmp"]  # noqa: S108
            # /proc/sys and its like are files of root, who needs no capability to write to them.
            words += ["--remount-ro", "/proc", "--remount-ro", "/dev"]
            # Also what stands above those mounts: a file made there would be lost without a word.
            words += [*_mounts(cage, protected), "--remount-ro", "/", "--chdir", str(cwd), "--"]
            words += ["/bin/bash", "--norc", "--noprofile", "-c", _COMPARE, "sandbox"]
            for path, fd in protected.items():
                words += [str(fd), str(path)]
            words += ["--", str(env_fd)]
            env = temporary("/tmp")  # noqa: S108 - the cage's own
            fds = (filter_fd, env_fd, *protected.values())
            for path, fd in protected.items():
                if path.name == ".git":
                    held.callback(_unlinked, fd, [each for each in _POINTERS if _none(fd, each)])
            rules: dict[str, Json] = {**limits(cage), "own": 1}
            yield Launch((*words, *argv), fds, rules, env, within=env_fd)


def _mounts(cage: Cage, protected: Mapping[Path, int]) -> Iterator[str]:
    closed: list[str] = []
    for way, path in mounts(cage, protected):
        if way != "hide":
            yield from ("--ro-bind-try" if way == "read" else "--bind", str(path), str(path))
        elif path.is_dir():
            closed.append(str(path))  # in the end: something below it may be shown
            yield from ("--tmpfs", str(path))
        else:
            yield from ("--ro-bind", os.devnull, str(path))
    for path in closed:
        yield from ("--remount-ro", path)


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
