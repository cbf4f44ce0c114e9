"""In a group an open question holds up what others say: they are told, once, and are answered when
it is."""

from __future__ import annotations

import pytest

from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage


async def told(scene: Scene, on: str) -> list[str]:
    return [
        one.text
        for one in await scene.rigs[on].visible("group")
        if one.by_bot and "waiting for an answer" in one.text
    ]


@pytest.mark.parametrize("on", ["telegram", "discord", "feishu", "matrix"])
async def test_who_waits_behind_a_question_is_told_once_and_answered_after_it(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        asking = await scene.says("#run{echo x >> trace}", on=on, chat="group")

        async def parked() -> bool:
            return bool((await scene.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"])

        await until("a question", parked)
        waiting = await scene.says(on=on, chat="group")

        async def said() -> bool:
            return bool(await told(scene, on))

        await until("those who wait are told", said)
        another = await scene.says(on=on, chat="group")
        await scene.heard(another)
        (asked,) = (await scene.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"]
        await scene.daemon.call(
            "POST",
            f"/api/v1/approvals/{asked['ask']['id']}",
            {"verdict": "allowed", "scope": "once"},
        )
        await scene.answered(asking, waiting, another)
        await scene.quiet()
        assert len(await told(scene, on)) == 1
