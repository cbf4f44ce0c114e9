"""Rows 1 to 10 and 27: kill -9 at every step of a message's way and around a command, on every
platform, also where a draft is a message; then everything is delivered once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import warm
from tests.faults.conftest import RIGS, Stage
from tests.faults.daemon import until
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
    async with scene(home, {"matrix": encrypted_rig}, start=warm.start) as made:
        await survives(made, "matrix", failpoint)


async def killed_behind_a_draft(scene: Scene, failpoint: str, on: str) -> str:
    await scene.daemon.start(failpoint)
    marker = await scene.says("#chunks{10} #hold{8}", on=on)
    await scene.drafted(marker)
    scene.model.go.set()
    await scene.daemon.died()
    await scene.daemon.start()
    await scene.check(again=True)
    return marker


@pytest.mark.parametrize(
    "failpoint",
    """
        model.chunk=kill@9 outbox.before=kill@1 outbox.committed=kill@1 send.accepted=kill@1
        send.accepted=kill@2
    """.split(),
)
@pytest.mark.fault("failpoint", on="slack")
async def test_a_draft_that_was_shown_becomes_the_answer(stage: Stage, failpoint: str) -> None:
    async with stage("slack") as scene:
        await killed_behind_a_draft(scene, failpoint, "slack")


@pytest.mark.parametrize("failpoint", ["model.chunk=kill@9", "send.accepted=kill@1"])
@pytest.mark.fault("failpoint", on="feishu")
async def test_a_streaming_card_that_was_shown_becomes_the_answer(
    stage: Stage, failpoint: str
) -> None:
    async with stage("feishu") as scene:
        marker = await killed_behind_a_draft(scene, failpoint, "feishu")
        (answer,) = await scene.answers(marker)
        row = scene.rigs["feishu"].world.find(answer.id)
        assert not scene.rigs["feishu"].world.entities[row["card_id"]]["streaming"], (
            "it says no more that it is being written"
        )


FREELY = {"permissions": {"mode": "full_auto"}, "access": {"default_role": "admin"}}


def runs(counter: Path) -> int:
    return len(counter.read_text().splitlines()) if counter.exists() else 0


async def looked_back(scene: Scene) -> bool:
    """Feishu's first contact: what was said before it was looked for, and that is saved; or it died
    of it."""
    saved = [
        str(value)
        for (value,) in scene.daemon.rows(
            "SELECT value FROM cursors WHERE channel = 'feishu' AND name <> 'p2p'"
        )
    ]
    return not scene.daemon.alive or (
        bool(saved) and not any('"heard"' in value for value in saved)
    )


async def dies_with(scene: Scene, counter: Path, on: str) -> str:
    """Says something that runs a command, when nothing else is on its way; the daemon does not
    outlive it."""
    if scene.daemon.alive:
        await scene.answered()
        await scene.quiet()
    marker = await scene.says(f"#run{{echo x >> {counter}}}", on=on)
    await scene.daemon.died()
    return marker


@pytest.mark.fault(1, 3, 5, 6, 7)
@pytest.mark.parametrize(
    "on",
    [
        pytest.param(on, marks=[pytest.mark.needs("synapse")] if on == "matrix" else [])
        for on in RIGS
    ],
)
@pytest.mark.person("say", "restart")
async def test_deaths_on_the_way_in_and_around_a_command_lose_nothing_and_run_nothing_twice(
    stage: Stage, work: Path, on: str
) -> None:
    async with stage(on, **FREELY) as scene:
        await scene.daemon.start(f"inbound.received=kill@{3 if on == 'feishu' else 2}")
        # Discord tells nobody of a first message that was said to a dead process
        known = await scene.says("known to each other", on=on)
        await scene.answered_or_died(known)  # who looks back meanwhile may hear it twice
        if on == "feishu" and scene.daemon.alive:  # a position is saved once more
            await until("the first contact was looked back on", lambda: looked_back(scene))
        first = await dies_with(scene, work / "first", on)
        # the same message goes on, and dies again
        for failpoint in ("turn.claim=kill", "tool.before=kill"):
            await scene.daemon.start(failpoint, ready=False)
            await scene.daemon.died()
        await scene.daemon.start("tool.running=kill")
        second = await dies_with(scene, work / "second", on)
        await scene.daemon.start("tool.after=kill")
        third = await dies_with(scene, work / "third", on)
        await scene.daemon.start()
        await scene.check(again=True)
        assert [
            "not executed" in scene.told(first)[0],
            "effect is unknown" in scene.told(second)[0],
            "effect is unknown" in scene.told(third)[0],
        ] == [True] * 3
        assert (runs(work / "first"), runs(work / "third")) == (0, 1)
        assert runs(work / "second") <= 1
