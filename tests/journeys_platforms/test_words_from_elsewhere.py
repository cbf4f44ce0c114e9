"""What people type who come from another agent, said to the real daemon: it is understood or answered by one line, and no model reads it."""

from __future__ import annotations

import pytest

from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import shown

SAID = {
    "/start": "Welcome",
    "/start@ohmo_bot ref_42": "Welcome",
    "/clear": "A new conversation begins here",
    "/reset": "A new conversation begins here",
    "/cost": "today",
    "/cancel": "Stopped",
    "/version": "ohmo",
    "/settings": "`/model` and `/mode`",
    "/compact keep the plan": "later version",
    "/reload-plugins": "later version",
    "/commit all of it": "in your own words",
    "/resume": "goes on by itself",
}


async def replied(scene: Scene, on: str, said: str, line: str) -> None:
    """One new message of the bot that holds the line."""
    before = {one.id for one in await scene.rigs[on].visible("dm:ada")}
    await scene.rigs[on].says(said)
    wanted = line.replace("`", "")

    await shown(scene, on, "dm:ada", lambda one: one.id not in before and wanted in one.text.replace("`", ""), f"the reply to {said}")


@pytest.mark.parametrize("on", ["telegram", "discord", "web"])
async def test_what_is_known_from_elsewhere_is_answered_and_reaches_no_model(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        for said, line in SAID.items():
            await replied(scene, on, said, line)
        assert scene.model.count == 0
