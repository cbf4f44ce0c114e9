"""What people type who come from another agent, said to the real daemon: it is understood or
answered by one line, and no model reads it."""

from __future__ import annotations

import pytest

from ohmo.commands.aliases import INSTEAD, SAME
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS, shown

SAID = {
    "/start": "Welcome",
    "/start@ohmo_bot ref_42": "Welcome",
    "/clear": "A new conversation begins here",
    "/reset": "A new conversation begins here",
    "/cost": "today",
    "/cancel": "Stopped",
    "/version": ", Python 3.",
    "/settings": "`/model` and `/mode`",
    "/summary of today": "later version",
    "/reload-plugins": "ohmo plugins list",
    "/commit all of it": "in your own words",
    "/resume": "no earlier conversation here",
    "/sessions": "no earlier conversation here",
    "/save": "goes on by itself",
    "/share": "`/export` gives you this conversation as a file",
}


async def says(scene: Scene, on: str, said: str) -> None:
    """Slack's own client keeps what begins with a slash: there it is a command of the app."""
    if on == "slack":
        await scene.rigs[on].commands(said.removeprefix("/") if " " not in said else said)
    else:
        await scene.rigs[on].says(said)


async def replied(scene: Scene, on: str, said: str, line: str) -> None:
    """One new message of the bot that holds the line."""
    before = {message.id for message in await scene.rigs[on].visible("dm:ada")}
    await says(scene, on, said)
    wanted = line.replace("`", "")

    await shown(
        scene,
        on,
        "dm:ada",
        lambda one: one.id not in before and wanted in one.text.replace("`", ""),
        f"the reply to {said}",
    )


@pytest.mark.parametrize("on", [*PLATFORMS, "web"])
async def test_what_is_known_from_elsewhere_is_answered_and_reaches_no_model(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        for said, line in SAID.items():
            await replied(scene, on, said, line)
        names = sorted((*SAME, *INSTEAD))
        before = {message.id for message in await scene.rigs[on].visible("dm:ada")}
        for name in names:
            await says(scene, on, f"/{name}")

        async def all_answered() -> bool:
            rows = [message for message in await scene.rigs[on].visible("dm:ada") if message.by_bot]
            return sum(row.id not in before for row in rows) >= len(names)

        await until(f"a reply to each of {len(names)} names", all_answered)
        await scene.quiet()
        assert scene.model.count == 0


async def test_on_slack_a_sentence_that_begins_with_such_a_word_is_said_to_the_agent(
    stage: Stage,
) -> None:
    async with stage("slack") as scene:
        await scene.daemon.start()
        await scene.rigs["slack"].commands("review m-1-cafe0001 and what I wrote of it")
        await scene.models_asked(1)
        assert scene.model.asked[-1].said.endswith("review m-1-cafe0001 and what I wrote of it")
