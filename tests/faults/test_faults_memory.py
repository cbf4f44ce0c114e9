"""Row 42: a limit of memory that a command runs into, or that the house comes near to; a real
control group of the kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.parts import skip_without

pytestmark = pytest.mark.cold_start

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
    async with stage(
        "telegram",
        permissions={"mode": "full_auto"},
        access={"roles": {"owner": ["telegram:1001"]}},
    ) as scene:
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
