"""What the daemon makes of a keeper's last words."""

from __future__ import annotations

import asyncio

import pytest

from ohmo.processes.job import Job


@pytest.mark.parametrize("last", ['{"ended": {"out": ["x', "", '{"progress": '])
async def test_a_keeper_that_was_killed_in_the_middle_of_a_line_is_a_killed_keeper(last: str) -> None:
    keeper = await asyncio.create_subprocess_exec("printf", last, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    job = Job(keeper, "no-such-mark", lambda _: None)
    async with asyncio.timeout(20):
        ended = await job.ended
        await job.close()
    assert (ended.signal, ended.reason) == ("SIGKILL", "its keeper was killed")
