"""Row 4 where a draft is a message: kill -9 while it stands half written; it becomes the answer, no
second message appears."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Stage


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
        await scene.daemon.start(failpoint)
        marker = await scene.says("#chunks{10} #hold{8}", on="slack")
        await scene.drafted(marker)
        scene.model.go.set()
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.check(again=True)


@pytest.mark.parametrize("failpoint", ["model.chunk=kill@9", "send.accepted=kill@1"])
@pytest.mark.fault("failpoint", on="feishu")
async def test_a_streaming_card_that_was_shown_becomes_the_answer(
    stage: Stage, failpoint: str
) -> None:
    async with stage("feishu") as scene:
        await scene.daemon.start(failpoint)
        marker = await scene.says("#chunks{10} #hold{8}", on="feishu")
        await scene.drafted(marker)
        scene.model.go.set()
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.check(again=True)
        (answer,) = await scene.answers(marker)
        row = scene.rigs["feishu"].world.find(answer.id)
        assert not scene.rigs["feishu"].world.entities[row["card_id"]]["streaming"], (
            "it says no more that it is being written"
        )
