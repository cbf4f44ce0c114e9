"""Mission T21: what nobody allowed in time is not run, and can be run afterwards, once, on every
platform; also when the house dies right then."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.conformance.rig import Visible
from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene
from tests.platforms.model.script import Turn

PLATFORMS = ("telegram", "slack", "discord", "feishu", "web", "matrix")


def is_the_house(message: Visible) -> bool:
    """Cards, and answers to what nobody said."""
    return not MARKER.search(message.text)


async def run_late(scene: Scene, on: str) -> None:
    """By the button where there are buttons, else in words."""
    if on == "matrix":
        await scene.rigs[on].says("/approve")
        return
    (card,) = [
        message for message in await scene.rigs[on].visible() if "to run it now" in message.text
    ]
    assert len(card.choices) == 1, card
    await scene.rigs[on].presses(card.id, card.choices[0])


async def lapses(scene: Scene, on: str) -> None:
    async def offered() -> bool:
        return any("to run it now" in message.text for message in await scene.rigs[on].visible())

    await until(f"the question on {on} is over", offered)


@pytest.mark.needs("synapse")
@pytest.mark.person("late", on=("page", "telegram", "slack", "discord", "feishu", "matrix"))
async def test_on_every_platform_a_question_that_is_over_offers_to_run_it_now(
    stage: Stage, work: Path
) -> None:
    async with stage(*PLATFORMS, permissions={"approval_timeout": "1s"}) as scene:
        await scene.daemon.start()
        for on in PLATFORMS:
            await scene.says(f"#run{{echo x >> {work}/{on}}}", on=on)
        for on in PLATFORMS:
            await lapses(scene, on)
        await scene.answered()
        assert not [on for on in PLATFORMS if (work / on).exists()]
        for on in PLATFORMS:
            await run_late(scene, on)
        for on in PLATFORMS:
            await scene.appears(work / on)
        await scene.check(also=is_the_house)
        assert [(work / on).read_text() for on in PLATFORMS] == ["x\n"] * len(PLATFORMS)


@pytest.mark.parametrize("failpoint", ["turn.claim=kill", "tool.after=kill"])
async def test_a_kill_around_what_is_run_late_runs_it_once(
    stage: Stage, work: Path, failpoint: str
) -> None:
    async with stage("telegram", permissions={"approval_timeout": "1s"}) as scene:
        await scene.daemon.start()
        await scene.says(f"#run{{echo x >> {work}/counter}}")
        await lapses(scene, "telegram")
        await scene.answered()
        await scene.quiet()
        assert await scene.daemon.stop() == 0
        await scene.daemon.start(failpoint)
        await run_late(scene, "telegram")
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.appears(work / "counter")
        await scene.check(also=is_the_house)
        assert (work / "counter").read_text() == "x\n"


@pytest.mark.parametrize(
    "on", ["telegram", pytest.param("matrix", marks=pytest.mark.needs("synapse"))]
)
async def test_a_message_nobody_said_is_still_wanted_can_be_answered_after_all(
    stage: Stage, home: Path, on: str
) -> None:
    """The question stands for a week; its time is put back while the house is away."""
    async with stage(on, sessions={"ask_after": "3s"}) as scene:
        answering, scene.model.default = (
            scene.model.default,
            lambda _: Turn(status=529, kind="overloaded_error", message="Overloaded"),
        )
        await scene.daemon.start()
        marker = await scene.says(on=on, answered=False)

        async def shown(text: str) -> bool:
            return any(
                message.by_bot and text in message.text
                for message in await scene.rigs[on].visible()
            )

        await until("the model is away", lambda: shown("Your message is kept"))
        scene.model.default = answering
        scene.model.refused.clear()  # pyright: ignore[reportAttributeAccessIssue]  # that it was overloaded is no fault of the requests
        await until("it is asked about", lambda: shown("Shall I still answer it?"))
        assert await scene.daemon.stop() == 0
        with contextlib.closing(sqlite3.connect(home / "ohmo.db")) as store, store:
            assert (
                store.execute(
                    "UPDATE approvals SET deadline = asked_at WHERE state = 'asked'"
                ).rowcount
                == 1
            )
        await scene.daemon.start()
        await until("its time is over", lambda: shown("to have it answered now"))
        assert not await shown("run it now")
        before = scene.model.count
        if on == "matrix":
            await scene.rigs[on].says("/approve")
        else:
            (card,) = [
                message
                for message in await scene.rigs[on].visible()
                if "to have it answered now" in message.text
            ]
            for _ in range(2):
                await scene.rigs[on].presses(card.id, card.choices[0])
        await until("the model is asked", lambda: asked(scene, before))
        await scene.quiet()
        assert scene.model.count == before + 1
        assert marker in scene.model.asked[-1].raw.decode()
        assert await shown("Answered now")


async def asked(scene: Scene, before: int) -> bool:
    return scene.model.count > before
