"""Who belongs to a job is found whatever the process is doing at that moment."""

from __future__ import annotations

import os
import signal

import pytest

from ohmo.processes.process_tree import MARK, marked, sweep

_LINUX = pytest.mark.needs("linux")


def _ever_new(mark: str) -> int:
    """A process that replaces itself for ever: a good part of its life it is in the middle of an
    exec, without an environment."""
    again = 'exec /bin/sh -c "$AGAIN"'
    child = os.fork()
    if child == 0:
        os.execve("/bin/sh", ["sh", "-c", again], {"AGAIN": again, MARK: mark})
    return child


@_LINUX
def test_a_process_in_the_middle_of_an_exec_is_found() -> None:
    child = _ever_new("mid-exec")
    try:
        while child not in marked("mid-exec"):  # the fork's own exec may not have happened yet
            os.kill(child, 0)
        seen = [child in marked("mid-exec") for _ in range(100)]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert all(seen), f"missed {seen.count(False)} times"


@_LINUX
def test_a_sweep_leaves_nobody_of_the_mark_and_touches_no_other() -> None:
    mine, other = _ever_new("swept"), _ever_new("kept")
    try:
        while other not in marked("kept") or mine not in marked("swept"):
            os.kill(other, 0)
        sweep("swept")
        assert os.waitpid(mine, 0)[1] == signal.SIGKILL
        assert marked("swept") == []
        assert other in marked("kept")
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
