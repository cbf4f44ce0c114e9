"""Rows 42, 43, 49, 52 and 64: no file descriptors left, little memory, one thread's rows ruined, a
broken config.yaml, a log that cannot be written."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import socket
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.configurations import campaign, violation
from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.disk import WRITE, Disk
from tests.faults.scene import Scene
from tests.parts import skip_without

pytestmark = pytest.mark.cold_start

ARENA = 64 << 20
TICKS = os.sysconf("SC_CLK_TCK")

UNASKED = {"permissions": {"mode": "full_auto"}, "access": {"roles": {"owner": ["telegram:1001"]}}}


def cpu(pid: int) -> float:
    """Seconds of processor time, proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def no_descriptors(pid: int) -> Generator[None]:
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
    async with stage("telegram", **UNASKED) as scene:
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
                message.by_bot and "could not finish" in message.text
                for message in await scene.rigs["telegram"].visible("dm:ada")
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


LIMIT = 500 << 20  # bytes: the daemon needs a fifth of it
GROUPS = Path("/sys/fs/cgroup")


class Group:
    """A control group with a limit of memory, version 1 or 2: cgroups(7)."""

    def __init__(self, folder: Path, kind: str, limit: str, used: str, events: str) -> None:
        self.folder = folder
        self._kind = kind
        self._limit = limit
        self._used = used
        self._events = events

    def limit(self, most: int) -> None:
        (self.folder / self._limit).write_text(str(most))

    def take(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))

    @contextmanager
    def around(self) -> Generator[None]:
        """What is started inside is born in the group."""
        before = next(
            line.split(":", 2)
            for line in Path("/proc/self/cgroup").read_text().splitlines()
            if line.split(":", 2)[1] == self._kind
        )
        self.take(os.getpid())
        try:
            yield
        finally:
            (self.folder.parent / before[2].lstrip("/") / "cgroup.procs").write_text(
                str(os.getpid())
            )

    def used(self) -> int:
        return int((self.folder / self._used).read_text())

    def kills(self) -> int:
        found = re.search(
            r"^oom_kill (\d+)$", (self.folder / self._events).read_text(), re.MULTILINE
        )
        assert found is not None
        return int(found[1])


@pytest.fixture
def group() -> Iterator[Group]:
    name = f"ohmo-test-{os.getpid()}"
    one = GROUPS / "memory" / name
    if (GROUPS / "memory").is_dir():
        group = Group(
            one, "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"
        )
    else:
        group = Group(GROUPS / name, "", "memory.max", "memory.current", "memory.events")
    try:
        group.folder.mkdir()
        group.limit(LIMIT)
    except OSError as error:
        if group.folder.is_dir():
            group.folder.rmdir()
        skip_without("cgroup", f"no control group with a limit of memory can be made here: {error}")
    yield group
    group.folder.rmdir()


async def warned(scene: Scene) -> bool:
    _, status = await scene.daemon.call("GET", "/api/v1/status")
    return any("memory is short" in line for line in status["warnings"])


async def test_a_command_that_eats_the_memory_is_killed_and_the_daemon_is_not(
    stage: Stage, group: Group
) -> None:
    async with stage("telegram", **UNASKED) as scene:
        await scene.daemon.start()
        group.take(scene.daemon.pid)
        eater = await scene.says("#run{head -c 2000000000 /dev/zero | tail -n 1}")
        await scene.answered()
        assert group.kills() >= 1
        assert any(
            "SIGKILL" in text or "exit code 137" in text or "Killed" in text
            for text in scene.told(eater)
        )
        await scene.says()
        await scene.check()
        assert scene.daemon.lives == 1


async def test_near_its_limit_the_house_says_so_and_loses_nothing(
    stage: Stage, group: Group
) -> None:
    async def short() -> bool:
        group.limit(int(group.used() / 0.92))
        return await warned(scene)

    async def enough() -> bool:
        return not await warned(scene)

    async with stage("telegram") as scene:
        with group.around():
            await scene.daemon.start()
        await scene.says()
        await scene.answered()
        await until("it says that memory is short", short)
        for _ in range(4):
            await scene.says()
        await scene.answered()
        group.limit(LIMIT)
        await until("it says nothing of memory any more", enough)
        await scene.check(also=lambda message: "Memory is short" in message.text)
        assert scene.daemon.lives == 1
