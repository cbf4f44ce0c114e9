"""Somebody mentions the bot in a Feishu group: one card that is written while it is read, and
nothing for those who did not ask."""

from __future__ import annotations

import pytest

from tests.conformance.rig import Visible
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage


async def cards(scene: Scene, marker: str) -> list[Visible]:
    return await scene.answers(marker)


@pytest.mark.person("group", "watch", on="feishu")
async def test_a_group_mention_is_answered_once_by_a_card_that_streams(stage: Stage) -> None:
    async with stage("feishu") as scene:
        await scene.daemon.start()
        rig = scene.rigs["feishu"]
        await rig.says("just talking among us", chat="group", person="bob", mention=False)
        marker = await scene.says("#chunks{14} #pace{0.3} #hold{10}", on="feishu", chat="group")
        await scene.drafted(marker)
        scene.model.go.set()
        await scene.answered(marker)
        await scene.quiet()
        (answer,) = await cards(scene, marker)
        assert len(rig.world.writes) >= 2
        row = rig.world.find(answer.id)
        assert not rig.world.entities[row["card_id"]]["streaming"]
        assert [text for message, text in rig.world.writes if message != answer.id] == []
        calls = [(verb, path) for verb, path, _ in rig.server.kept.calls]
        assert (
            sum(
                verb == "POST" and path.endswith(("im/v1/messages", "/reply"))
                for verb, path in calls
            )
            == 1
        )
        assert rig.world.reactions == {}, "typing is over"
        await scene.check()


@pytest.mark.person("group", on="feishu")
async def test_in_a_thread_of_a_group_the_answer_stays_in_the_thread(stage: Stage) -> None:
    async with stage("feishu", feishu={"streaming": "edits"}) as scene:
        await scene.daemon.start()
        root = await scene.rigs["feishu"].says("a topic", chat="group", person="bob", mention=False)
        marker = await scene.says("#chunks{8} #pace{0.3}", on="feishu", chat="group", topic=root)
        await scene.answered(marker)
        await scene.quiet()
        (answer,) = await cards(scene, marker)
        assert answer.topic == root
        assert scene.rigs["feishu"].world.writes == []
        await scene.check()
