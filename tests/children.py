"""What every test's processes begin with and end by: a plugin of pytest (``-p tests.children``).

A disposition that is ignored, and a blocked signal, are inherited through execve(2) (signal(7)): a
run in the background would hand them to daemons, shells and browsers, and Ctrl-C would reach none
of them. Here nothing is ignored and nothing blocked, so that children begin with the defaults
however they are started; and no wait for a child outlives its test: ``LATE`` seconds after a test's
own time-out its children are killed, ``LATER`` its process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

LATE = float(os.environ.get("OHMO_TEST_LATE", "15"))
LATER = 2 * LATE
# ignored by Python itself, restored by subprocess
_OF_PYTHON = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}
_ENDLESS = 70  # EX_SOFTWARE


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


# the bound of a test


class _Bound:
    """A thread that ends what a test waits for."""

    def __init__(self) -> None:
        self._name = ""
        self._at = 0.0
        self._began = 0.0
        threading.Thread(target=self._watch, daemon=True, name="bound of a test").start()

    def begin(self, name: str, seconds: float) -> None:
        self._began = (
            time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0
        )
        self._name = name
        self._at = time.monotonic() + seconds + LATE if seconds else 0.0

    def end(self) -> None:
        self._at = 0.0

    def _watch(self) -> None:
        while True:
            time.sleep(0.5)
            at = self._at
            if not at or time.monotonic() < at:
                continue
            for pid in descendants(os.getpid(), self._began):
                print(
                    f"tests: {self._name} waits beyond its time-out: killing {described(pid)}",
                    file=sys.__stderr__,
                )
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            while self._at == at:
                time.sleep(0.1)
                if time.monotonic() > at - LATE + LATER:
                    print(f"tests: {self._name} cannot be ended", file=sys.__stderr__)
                    faulthandler.dump_traceback(sys.__stderr__)
                    os._exit(_ENDLESS)


BOUND = pytest.StashKey[_Bound]()


def _seconds(item: pytest.Item) -> float:
    """What pytest-timeout gives this test; 0: no bound."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.kwargs.get("timeout", marker.args[0] if marker.args else 0) or 0)
    given = item.config.getoption("timeout", None)
    return float(item.config.getini("timeout") or 0 if given is None else given)


def pytest_configure(config: pytest.Config) -> None:
    hand_on_defaults()
    if hasattr(config, "workerinput"):
        die_with_parent()
    config.stash[BOUND] = _Bound()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.config.stash[BOUND].begin(
        item.nodeid, 0 if item.config.getoption("usepdb", False) else _seconds(item)
    )
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    try:
        return (yield)
    finally:
        item.config.stash[BOUND].end()
