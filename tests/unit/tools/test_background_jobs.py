"""What is left of commands in the background when their daemon is gone, and what is let go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from tool_calls import Call

from ohmo.processes.job import Command, Job, ProcessRunner
from ohmo.tools.results import ToolError
from ohmo.tools.workbench import BackgroundJobs, Workbench

Start = Callable[[Path], Awaitable[Job]]


def running(script: str, runner: ProcessRunner | None = None) -> Start:
    """What starts it."""

    async def start(output: Path) -> Job:
        argv = ("/bin/bash", "-c", script)
        environ = {"PATH": os.environ["PATH"]}
        order = Command(argv, Path("/"), environ, output, None, kept=True)
        return await (runner or ProcessRunner()).start(order, lambda _: None)

    return start


def jobs_in(folder: Path, most: int = 8) -> BackgroundJobs:
    """As a daemon that has just begun finds them."""
    jobs = BackgroundJobs(most)
    jobs.keep_in(folder)
    return jobs


async def written(path: Path, text: bytes) -> None:
    async with asyncio.timeout(20):
        while not path.exists() or path.read_bytes() != text:
            await asyncio.sleep(0.02)


async def test_a_keeper_that_was_killed_leaves_the_output(tmp_path: Path) -> None:
    """As when the machine loses its power."""
    folder = tmp_path / "a"
    jobs = jobs_in(tmp_path)
    name = await jobs.begin("a", running("echo one; echo two >&2; sleep 86.31"))
    job = jobs.get(name, "a").job
    assert job is not None
    await written(folder / f"{name}.txt.part", b"one\ntwo\n")
    for child in psutil.Process().children():
        if f"keeper-{child.pid}" == job.ended.get_name():
            child.kill()
    await asyncio.wait_for(asyncio.shield(job.ended), 30)
    found = jobs_in(tmp_path).get(name, "a")
    assert not found.runs
    ended = await found.end(1000)
    assert ended.output.out.head == b"one\ntwo\n"
    assert (ended.code, ended.reason) == (None, "the daemon ended, and its commands with it")


async def test_head_and_tail_of_a_long_output_are_found_again(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    name = await jobs.begin("a", running("seq 1 5000; exit 7"))
    await jobs.get(name, "a").end(100)
    ended = await jobs_in(tmp_path).get(name, "a").end(100)
    whole = "".join(f"{number}\n" for number in range(1, 5001)).encode()
    stream = ended.output.out
    assert (stream.head, stream.tail, stream.total) == (whole[:100], whole[-100:], len(whole))
    assert (ended.code, ended.reason, ended.cut) == (7, "", 0)


@pytest.mark.parametrize("end", [b"", b"{", b"[]", b'{"code": 0}', b"\xff"])
async def test_a_torn_end_is_no_end(tmp_path: Path, end: bytes) -> None:
    jobs = jobs_in(tmp_path)
    name = await jobs.begin("a", running("echo x"))
    await jobs.get(name, "a").end(100)
    (tmp_path / "a" / f"{name}.txt.end").write_bytes(end)
    ended = await jobs_in(tmp_path).get(name, "a").end(100)
    assert ended.output.out.head == b"x\n"
    assert ended.reason.startswith("the daemon ended")


async def test_old_ones_make_room_and_no_id_is_given_twice(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    jobs = jobs_in(tmp_path)
    for number in range(1, 41):
        assert await jobs.begin("a", running("echo x")) == f"bash_{number}"
        await jobs.get(f"bash_{number}", "a").end(100)
    with pytest.raises(ToolError, match="no background command 'bash_5'"):
        jobs.get("bash_5", "a")
    assert len(list(folder.iterdir())) <= 3 * 33
    (folder / "bash_junk.thread").write_text("a")
    (folder / "bash_41.thread").write_bytes(b"\xff")
    again = jobs_in(tmp_path)
    assert await again.begin("a", running("echo x")) == "bash_42"
    assert not again.get("bash_40", "a").runs
    await again.close()


async def test_what_an_earlier_version_kept_is_found_by_its_own_thread_only(tmp_path: Path) -> None:
    (tmp_path / "background").mkdir()
    (tmp_path / "background" / "bash_7.thread").write_text("a")
    (tmp_path / "background" / "bash_7.txt").write_text("old\n")
    jobs = jobs_in(tmp_path)
    assert (await jobs.get("bash_7", "a").end(100)).output.out.head == b"old\n"
    with pytest.raises(ToolError, match="no background command 'bash_7'; there is none"):
        jobs.get("bash_7", "b")
    assert await jobs.begin("b", running("echo x")) == "bash_8"
    await jobs.get("bash_8", "b").end(100)
    assert (tmp_path / "b" / "bash_8.txt").read_text() == "x\n"


async def test_what_did_not_start_leaves_nothing(tmp_path: Path) -> None:
    async def start(_: Path) -> Job:
        raise OSError("no process")

    jobs = jobs_in(tmp_path)
    with pytest.raises(OSError, match="no process"):
        await jobs.begin("a", start)
    assert list((tmp_path / "a").iterdir()) == []


async def test_long_outputs_make_room_by_their_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    jobs = jobs_in(tmp_path)
    for _ in range(3):
        name = await jobs.begin("a", running("echo x"))
        await jobs.get(name, "a").end(100)
    os.truncate(folder / "bash_2.txt", 300 << 20)
    await jobs.begin("a", running("echo x"))
    assert sorted(path.stem for path in folder.glob("*.thread")) == ["bash_3", "bash_4"]
    await jobs.close()


async def test_a_stop_of_the_daemon_is_told_as_such(
    call: Call, bench: Workbench, tmp_path: Path
) -> None:
    started = await call("Bash", command="echo hi; sleep 86.32", run_in_background=True)
    assert "as bash_1;" in started.text
    await written(tmp_path / "spill" / "thread" / "bash_1.txt.part", b"hi\n")
    await bench.background.close()
    told = (await call("BashOutput", bash_id="bash_1")).text
    assert told.endswith("[ended: the daemon ended, and its commands with it]\n[bash_1 has ended]")


async def test_many_that_begin_at_once_make_room_once_and_keep_the_limit(tmp_path: Path) -> None:
    folder = tmp_path / "background"
    jobs = jobs_in(folder)
    for number in range(32):
        name = await jobs.begin(f"a{number}", running("echo x"))
        await jobs.get(name, f"a{number}").end(100)
    began = await asyncio.gather(
        *(jobs.begin("b", running("sleep 86.33")) for _ in range(12)), return_exceptions=True
    )
    names = [name for name in began if isinstance(name, str)]
    refused = [str(why) for why in began if isinstance(why, ToolError)]
    assert (len(names), len(refused)) == (8, 4)
    assert all("8 commands run in the background already (bash_33, " in why for why in refused)
    await jobs.close()


async def test_old_ones_are_let_go_once_however_many_begin(tmp_path: Path) -> None:
    folder = tmp_path / "background"
    jobs = jobs_in(folder)
    runner = ProcessRunner()
    for number in range(32):
        name = await jobs.begin(f"a{number}", running("echo x", runner))
        await jobs.get(name, f"a{number}").end(100)
    job = jobs.get("bash_32", "a31").job
    assert job is not None

    async def ended(output: Path) -> Job:
        output.touch()
        return job

    names = await asyncio.gather(*(jobs.begin(f"b{number}", ended) for number in range(8)))
    assert names == [f"bash_{number}" for number in range(33, 41)]
    left = {path.stem for path in folder.glob("*/*.thread")}
    assert left == {f"bash_{number}" for number in range(9, 41)}
