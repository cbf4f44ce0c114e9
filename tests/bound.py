"""The end of what a test waits for: a plugin of pytest (``-p tests.bound``).

No wait for a child outlives its test: ``LATE`` seconds after a test's own time-out its children are
killed, ``LATER`` its process ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Generator

import pytest

from tests.children import descendants, described, die_with_parent, hand_on_defaults

LATE = float(os.environ.get("OHMO_TEST_LATE", "15"))
LATER = 2 * LATE
_ENDLESS = 70  # EX_SOFTWARE


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
