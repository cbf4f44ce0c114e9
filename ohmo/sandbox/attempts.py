"""What nobody inside a cage may succeed with, tried. The text of this module is run in a cage by
``python -I -S -c``, so it brings all it needs: an order as JSON on the command line, and on stdout
one JSON object of what succeeded, each with what it got. Two words prove that it ran and could do
what it should: ``works`` and ``ended``."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import socket
import sys
import termios
from contextlib import suppress

TYPE_CHECKING = False  # it is run at every start: the modules pathlib, tempfile and typing are late
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)


def attempts(order: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """By name; each raises OSError or answers None when it failed. ``order``: ``hidden`` and
    ``outside`` (files that exist out there), ``port``, ``abstract``, ``unix`` and ``unix datagram``
    (where somebody listens), ``pid`` and ``terminal`` (of a process out there), ``calls`` (numbers
    of refused system calls; none where no filter looks at them, as on macOS)."""
    found: dict[str, Callable[[], object]] = {
        # A folder of its own may lie there: whether it came out is seen outside.
        "write outside": lambda: _write(order["outside"] + ".new"),
        "connect": lambda: _connect(socket.AF_INET, ("127.0.0.1", order["port"])),
        "abstract socket": lambda: _connect(socket.AF_UNIX, "\0" + order["abstract"]),
        "unix socket": lambda: _connect(socket.AF_UNIX, order["unix"]),
        "datagram": lambda: _datagram(order["port"]),
        "signal": lambda: os.kill(order["pid"], 0) or "sent",
        "processes outside": lambda: _read(f"/proc/{order['pid']}/environ"),
        "root of a process": lambda: _read(f"/proc/{order['pid']}/root{order['outside']}"),
        "limits of a process": lambda: _limit(order["pid"]),
        "terminal of a process": lambda: os.open(order["terminal"], os.O_RDWR | os.O_NOCTTY),
        "datagram of a pair": lambda: _paired(order["unix datagram"]),
        "settings of the kernel": lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY),
        "new privileges": lambda: None if _LIBC.prctl(39, 0, 0, 0, 0) == 1 else "open",
        "become root": _other_user,
    }
    for path in (*order["hidden"], order["outside"]):
        found[f"read {path}"] = lambda path=path: _read(path)
    if order["calls"]:
        found["type into the terminal"] = _typed
    for name, number in order["calls"].items():
        found[name] = lambda number=number: _call(number)
    return found


def _read(path: str) -> object:
    if os.path.isdir(path):  # noqa: PTH112
        return os.listdir(path) or None  # noqa: PTH208
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read() or None


def _write(path: str) -> None:
    with open(path, "x", encoding="ascii") as file:  # noqa: PTH123
        file.write("x")


def _connect(family: int, address: Any) -> object:
    with socket.socket(family, socket.SOCK_STREAM) as made:
        made.settimeout(2.0)
        made.connect(address)
        return "connected"


def _datagram(port: int) -> object:
    """Whether it comes through is seen outside as well; an unreachable network says so."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(0.3)
        made.connect(("192.0.2.1", port))  # RFC 5737: nobody's
        return "there is a way out"


def _paired(path: str) -> object:
    """What one end of a pair of sockets may be sent on to."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        return one.sendto(b"x", path)


def _limit(pid: int) -> object:
    """As it is: nobody is harmed."""
    return resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))


def _typed() -> object:
    try:
        fcntl.ioctl(0, termios.TIOCSTI, b"x")
    except PermissionError:
        return None
    except OSError as error:
        return f"not refused but {error.strerror}"
    return "typed"


def _other_user() -> object:
    """Whoever is root already becomes somebody else."""
    if os.getuid() == 0:
        with suppress(OSError):
            os.setgroups([])
            return "may set groups"
        return None
    os.setuid(0)
    return "is root"


def _call(number: int) -> object:
    """A refused call says EPERM, whatever it is given; or it is none at all: ENOSYS."""
    ctypes.set_errno(0)
    answer = _LIBC.syscall(number, -1, 0, 0, 0, 0, 0)
    if answer == -1 and ctypes.get_errno() in (1, 38):
        return None
    return f"not refused but {answer}, errno {ctypes.get_errno()}"


def _answered() -> bool:
    """The way to names is there, and none is open."""
    host, _, port = os.environ["https_proxy"].rpartition("/")[2].partition(":")
    with socket.create_connection((host, int(port)), 5.0) as made:
        made.sendall(b"CONNECT nobody.invalid:443 HTTP/1.1\r\n\r\n")
        return made.recv(100).startswith(b"HTTP/1.1 403 ")


def main() -> None:
    order = json.loads(sys.argv[1])
    succeeded: dict[str, str] = {}
    scratch = f"{os.environ.get('TMPDIR', '/tmp')}/trial-{os.getpid()}"  # noqa: S108
    for path in (scratch, order["own"]):
        _write(path)
    os.unlink(scratch)  # noqa: PTH108
    works = _read(order["own"]) == b"x" and (not order.get("names") or _answered())
    for name, attempt in attempts(order).items():
        with suppress(OSError, AttributeError):  # or this system does not know it
            got = attempt()
            if got is not None:
                succeeded[name] = str(got)[:200]
    tried = len(attempts(order))
    print(json.dumps({"works": works, "ended": True, "tried": tried, "succeeded": succeeded}))


if __name__ == "__main__":
    main()
