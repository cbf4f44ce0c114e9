"""The tree of processes below this one: begins, finds and ends it (Linux through /proc and a
subreaper, elsewhere by process group), and keeps it out of this process, whose environment and
memory hold keys."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # prctl(2)
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
OPEN = "OHMO_DUMPABLE"  # set to 1: debuggers, py-spy and core dumps work as usual
# times, and seconds between them, for a process that seems to have no environment
_LOOKS = 50
_LOOK = 0.002
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)
_LINUX = sys.platform == "linux"
_LIBC = ctypes.CDLL(None, use_errno=True) if _LINUX else None


def adopt_orphans() -> None:
    """From now on descendants whose parent dies become children of this process."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """The kernel kills this process when its parent dies. Kept over exec, lost over fork."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def become(
    argv: list[str],
    cwd: str,
    env: Mapping[str, str],
    fds: tuple[int, int, int],
    parent: int,
    kept: Sequence[int] = (),
    confine: Callable[[], None] = lambda: None,
) -> NoReturn:
    """In a child: a session of its own, three descriptors (of a terminal or not) and those that are
    ``kept``, the working directory, what it gives up (``confine``), then the command."""
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != parent:
            os._exit(125)
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        if os.isatty(0):  # the first terminal a session leader opens controls it
            os.close(os.open(os.ttyname(0), os.O_RDWR))
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        path = "/proc/self/oom_score_adj"
        with suppress(OSError), open(path, "w", encoding="ascii") as score:  # noqa: PTH123
            score.write("500")  # when memory ends, the command goes first, not the daemon
        os.chdir(cwd)
        after = 3
        for fd in sorted(kept):
            os.closerange(after, fd)
            os.set_inheritable(fd, True)
            after = fd + 1
        os.closerange(after, max(1 << 16, after, os.sysconf("SC_OPEN_MAX")))
        confine()
        os.execvpe(argv[0], argv, env)  # noqa: S606
    except OSError as error:
        os.write(2, f"cannot run {argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def seal(environ: Mapping[str, str]) -> bool:
    """prctl(2), PR_SET_DUMPABLE 0: /proc/PID/environ, mem, maps and fd of this process are root's
    alone, nobody but root may trace it, and it leaves no core dump. A command that is started from
    here is its own program again (execve(2)). True: it is so now; elsewhere than on Linux, or where
    ``OHMO_DUMPABLE=1`` asks for it, everything stays as it was."""
    if _LIBC is None or environ.get(OPEN) == "1":
        return False
    return _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0


_HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110


def descendants(of: int) -> list[int]:
    """Everybody below ``of``, parents first. Empty where there is no /proc."""
    if not _LINUX:
        return []
    table: dict[int, list[int]] = {}
    if not _HAS_CHILDREN:  # then from the whole process table
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            with suppress(OSError, ValueError, IndexError):
                path = f"/proc/{name}/stat"
                with open(path, encoding="utf-8", errors="replace") as stat:  # noqa: PTH123
                    parent = int(stat.read().rpartition(")")[2].split()[1])
                table.setdefault(parent, []).append(int(name))
    pids: list[int] = []
    queue = [of]
    while queue:
        pid = queue.pop()
        below = table.get(pid, [])
        if _HAS_CHILDREN:
            with suppress(OSError):
                for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                    path = f"/proc/{pid}/task/{task}/children"
                    with open(path, encoding="ascii") as listing:  # noqa: PTH123
                        below += map(int, listing.read().split())
        pids += below
        queue += below
    return pids


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def send_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reads_terminal(pid: int, terminal: str) -> bool:
    """Whether the process sits in a read of this terminal: proc_pid_syscall(5) names the call and
    its descriptor."""
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:  # noqa: PTH123
            words = file.read().split()
        if len(words) < 2 or words[0] not in ("0", "63"):  # read: x86-64, aarch64
            return False
        leads_to = os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}")  # noqa: PTH115
        return leads_to in (terminal, "/dev/tty")
    except (OSError, ValueError):
        return False


MARK = "OHMO_JOB"


def marked(mark: str) -> list[int]:
    """Everybody whose environment carries ``OHMO_JOB=mark``: what is left when the keeper itself
    was killed."""
    variable = f"{MARK}={mark}".encode()
    names = os.listdir("/proc") if _LINUX else []  # noqa: PTH208
    pids: list[int] = []
    for pid in filter(str.isdigit, names):
        variables: list[bytes] = []
        # In the middle of an exec the kernel shows nothing for a moment, so it is asked again.
        for _ in range(_LOOKS):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ:  # noqa: PTH123
                    variables = environ.read().split(b"\0")
                if variables != [b""]:
                    break
                # a zombie and a thread of the kernel have none
                os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
            except OSError:
                break
            time.sleep(_LOOK)
        if variable in variables:
            pids.append(int(pid))
    return pids


def sweep(mark: str) -> None:
    """Kills everybody marked, until nobody is left; gives up after a hundred rounds."""
    for _ in range(100):
        left = marked(mark)
        if not left:
            return
        send(left, signal.SIGKILL)
        time.sleep(_LOOK)
