"""Whether a process, also the one that holds the other end of a TCP connection, descends from this
one.

Parents are walked upwards: a child cannot change who stands above it, and with ``adopt_orphans``
whoever loses its parent (double fork, setsid, a killed keeper) falls to this process and not to
the first one of the machine. On Linux /proc/net/tcp (proc_net_tcp(5)) tells the socket of a
connection, and /proc/PID/fd who has it open. Who fell to this process and has ended is reaped."""

from __future__ import annotations

import asyncio
import ctypes
import ipaddress
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from channels.record import record
from ohmo.processes.process_tree import descendants

REAP = 30.0  # seconds; an event loop collects its own within moments: the rest is nobody's
Place = Literal["outside", "inside", "unclear"]
_WALKS = 5  # a parent may end while its children are walked; then it begins again
_DEEP = 256  # parents; whoever forks a longer line wants to keep us busy
_SHORT = 13  # PROC_PIDT_SHORTBSDINFO, sys/proc_info.h: of every process, whoever asks
End = tuple[Any, ...]  # address and port first, as getpeername(2) tells them


class Ancestry:
    """``root``: the pid above everybody inside. ``parent`` of a pid: None when there is no such
    process, 0 when nobody stands above it that we can see."""

    def __init__(self, root: int, parent: Callable[[int], int | None] | None = None) -> None:
        self.root = root
        self._parent = parent or (_of_proc if sys.platform == "linux" else _of_libproc)

    def place(self, pid: int) -> Place:
        """Unclear is who is gone. ``root`` itself is outside: a command that is its own house
        speaks to itself. Pid 0 is a process of a pid namespace around ours, where no child of
        ours can be: pid_namespaces(7)."""
        if pid == self.root:
            return "outside"
        for _ in range(_WALKS):
            line = self._line(pid)
            # The same line twice: nobody's number was given to somebody else meanwhile, or their
            # child would have another parent now.
            if line is not None and line == self._line(pid):
                return "inside" if line[-1] == self.root else "outside"
        return "unclear"

    def _line(self, pid: int) -> list[int] | None:
        """The pid and everybody above it, up to ``root`` or the top; None: it breaks off."""
        line = [pid]
        while line[-1] > 0 and line[-1] != self.root:
            above = self._parent(line[-1])
            if above is None or len(line) > _DEEP:
                return None
            line.append(above)
        return line


def state_of(pid: int) -> tuple[str, int]:
    """State and parent, proc_pid_stat(5). Raises OSError."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        words = file.read().rpartition(")")[2].split()
    return words[0], int(words[1])


def _of_proc(pid: int) -> int | None:
    try:
        return state_of(pid)[1]
    except (OSError, IndexError):
        try:
            os.kill(pid, 0)  # with hidepid, proc(5), other people's processes are not shown
        except PermissionError:
            return 0
        except OSError:
            pass
        return None


def _of_libproc(pid: int) -> int | None:
    """macOS: struct proc_bsdshortinfo begins with pid and parent, 32 bits each."""
    info = (ctypes.c_uint32 * 16)()
    size = ctypes.sizeof(info)
    ask = ctypes.CDLL(None).proc_pidinfo
    filled = ask(pid, _SHORT, ctypes.c_uint64(0), ctypes.byref(info), size)
    return int(info[1]) if filled == size else None


@record
class _Socket:
    inode: int
    owner: int  # uid


def place_of(theirs: End, ours: End, ancestry: Ancestry) -> Place:
    """Whoever is not on this machine, or belongs to somebody else here, is outside; elsewhere than
    on Linux everybody is, because nobody can tell. Looks through every process of the machine,
    which takes some ten milliseconds: not for an event loop."""
    if sys.platform != "linux":
        return "outside"
    connection = _end_of(theirs, ours)
    if connection is None:
        return "unclear" if _is_here(theirs[0]) else "outside"
    if connection.inode == 0:  # closed already
        return "unclear"
    closed: list[int] = []  # whose descriptors we may not see
    holders: list[int] = []
    for pid in _pids():
        try:
            if any(name == f"socket:[{connection.inode}]" for _, name in _open(pid)):
                holders.append(pid)
        except PermissionError:
            closed.append(pid)
        except OSError:
            continue
    places = {ancestry.place(pid) for pid in holders}
    for place in ("inside", "unclear", "outside"):  # one of them inside is enough
        if place in places:
            return place
    if any(_may_hide(pid) for pid in _pids() if ancestry.place(pid) != "outside"):
        return "unclear"  # it may be theirs
    if os.getuid() not in (0, connection.owner):
        return "outside"
    for pid in closed:
        # A process of our user whose parent is root's and not the first one: what sshd keeps for a
        # login, and makes its tunnels with.
        with suppress(OSError):
            parent = state_of(pid)[1]
            if parent > 1 and _user_of(parent) == 0 and _user_of(pid) == os.getuid():
                return "outside"
    return "unclear"


def _end_of(theirs: End, ours: End) -> _Socket | None:
    ends = (_plain(theirs), _plain(ours))
    for table in ("tcp", "tcp6"):
        with suppress(OSError), Path(f"/proc/net/{table}").open(encoding="ascii") as rows:
            next(rows)
            for row in rows:
                words = row.split()
                if (_read(words[1]), _read(words[2])) == ends:
                    return _Socket(int(words[9]), int(words[7]))
    return None


def _read(text: str) -> tuple[bytes, int]:
    """``0100007F:1E25``: words of four bytes as this machine stores them, and the port."""
    address, _, port = text.partition(":")
    words = (int(address[start : start + 8], 16) for start in range(0, len(address), 8))
    return _short(b"".join(word.to_bytes(4, sys.byteorder) for word in words)), int(port, 16)


def _plain(end: End) -> tuple[bytes, int]:
    return _short(ipaddress.ip_address(end[0].partition("%")[0]).packed), end[1]


def _short(packed: bytes) -> bytes:
    """An IPv4 address that is written as IPv6 (RFC 4291, 2.5.5.2) is the same one."""
    return packed[12:] if packed[:12] == bytes(10) + b"\xff\xff" else packed


def _is_here(address: str) -> bool:
    """Whether it is an address of this machine: only such a one can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _open(pid: int) -> Iterator[tuple[str, str]]:
    """Number and what it leads to."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208
        with suppress(FileNotFoundError):
            yield name, os.readlink(f"{folder}/{name}")  # noqa: PTH115


def _may_hide(pid: int) -> bool:
    """Whether it may have a socket that is none of its descriptors: they are not shown to us, one
    waits in the queue of a unix socket (SCM_RIGHTS, unix(7)), or it was handed to io_uring."""
    try:
        for number, name in _open(pid):
            if name == "anon_inode:[io_uring]":
                return True
            if name.startswith("socket:"):
                lines: list[str] = []
                with suppress(FileNotFoundError):  # closed since
                    info = Path(f"/proc/{pid}/fdinfo/{number}").read_text(encoding="utf-8")
                    lines = info.splitlines()
                if any(line.startswith("scm_fds:") and line.split()[1] != "0" for line in lines):
                    return True
    except PermissionError:
        return True
    except OSError:  # it ended
        return False
    return False


def _user_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


async def reap(sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Takes away who fell to the daemon (``adopt_orphans``) and has ended, as long as it runs; ends
    at once where nobody is adopted."""
    dead: set[int] = set()
    while sys.platform == "linux":
        await sleep(REAP)
        dead = await asyncio.to_thread(_reap, dead)


def _reap(dead: set[int]) -> set[int]:
    """Takes away who was ``dead`` before; the dead of now, whom nobody waited for."""
    ours = os.getpid()
    zombies: set[int] = set()
    for pid in descendants(ours):
        with suppress(OSError, IndexError):
            if state_of(pid) == ("Z", ours):
                zombies.add(pid)
    for pid in zombies & dead:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return zombies - dead
