"""What the daemon makes of a keeper's last words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ohmo.processes.job import Command, Job, ProcessRunner
from ohmo.processes.process_tree import marked


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
