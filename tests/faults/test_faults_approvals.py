"""Rows 13 and 14: kill -9 while a question is open and right after its answer; the command runs
once, whoever answers by whatever door."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import ClientError

from tests.conformance.rig import Visible
from tests.faults.conftest import Stage
from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene


def is_card(message: Visible) -> bool:
    """The question or what became of it."""
    return "counter" in message.text and not MARKER.search(message.text)


async def press(scene: Scene, on: str) -> None:
    """The first button of the only card that has any."""
    cards = [message for message in await scene.rigs[on].visible() if message.choices]
    assert len(cards) == 1, cards
    await scene.rigs[on].presses(cards[0].id, cards[0].choices[0])


async def by_api(scene: Scene) -> None:
    _, found = await scene.daemon.call("GET", "/api/v1/approvals")
    assert len(found["approvals"]) == 1, found
    status, said = await scene.daemon.call(
        "POST", f"/api/v1/approvals/{found['approvals'][0]['ask']['id']}", {"verdict": "allowed"}
    )
    assert status == 200, said


async def answer(scene: Scene, on: str, door: str) -> None:
    await (by_api(scene) if door == "api" else press(scene, on))


def runs(work: Path) -> int:
    return len((work / "counter").read_text().splitlines())


@pytest.mark.parametrize(
    ("on", "door"),
    [
        ("telegram", "button"),
        ("telegram", "api"),
        ("slack", "button"),
        ("discord", "button"),
        ("web", "button"),
    ],
)
@pytest.mark.person("allow", "restart")
async def test_a_question_outlives_a_kill_and_its_button_still_works(
    stage: Stage, work: Path, on: str, door: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start("approval.stored=kill")
        await scene.says(f"#run{{echo x >> {work / 'counter'}}}", on=on)
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.asked(on)
        await answer(scene, on, door)
        await scene.answered()
        assert [
            message.choices for message in await scene.rigs[on].visible() if is_card(message)
        ] == [()], "one card, closed"
        await scene.check(also=is_card)
        assert runs(work) == 1


@pytest.mark.parametrize(
    ("on", "door"),
    [("telegram", "button"), ("telegram", "api"), ("slack", "button"), ("discord", "button")],
)
async def test_a_kill_after_the_answer_executes_once(
    stage: Stage, work: Path, on: str, door: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start("approval.granted=kill")
        await scene.says(f"#run{{echo x >> {work / 'counter'}}}", on=on)
        await scene.asked(on)
        if door == "api":
            # the answer is stored, its confirmation dies with the process
            with pytest.raises(ClientError):
                await by_api(scene)
        else:
            await press(scene, on)
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.check(also=is_card)
        assert runs(work) == 1


@pytest.mark.parametrize(
    ("failpoint", "least"),
    [("tool.before=kill", 0), ("tool.running=kill", 0), ("tool.after=kill", 1)],
)
async def test_an_allowed_command_that_was_interrupted_is_not_run_twice(
    stage: Stage, work: Path, failpoint: str, least: int
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start(failpoint)
        await scene.says(f"#run{{echo x >> {work / 'counter'}}}")
        await scene.asked("telegram")
        await press(scene, "telegram")
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.answered()
        await scene.check(also=is_card)
        assert least <= (runs(work) if (work / "counter").exists() else 0) <= 1
