"""Among several people an answer stands under the message it answers, and rings whom it speaks to
and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage

GROUPS = [
    ("telegram", None),
    ("telegram", "edits"),
    ("discord", None),
    ("discord", "off"),
    ("feishu", None),
    ("matrix", None),
    ("matrix", "off"),
]


async def answered(scene: Scene, on: str, answer: Visible) -> tuple[str | None, list[str]]:
    """The message it replies to, and whom it rings beside or instead of that message's author."""
    rig: Any = scene.rigs[on]
    match on:
        case "telegram":
            row = rig.server.world.chat("group").messages[int(answer.id)]
            return str(
                row["reply_to_message"]["message_id"]
            ) if "reply_to_message" in row else None, []
        case "discord":
            row = rig.server.world.place("group").messages[answer.id]
            reply = row.get("message_reference", {}).get("message_id")
            return reply, rig.server.world.pings
        case "feishu":
            return rig.world.find(answer.id).get("parent_id"), []
        case _:
            room = await rig.room("group")
            event = await rig.call("ada", "GET", f"/rooms/{room}/event/{answer.id}")
            content = event["content"]
            edits = await rig.call("ada", "GET", f"/rooms/{room}/messages", dir="b", limit=100)
            rung = [
                one["content"].get("m.mentions", {}).get("user_ids", [])
                for one in edits["chunk"]
                if _is_of(one, answer.id)
            ]
            return content["m.relates_to"]["m.in_reply_to"]["event_id"], [
                person for one in rung for person in one
            ]


def _is_of(event: dict[str, Any], message: str) -> bool:
    return (
        event["event_id"] == message
        or event["content"].get("m.relates_to", {}).get("event_id") == message
    )


@pytest.mark.parametrize(("on", "streaming"), GROUPS)
@pytest.mark.person("group")
async def test_in_a_group_each_answer_replies_to_what_it_answers_and_rings_who_asked(
    stage: Stage, on: str, streaming: str | None
) -> None:
    async with stage(
        on, **({on: {"streaming": streaming}} if streaming is not None else {})
    ) as scene:
        await scene.daemon.start()
        first = await scene.says("#chunks{6} #pace{0.4}", on=on, chat="group")
        second = await scene.says(on=on, chat="group")
        await scene.answered()
        await scene.quiet()
        for marker in (first, second):
            (answer,) = await scene.answers(marker)
            reply, rung = await answered(scene, on, answer)
            assert reply == scene.messages[marker]
            if on == "discord":
                assert rung == ["ada", "ada"], "each answer rings who asked, once"
            if on == "matrix":
                assert rung == [scene.rigs[on]._account("ada").user], (
                    "once, not by the draft and by the answer"
                )
        await scene.check()


@pytest.mark.parametrize("on", ["telegram", "discord", "feishu", "matrix"])
async def test_with_one_person_alone_no_answer_quotes(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        marker = await scene.says(on=on)
        await scene.answered()
        await scene.quiet()
        (answer,) = await scene.answers(marker)
        rig: Any = scene.rigs[on]
        match on:
            case "telegram":
                assert (
                    "reply_to_message"
                    not in rig.server.world.chat("dm:ada").messages[int(answer.id)]
                )
            case "discord":
                assert (
                    "message_reference" not in rig.server.world.place("dm:ada").messages[answer.id]
                )
            case "feishu":
                assert not rig.world.find(answer.id).get("parent_id")
            case _:
                event = await rig.call(
                    "ada", "GET", f"/rooms/{await rig.room('dm:ada')}/event/{answer.id}"
                )
                assert "m.relates_to" not in event["content"]
        await scene.check()


async def told(scene: Scene, on: str) -> list[str]:
    return [
        message.text
        for message in await scene.rigs[on].visible("group")
        if message.by_bot and "waiting for an answer" in message.text
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
