"""Rows 43, 49, 52 and 64: no file descriptors left, one thread's rows ruined, a broken config.yaml,
a log that cannot be written."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import sqlite3
from pathlib import Path

import pytest

from tests.faults.configurations import campaign, violation
from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.disk import WRITE, Disk

pytestmark = pytest.mark.cold_start

ARENA = 64 << 20
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """Seconds of processor time, proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def no_descriptors(pid: int) -> object:
    """As under ``ulimit -n``: what is open stays, nothing more is given."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(
        pid,
        resource.RLIMIT_NOFILE,
        (max(int(fd.name) for fd in Path(f"/proc/{pid}/fd").iterdir()) + 1, hard),
    )
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def visitors(path: Path, many: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    for _ in range(many):
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            one.connect(str(path))
        found.append(one)
    return found


def heaps_of_threads(pid: int) -> list[str]:
    """glibc gives a thread a heap of its own in an aligned room of 64 MiB: what is in use, and
    behind it what nobody may touch (malloc/arena.c)."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    ranges = [
        (*(int(end, 16) for end in line.split()[0].split("-")), line.split()[1]) for line in lines
    ]
    return [
        line
        for line, (begin, _, mode), (_, end, closed) in zip(lines, ranges, ranges[1:], strict=False)
        if begin % ARENA == 0 and (mode, closed) == ("rw-p", "---p") and end == begin + ARENA
    ]


@pytest.mark.needs("glibc")
async def test_the_threads_of_a_daemon_share_one_heap(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        await scene.says()
        await scene.answered()
        assert not heaps_of_threads(scene.daemon.pid), (
            "the first of its threads began before share_one_heap"
        )


async def test_without_file_descriptors_nothing_spins_and_everything_is_answered_afterwards(
    stage: Stage, work: Path
) -> None:
    async with stage(
        "telegram",
        permissions={"mode": "full_auto"},
        access={"roles": {"owner": ["telegram:1001"]}},
    ) as scene:
        await scene.daemon.start()
        await scene.says()
        await scene.answered()
        with no_descriptors(scene.daemon.pid):
            doors = visitors(scene.daemon.home / "run" / "ohmo.sock", 20)
            await scene.says(f"#run{{echo x >> {work / 'counter'}}}")
            before = cpu(scene.daemon.pid)
            await asyncio.sleep(3)  # the time over which it is measured
            spent = cpu(scene.daemon.pid) - before
            assert scene.daemon.alive
        for one in doors:
            one.close()
        assert spent < 1.5
        await scene.says()
        await scene.check()
        assert scene.daemon.lives == 1


@pytest.mark.needs("cc")
async def test_a_log_that_cannot_be_written_holds_nobody_up(stage: Stage, tmp_path: Path) -> None:
    disk = Disk(tmp_path, "/logs/")
    async with stage("telegram") as scene:
        scene.daemon.environ.update(disk.environ)
        await scene.daemon.start()
        disk.fails(WRITE)
        for _ in range(5):
            scene.rigs["telegram"].reject_next()  # each leaves a line: plain_fallback
            await scene.says()
            await scene.answered()
        assert disk.heals() > 0
        scene.rigs["telegram"].reject_next()
        await scene.says()
        await scene.answered()

        async def told() -> bool:
            return "log.lost" in scene.daemon.log

        await until("the log says how many lines were lost", told)
        await scene.check()


async def test_a_terminal_that_nobody_reads_holds_nobody_up(stage: Stage) -> None:
    """Standard error is a full pipe: the service manager's side hangs."""
    async with stage("telegram") as scene:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"-" * 4096)
        os.set_blocking(writing, True)
        scene.daemon.environ["OHMO_SERVICE"] = "container"
        await scene.daemon.start(errors=writing)
        os.close(writing)
        for _ in range(5):
            await scene.says()
        await scene.check()
    os.close(reading)


async def test_a_ruined_transcript_ends_one_conversation_and_no_other(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        first = await scene.says()
        await scene.says(chat="dm:bob")
        await scene.answered()
        await scene.quiet()
        assert await scene.daemon.stop() == 0
        with contextlib.closing(sqlite3.connect(scene.daemon.home / "ohmo.db")) as store, store:
            (thread,) = store.execute(
                "SELECT thread FROM inbox WHERE body LIKE ?", (f"%{first}%",)
            ).fetchone()
            assert store.execute(
                "UPDATE steps SET body = '{\"torn' WHERE thread = ?", (thread,)
            ).rowcount
        await scene.daemon.start()
        other = await scene.says(chat="dm:bob")
        await scene.says(answered=False)
        await scene.answered(other)

        async def noticed() -> bool:
            return any(
                one.by_bot and "could not finish" in one.text
                for one in await scene.rigs["telegram"].visible("dm:ada")
            )

        await until("the person is told", noticed)
        assert scene.daemon.alive


def test_no_broken_configuration_is_taken_over_and_each_is_named_by_its_line() -> None:
    """A slice of G28; the whole is ``python -m tests.faults.configurations``."""
    assert not {key: count for key, count in campaign(range(12)).items() if violation(key[1])}


async def test_a_daemon_that_runs_keeps_its_configuration_while_the_file_is_broken(
    stage: Stage,
) -> None:
    async with stage("telegram", owner=["telegram:1001"]) as scene:
        await scene.daemon.start()
        file = scene.daemon.home / "config.yaml"
        whole = file.read_text()
        for broken, word in (
            (whole[: len(whole) // 2], "config.yaml:"),
            (whole.replace('"limits"', '"limitz"'), "limitz"),
        ):
            file.write_text(broken)

            async def warned(word: str = word) -> bool:
                return word in " ".join(
                    (await scene.daemon.call("GET", "/api/v1/status"))[1]["warnings"]
                )

            await until(f"the status warns of {word}", warned)
            await scene.says(chat="dm:bob")
            await scene.answered()
        file.write_text(json.dumps(json.loads(whole)))
        await scene.check(also=lambda one: "not taken over" in one.text)
        assert scene.daemon.lives == 1
