"""A question on Discord is one card: an embed right above its buttons, which stays when it is
answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.faults.daemon import until
from tests.faults.directed_model import behind
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage

SUPPRESS_EMBEDS = 1 << 2  # Message flags: with it no embed is shown


def rows(scene: Scene) -> list[dict[str, Any]]:
    world = scene.rigs["discord"].server.world
    return [row for row in world.place("dm:ada").messages.values() if row["author"].get("bot")]


async def test_a_question_is_one_card_above_its_buttons_and_stays_one(
    stage: Stage, work: Path
) -> None:
    run = f"echo x >> {work / 'counter'}"
    async with stage("discord") as scene:
        await scene.daemon.start()
        await scene.says(f"#run{{{run}}} #lines{{60}}", on="discord")
        asked = await scene.asked("discord")
        (card,) = [row for row in rows(scene) if row["components"]]
        (embed,) = card["embeds"]
        assert card["id"] == asked.id
        # more than a message holds, in one piece all the same
        assert len(embed["description"]) > 2000
        assert behind(60, run).split("\n")[-1] in embed["description"]
        assert card["content"]  # what a notification shows
        assert not card["flags"] & SUPPRESS_EMBEDS
        before = len(rows(scene))
        await scene.press_first("discord")
        await scene.answered()

        async def settled() -> bool:
            return not card["components"]

        await until("the buttons are gone", settled)
        assert card["embeds"][0]["color"] != embed["color"]
        assert behind(60, run).split("\n")[-1] in card["embeds"][0]["description"]
        assert len(rows(scene)) == before + 1  # the answer, and no second half of the card
        assert (work / "counter").read_text() == "x\n"
