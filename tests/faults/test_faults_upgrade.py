"""Row 67: two builds take turns on one home while people go on talking; nothing is lost, and a
build that cannot read the store leaves it alone."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import ohmo
from tests.faults.builds import COMMAND, Build, built
from tests.faults.conftest import Stage
from tests.faults.scene import Scene

STATEMENT = "ALTER TABLE threads ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'"
CHATS = ("dm:ada", "dm:bob", "dm:7001", "dm:7002")
# answers on their way when it is killed: Telegram cannot be asked what became of them, so they may
# be repeated, marked
AT_ONCE = len(CHATS)


async def talks(scene: Scene, rounds: int = 4) -> None:
    """Everybody, whether anybody listens or not."""
    for _ in range(rounds):
        for chat in CHATS:
            await scene.says("#chunks{4}", chat=chat)
            await asyncio.sleep(0.01)


async def lives(scene: Scene, build: Build, *, gracefully: bool = True) -> None:
    """A life of ``build``, begun and ended while people talk."""
    scene.daemon.environ.update(build.environ)
    talking = asyncio.create_task(talks(scene))
    await scene.daemon.start()
    _, status = await scene.daemon.call("GET", "/api/v1/status")
    assert status["version"] == build.version
    await talking
    talking = asyncio.create_task(talks(scene, 2))
    await asyncio.sleep(0.05)
    if gracefully:
        assert await scene.daemon.stop() == 0
    else:
        await scene.daemon.kill()
    await talking


def looks(home: Path) -> dict[str, str]:
    """Every file of the store, by its content."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(home.glob("ohmo.db*"))
        if not file.name.endswith("-shm")
    }


async def test_up_and_down_by_a_minor_version_under_load_loses_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    old, new = built(tmp_path / "old", ohmo.__version__), built(tmp_path / "new", "0.2.0")
    async with stage("telegram", command=COMMAND) as scene:
        for build, gracefully in ((old, True), (new, False), (old, False), (new, True)):
            await lives(scene, build, gracefully=gracefully)
        scene.daemon.environ.update(old.environ)
        await scene.daemon.start()
        await scene.check(repeats=2 * AT_ONCE)


async def test_a_store_of_the_next_form_is_refused_by_the_old_version_and_not_touched(
    stage: Stage, tmp_path: Path
) -> None:
    old, new = (
        built(tmp_path / "old", ohmo.__version__),
        built(tmp_path / "new", "0.2.0", statement=STATEMENT),
    )
    async with stage("telegram", command=COMMAND) as scene:
        await lives(scene, old, gracefully=False)
        # what was open is carried over into the next form
        await lives(scene, new, gracefully=False)
        before = looks(scene.daemon.home)
        for _ in range(2):
            scene.daemon.environ.update(old.environ)
            await scene.daemon.start(ready=False)
            assert await scene.daemon.ended() == 1
            assert "start the newer ohmo" in scene.daemon.said
            assert looks(scene.daemon.home) == before
        await talks(scene, 1)
        scene.daemon.environ.update(new.environ)
        await scene.daemon.start()
        await scene.check(repeats=2 * AT_ONCE)
        assert scene.daemon.rows("SELECT DISTINCT colour FROM threads") == [("red",)]
