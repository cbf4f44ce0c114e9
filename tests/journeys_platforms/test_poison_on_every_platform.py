"""A message whose turn fails each time becomes a dead letter that its person hears of, and others
go on (faults.md, row 32)."""

from __future__ import annotations

import json

import pytest

from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS, shown
from tests.journeys_platforms.test_trouble_on_every_platform import elsewhere, is_notice
from tests.platforms.discord.world import PEOPLE as DISCORD


def freely(scene: Scene, on: str) -> None:
    """Ada is the owner, and nothing is asked."""
    ada = (
        scene.rigs[on]._account("ada").user
        if on == "matrix"
        else {"slack": "U0ADA", "discord": DISCORD["ada"], "feishu": "ou_ada"}[on]
    )
    path = scene.daemon.home / "config.yaml"
    wanted = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            wanted
            | {
                "permissions": {"mode": "full_auto"},
                "access": {"roles": {"owner": [f"{on}:{ada}"]}},
            }
        )
    )


@pytest.mark.parametrize("on", [on for on in PLATFORMS if on != "telegram"])
@pytest.mark.fault(32)
async def test_a_message_whose_turn_raises_three_times_is_told_and_others_go_on(
    stage: Stage, on: str
) -> None:
    # a draft would meet the third failpoint in the answer's place
    async with stage(on, **{on: {"streaming": "off"}}) as scene:
        freely(scene, on)
        await scene.daemon.start("tool.running=raise;model.chunk=raise;outbox.before=raise")
        poison = await scene.says("#run{touch it}", on=on, answered=False)
        await scene.models_asked(1)
        await scene.says("of the same conversation", on=on)
        told = await shown(scene, on, "dm:ada", is_notice, "the word that it failed")
        assert "failed 3 times" in told.text
        assert await scene.answers(poison) == []
        await scene.says("of another one", on=on, chat=await elsewhere(scene, on))
        await scene.answered()
        await scene.check(also=is_notice)
