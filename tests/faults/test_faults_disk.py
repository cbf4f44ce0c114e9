"""Rows 40 and 41: the disk is full or fails under the real daemon; nothing is acknowledged that
could get lost, and what was said meanwhile is answered."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.disk import READ, SYNC, WRITE, Disk
from tests.faults.scene import Scene

OWNED = {"owner": ["telegram:1001"]}
SMALL = "6m"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def readiness(scene: Scene, wanted: int) -> None:
    async def there() -> bool:
        return (await scene.daemon.call("GET", "/readyz"))[0] == wanted

    await until(f"/readyz answers {wanted}", there)


async def owner_reads(scene: Scene, words: str) -> None:
    async def there() -> bool:
        return any(
            words in message.text for message in await scene.rigs["telegram"].visible("dm:ada")
        )

    await until(f"the owner reads {words!r}", there)


async def outage(scene: Scene, disk: Disk, number: int, words: str) -> None:
    """Something is said before, while and after the store takes nothing."""
    await scene.daemon.start()
    await scene.says()
    await scene.answered()
    disk.fails(WRITE, number)
    await scene.says(chat="dm:bob")
    await readiness(scene, 503)
    await owner_reads(scene, words)
    await scene.says()
    _, status = await scene.daemon.call("GET", "/api/v1/status")
    assert words in " ".join(status["warnings"])
    assert disk.heals() > 0
    await readiness(scene, 200)
    await owner_reads(scene, "can be stored again")
    await scene.check(also=lambda one: "stored" in one.text)
    assert scene.daemon.lives == 1


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "reading or writing the disk failed")],
)
async def test_a_disk_that_takes_nothing_stops_the_acknowledging_and_heals_without_a_restart(
    stage: Stage, disk: Disk, number: int, words: str
) -> None:
    async with stage("telegram", **OWNED) as scene:
        scene.daemon.environ.update(disk.environ)
        await outage(scene, disk, number, words)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("on", ["slack", "discord", "feishu"])
async def test_what_was_said_while_the_disk_was_full_is_answered_on_every_platform(
    stage: Stage, disk: Disk, on: str
) -> None:
    async with stage(on) as scene:
        scene.daemon.environ.update(disk.environ)
        await scene.daemon.start()
        await scene.says(on=on)
        await scene.answered()
        disk.fails()
        await scene.says(on=on)
        await readiness(scene, 503)
        assert disk.heals() > 0
        await readiness(scene, 200)
        await scene.check(also=lambda one: "stored" in one.text)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("after", [0, 3])
async def test_a_sync_that_fails_ends_the_process_and_the_next_life_loses_nothing(
    stage: Stage, disk: Disk, after: int
) -> None:
    """After a failed fsync(2) the kernel may call pages clean that never reached the disk: whoever
    goes on would promise what is not there."""
    async with stage("slack") as scene:
        scene.daemon.environ.update(disk.environ)
        await scene.daemon.start()
        await scene.says(on="slack")
        await scene.answered()
        disk.fails(SYNC, errno.EIO, after=after, times=1)
        await scene.says(on="slack", chat="dm:bob")
        assert await scene.daemon.ended() == 70
        assert "reading or writing the disk failed" in scene.daemon.said
        disk.heals()
        await scene.daemon.start()
        await scene.check()


@pytest.mark.needs("cc")
async def test_a_disk_that_cannot_be_read_costs_no_message(stage: Stage, disk: Disk) -> None:
    async with stage("telegram") as scene:
        scene.daemon.environ.update(disk.environ)
        await scene.daemon.start()
        await scene.says()
        await scene.answered()
        disk.fails(READ, errno.EIO, after=1, times=3)
        await scene.says(chat="dm:bob")
        await scene.answered()
        disk.heals()
        await scene.check()


@pytest.fixture
def small_home(home: Path) -> Iterator[Path]:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=0700", "tmpfs", str(home)], check=True
    )
    yield home
    subprocess.run(["umount", "-l", str(home)], check=True)


@pytest.mark.needs("mounts")
async def test_a_small_file_system_that_runs_full_heals_without_a_restart(
    small_home: Path, stage: Stage
) -> None:
    """Everything of the home is on it: store, log, media."""
    async with stage("telegram", **OWNED) as scene:
        await scene.daemon.start()
        await scene.says()
        await scene.answered()
        ballast = small_home / "ballast"
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            file.writelines(repeat(bytes(4096)))
        await scene.says("x" * 3000, chat="dm:bob")
        await readiness(scene, 503)
        ballast.unlink()
        await readiness(scene, 200)
        await scene.check(also=lambda one: "stored" in one.text)
        assert scene.daemon.lives == 1
