"""Rows 1 to 4, 8 to 10 and 27: kill -9 at every step of a message's way, on every platform; then
everything is delivered once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.conftest import Stage
from tests.faults.scene import Scene, scene
from tests.platforms.matrix.rig import encrypted_rig

PATH = """
    inbound.received=kill@1 inbound.received=kill@2 inbound.stored=kill@1 inbound.stored=kill@2
    turn.claim=kill@1 turn.claim=kill@2 model.chunk=kill@1 model.chunk=kill@5 model.chunk=kill@8
    outbox.before=kill@1 outbox.committed=kill@1 send.accepted=kill@1 send.accepted=kill@2
""".split()
EVERYWHERE = """
    inbound.stored=kill@2 model.chunk=kill@5 outbox.before=kill@2 outbox.committed=kill@2
    send.accepted=kill@2
""".split()
HERE = {
    "slack": "dm:ada",
    "matrix": "dm:ada",
    "web": "dm:ada",
    "telegram": "dm:ada",
    "discord": "dm:ada",
    "feishu": "dm:ada",
}


async def survives(scene: Scene, on: str, failpoint: str) -> None:
    """Two messages, a death at the failpoint, one more while nobody is there, a new life; then
    every delivery again."""
    await scene.daemon.start(failpoint)
    first = await scene.says("#chunks{8}", on=on)
    await scene.answered_or_died(first)
    await scene.says("#chunks{8}", on=on)
    await scene.daemon.died()
    if on != "web":  # a page cannot reach a house that is down; its outbox holds what was typed
        assert await scene.daemon.left_behind() == []
    await scene.says(on=on)
    dead = scene.daemon.holders()
    assert dead
    await scene.daemon.start()
    assert not dead & scene.daemon.holders(), (
        "the dead still hold something: somebody would wait for the end of their lease"
    )
    await scene.answered()
    risky = on == "telegram" and failpoint.startswith("send.accepted")
    await scene.check(repeats=1 if risky else 0, again=True)


@pytest.mark.parametrize("failpoint", PATH)
@pytest.mark.fault("failpoint", 27, on="telegram")
async def test_telegram_survives_a_kill_at_every_step(stage: Stage, failpoint: str) -> None:
    async with stage("telegram") as scene:
        await survives(scene, "telegram", failpoint)


@pytest.mark.parametrize("failpoint", EVERYWHERE)
@pytest.mark.fault("failpoint", 27, on="slack")
async def test_slack_survives_a_kill_at_every_step(stage: Stage, failpoint: str) -> None:
    async with stage("slack") as scene:
        await survives(scene, "slack", failpoint)


@pytest.mark.parametrize("failpoint", ["inbound.received=kill@1", *EVERYWHERE])
@pytest.mark.fault("failpoint", 27, on="discord")
async def test_discord_survives_a_kill_at_every_step(stage: Stage, failpoint: str) -> None:
    """Also a kill before the very first direct message is stored: the session of the life before
    still has it."""
    async with stage("discord") as scene:
        await survives(scene, "discord", failpoint)


@pytest.mark.parametrize("failpoint", EVERYWHERE)
@pytest.mark.fault("failpoint", 27, on="feishu")
async def test_feishu_survives_a_kill_at_every_step(stage: Stage, failpoint: str) -> None:
    async with stage("feishu") as scene:
        await survives(scene, "feishu", failpoint)


@pytest.mark.parametrize("failpoint", EVERYWHERE)
async def test_the_browser_chat_survives_a_kill_at_every_step(stage: Stage, failpoint: str) -> None:
    async with stage("web") as scene:
        await survives(scene, "web", failpoint)


@pytest.mark.needs("synapse")
@pytest.mark.xdist_group("synapse")
@pytest.mark.parametrize("failpoint", EVERYWHERE)
@pytest.mark.fault("failpoint", 27, on="matrix")
async def test_matrix_survives_a_kill_at_every_step(stage: Stage, failpoint: str) -> None:
    async with stage("matrix") as scene:
        await survives(scene, "matrix", failpoint)


@pytest.mark.needs("synapse")
@pytest.mark.xdist_group("synapse")
@pytest.mark.parametrize("failpoint", ["inbound.received=kill@2", *EVERYWHERE])
@pytest.mark.fault("failpoint", 27, on="matrix")
async def test_an_encrypted_room_survives_a_kill_at_every_step(home: Path, failpoint: str) -> None:
    """The other side is another maker's client; a lost key would be a lost message, a plain one a
    broken promise (the rig looks for both)."""
    async with scene(home, {"matrix": encrypted_rig}) as made:
        await survives(made, "matrix", failpoint)
