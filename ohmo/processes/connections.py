"""Where the process stands that holds the other end of a TCP connection. On Linux /proc/net/tcp
(proc_net_tcp(5)) tells the socket, and /proc/PID/fd who has it open."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from channels.record import record
from ohmo.processes.ancestry import Ancestry, Place, state_of

End = tuple[Any, ...]  # address and port first, as getpeername(2) tells them


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
    found = _end_of(theirs, ours)
    if found is None:
        return "unclear" if _is_here(theirs[0]) else "outside"
    if found.inode == 0:  # closed already
        return "unclear"
    held, closed = _holders(found.inode)
    places = {ancestry.place(pid) for pid in held}
    if places:
        return "inside" if "inside" in places else "unclear" if "unclear" in places else "outside"
    if any(_may_hide(pid) for pid in _pids() if ancestry.place(pid) != "outside"):
        return "unclear"  # it may be theirs
    if os.getuid() not in (0, found.owner) or any(map(_is_of_a_login, closed)):
        return "outside"
    return "unclear"


def _end_of(theirs: End, ours: End) -> _Socket | None:
    wanted = (_plain(theirs), _plain(ours))
    for table in ("tcp", "tcp6"):
        with suppress(OSError), Path(f"/proc/net/{table}").open(encoding="ascii") as rows:
            next(rows)
            for row in rows:
                words = row.split()
                if (_read(words[1]), _read(words[2])) == wanted:
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


def _holders(inode: int) -> tuple[list[int], list[int]]:
    """Who has it open; whose descriptors we may not see."""
    held: list[int] = []
    closed: list[int] = []
    for pid in _pids():
        try:
            if any(name == f"socket:[{inode}]" for _, name in _open(pid)):
                held.append(pid)
        except PermissionError:
            closed.append(pid)
        except OSError:
            continue
    return held, closed


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
            if name.startswith("socket:") and _queued(Path(f"/proc/{pid}/fdinfo/{number}")):
                return True
    except PermissionError:
        return True
    except OSError:  # it ended
        return False
    return False


def _queued(socket_: Path) -> bool:
    """Whether descriptors wait in its queue. Raises OSError."""
    try:
        lines = socket_.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:  # closed since
        return False
    return any(line.startswith("scm_fds:") and line.split()[1] != "0" for line in lines)


def _is_of_a_login(pid: int) -> bool:
    """A process of our user whose parent is root's and not the first one: what sshd keeps for a
    login, and makes its tunnels with."""
    with suppress(OSError):
        parent = state_of(pid)[1]
        return parent > 1 and _user_of(parent) == 0 and _user_of(pid) == os.getuid()
    return False


def _user_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid
