"""``full_auto`` by a word in a chat: the owner's, with ``--i-know``, for eight hours, over
restarts; its end is said once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.rig import Visible
from tests.faults.clock import WallClock
from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene

OWNER = {"owner": ["telegram:1001"]}
HOUR = 3_600.0


async def told(scene: Scene, chat: str = "dm:ada") -> list[Visible]:
    return [message for message in await scene.rigs["telegram"].visible(chat) if message.by_bot]


async def says(
    scene: Scene, words: str, line: str, chat: str = "dm:ada", person: str = "ada"
) -> str:
    """The reply that holds the line."""
    before = {one.id for one in await told(scene, chat)}
    await scene.rigs["telegram"].says(words, chat=chat, person=person)
    found: list[str] = []

    async def there() -> bool:
        found[:] = [
            one.text for one in await told(scene, chat) if one.id not in before and line in one.text
        ]
        return bool(found)

    await until(f"{line!r} is said to {words}", there)
    return found[0]


async def ran(scene: Scene, work: Path, name: str) -> bool:
    """Whether a command runs unasked; else its question is denied."""
    word = await scene.says(f"#run{{touch {work / name}}}")

    async def either() -> bool:
        return (work / name).exists() or any(one.choices for one in await told(scene))

    await until(f"{name} is made or asked about", either)
    if not (work / name).exists():
        await scene.rigs["telegram"].says("/deny")
    await scene.answered(word)
    return (work / name).exists()


@pytest.mark.needs("cc")
async def test_full_auto_is_the_owners_with_open_eyes_and_ends_by_itself(
    stage: Stage, work: Path, tmp_path: Path
) -> None:
    clock = WallClock(tmp_path)
    async with stage("telegram", cron={"timezone": "UTC"}, **OWNER) as scene:
        scene.daemon.environ.update(clock.environ)
        await scene.daemon.start()
        await says(scene, "/mode full_auto --i-know", "Only the owner", "dm:bob", "bob")
        await says(scene, "/mode full_auto", "only the sandbox")
        assert not await ran(scene, work, "warned")
        text = await says(
            scene, "/mode full_auto --i-know", "is no longer asked about in this chat"
        )
        end = re.search(r"until (\S+ \S+ UTC)", text)
        assert end is not None
        assert await ran(scene, work, "free")

        assert await scene.daemon.stop() == 0
        clock.sets(7 * HOUR)
        await scene.daemon.start()
        assert end[1] in await says(scene, "/mode", "full_auto")
        assert await ran(scene, work, "later")

        clock.sets(8 * HOUR + 60)
        await _ended(scene)
        assert await scene.daemon.stop() == 0
        await scene.daemon.start()
        assert not await ran(scene, work, "over")
        assert "as configured" in await says(scene, "/mode", "Mode:")
        assert sum("has ended here" in one.text for one in await told(scene)) == 1


@pytest.mark.needs("cc")
async def test_full_auto_that_ends_while_the_daemon_is_away_is_over_when_it_is_back(
    stage: Stage, work: Path, tmp_path: Path
) -> None:
    clock = WallClock(tmp_path)
    async with stage("telegram", **OWNER) as scene:
        scene.daemon.environ.update(clock.environ)
        await scene.daemon.start()
        await says(scene, "/mode full_auto --i-know", "is no longer asked about in this chat")
        await scene.daemon.kill()
        clock.sets(9 * HOUR)
        await scene.daemon.start()
        await _ended(scene)
        assert not await ran(scene, work, "over")


@pytest.mark.needs("linux")
async def test_the_preset_full_asks_nothing_of_the_owner_and_asks_everybody_else(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", permissions={"preset": "full"}, **OWNER) as scene:
        await scene.daemon.start()
        assert await ran(scene, work, "owner")
        rig = scene.rigs["telegram"]
        await rig.says(f"#run{{touch {work / 'user'}}}", chat="dm:bob", person="bob")

        async def asked() -> bool:
            return any(one.choices for one in await told(scene, "dm:bob"))

        await until("bob is asked", asked)
        assert not (work / "user").exists()


async def _ended(scene: Scene) -> None:
    async def said() -> bool:
        return any("has ended here" in one.text for one in await told(scene))

    await until("its end is said", said)
