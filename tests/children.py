"""What every process of the tests begins with, and what is known of it.

A disposition that is ignored, and a blocked signal, are inherited through execve(2) (signal(7)): a
run in the background would hand them to daemons, shells and browsers, and Ctrl-C would reach none
of them. Here nothing is ignored and nothing blocked, so that children begin with the defaults
however they are started. Needs the standard library only: ``tests.pythons`` runs without the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

# ignored by Python itself, restored by subprocess
_OF_PYTHON = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}


def default_signals() -> None:
    """For a process that is about to become another program."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):  # what libc keeps for itself
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def die_with_parent() -> None:
    """Who is killed leaves no child behind (Linux: prctl(2), PR_SET_PDEATHSIG)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def hand_on_defaults() -> None:
    """This process goes on ignoring what it ignored; its children do not: a handler becomes the
    default in execve(2)."""
    for number in signal.valid_signals() - _OF_PYTHON:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


# processes, by /proc: nothing is found where there is none


def _stat(pid: int) -> list[bytes]:
    """The fields of proc_pid_stat(5) from the third on; none of who is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def alive(pid: int) -> bool:
    """A zombie is not."""
    return (_stat(pid) or [b"Z"])[0] not in (b"Z", b"X")


def descendants(of: int, since: float = 0.0) -> list[int]:
    """Living processes below ``of`` that began ``since`` (seconds of CLOCK_BOOTTIME)."""
    stats = {int(path.name): _stat(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    below: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        if fields:
            below.setdefault(int(fields[1]), []).append(pid)
    found, look = list[int](), [of]
    while look:
        more = below.get(look.pop(), [])
        found += more
        look += more
    ticks = os.sysconf("SC_CLK_TCK")
    return [
        pid
        for pid in found
        if stats[pid][0] not in (b"Z", b"X") and int(stats[pid][19]) / ticks >= since - 0.02
    ]


def described(pid: int) -> str:
    """What it is and where it works, on one line."""
    words = place = ""
    with contextlib.suppress(OSError):
        words = (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(bytes(1), b" ")
            .decode(errors="replace")
            .strip()
        )
        place = str(Path(f"/proc/{pid}/cwd").readlink())
    return f"process {pid}: {words[:300]} (in {place})"
