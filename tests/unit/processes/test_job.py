"""Who belongs to a job, whatever the process is doing, and what the daemon makes of a keeper's last
words."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ohmo.processes.job import Command, Job, ProcessRunner
from ohmo.processes.process_tree import MARK, marked, sweep


@pytest.mark.parametrize("last", ['{"ended": {"out": ["x', "", '{"progress": '])
async def test_a_keeper_that_was_killed_in_the_middle_of_a_line_is_a_killed_keeper(
    last: str,
) -> None:
    keeper = await asyncio.create_subprocess_exec(
        "printf", last, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    job = Job(keeper, "no-such-mark", lambda _: None)
    async with asyncio.timeout(20):
        ended = await job.ended
        await job.close()
    assert (ended.signal, ended.reason) == ("SIGKILL", "its keeper was killed")


async def test_what_a_command_says_on_stderr_stays_there_after_it_closed_its_stdout(
    tmp_path: Path,
) -> None:
    script = (
        "exec >&-; echo closed >&2; while [ ! -e go ]; do sleep 0.05; done; echo oops >&2; sleep 60"
    )
    command = Command(
        ("sh", "-c", script), tmp_path, {"PATH": "/usr/bin:/bin"}, tmp_path / "spill", None
    )
    job = await ProcessRunner().start(command, lambda _: None)
    try:
        async with asyncio.timeout(20):
            while b"closed" not in (await job.read()).err.head:
                await asyncio.sleep(0.01)
            (tmp_path / "go").touch()
            while not (said := await job.read()).out.total + said.err.total:
                await asyncio.sleep(0.01)
        assert (said.out.total, said.err.total) == (0, 5)
    finally:
        await job.close()


@pytest.mark.parametrize("told", [True, False])
async def test_a_command_that_stops_its_keeper_is_ended_all_the_same(
    tmp_path: Path, *, told: bool
) -> None:
    """``kill -STOP $PPID`` made a turn wait for ever: neither its timeout nor /stop reached the
    keeper."""
    script = "kill -STOP $PPID; touch stopped; setsid sleep 600"
    command = Command(
        ("bash", "-c", script),
        tmp_path,
        {"PATH": "/usr/bin:/bin"},
        tmp_path / "spill",
        None if told else 1.5,
    )
    job = await ProcessRunner(grace=0.2, patience=1.5).start(command, lambda _: None)
    async with asyncio.timeout(20):
        while not (tmp_path / "stopped").exists():
            await asyncio.sleep(0.01)
        if told:
            await job.close()
        ended = await job.ended
    assert (ended.signal, ended.reason) == ("SIGKILL", "its keeper was killed")
    assert marked(job._mark) == []


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
