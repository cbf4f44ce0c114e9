"""What a card of each platform shows of a long command, and which buttons count: the real daemon,
the platforms' own rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.directed_model import behind
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS, ohmo, shown

BUTTONS = tuple(name for name in PLATFORMS if name != "matrix")
TOO_LONG = "cannot be allowed here"


async def bot(scene: Scene, on: str) -> Sequence[Visible]:
    return [message for message in await scene.rigs[on].visible() if message.by_bot]


async def open_question(scene: Scene) -> str:
    """The id of the only one."""
    ids: list[str] = []

    async def there() -> bool:
        ids[:] = [
            approval["ask"]["id"]
            for approval in (await scene.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"]
        ]
        return bool(ids)

    await until("a question is open", there)
    (found,) = ids
    return found


def forges(scene: Scene, on: str, message: str, choice: str) -> None:
    """A press of a button that does not stand on this message: a program of somebody's own may send
    it, or the card was passed on."""
    rig = scene.rigs[on]
    match on:
        case "telegram":
            world = rig.server.world
            number = f"{world.number():018d}"
            world.presses[number] = None
            body = world.chat("dm:ada").messages[int(message)]
            world.enqueue(
                "callback_query",
                {
                    "id": number,
                    "from": world.person("ada"),
                    "message": body,
                    "chat_instance": "1",
                    "data": choice,
                },
            )
        case "slack":
            rig.server.envelope(
                "interactive",
                {
                    "type": "block_actions",
                    "user": {"id": "U0ADA", "username": "ada", "name": "ada", "team_id": "T0HOUSE"},
                    "container": {
                        "type": "message",
                        "message_ts": message,
                        "channel_id": "D0ADA",
                        "is_ephemeral": False,
                    },
                    "channel": {"id": "D0ADA", "name": "dm:ada"},
                    "message": rig.server.workspace.row("D0ADA", message),
                    "trigger_id": "1.2.abc",
                    "response_url": f"http://127.0.0.1:{rig.server.port}/response",
                    "actions": [
                        {
                            "type": "button",
                            "action_id": "choice-0",
                            "value": choice,
                            "block_id": "b1",
                            "action_ts": rig.server.workspace.ts(),
                            "text": {"type": "plain_text", "text": "Allow once", "emoji": False},
                        }
                    ],
                },
            )
        case "discord":
            world = rig.server.world
            place = world.place("dm:ada")
            data = {"component_type": 2, "custom_id": choice}
            world.interacts(
                place.id, "ada", type=3, data=data, message=world.event(place.messages[message])
            )
        case _:
            rig.server.event(
                "card.action.trigger",
                {
                    "operator": {
                        "tenant_key": "t",
                        "open_id": "ou_ada",
                        "user_id": "",
                        "union_id": "",
                    },
                    "token": "c-1",
                    "action": {
                        "value": {"choice": choice},
                        "tag": "button",
                        "timezone": "Asia/Shanghai",
                    },
                    "host": "im_message",
                    "context": {"open_message_id": message, "open_chat_id": "oc_dmada"},
                },
                callback=True,
            )


async def presses_ended(scene: Scene, count: int) -> None:
    async def there() -> bool:
        _, found = await scene.daemon.call("GET", "/api/v1/inbox?limit=50")
        return (
            sum(row["kind"] == "answer" and row["state"] == "ended" for row in found["inbox"])
            == count
        )

    await until(f"{count} presses are handled", there)


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("whole")
async def test_a_long_command_is_shown_to_its_last_letter_before_anybody_can_allow_it(
    stage: Stage, work: Path, on: str
) -> None:
    run = f"echo x >> {work / 'counter'}"
    async with stage(on) as scene:
        await scene.daemon.start()
        await scene.says(f"#run{{{run}}} #lines{{200}}", on=on)
        if on == "matrix":
            card = await shown(
                scene, on, "dm:ada", lambda one: "/approve" in one.text, "the question"
            )
        else:
            card = await scene.asked(on)
        seen = await bot(scene, on)
        text = " ".join("\n".join(one.text for one in seen).split())
        assert all(line in text for line in behind(200, run).split("\n"))
        assert "(+200 lines)" in text
        assert seen[-1].id == card.id  # the button stands behind all of it
        assert not any(one.choices for one in seen[:-1])
        await (scene.rigs[on].says("/approve") if on == "matrix" else scene.press_first(on))
        await scene.answered()
        assert (work / "counter").read_text() == "x\n"


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("whole", on="terminal")
async def test_what_is_too_long_for_a_chat_is_allowed_where_it_can_be_read_and_nowhere_else(
    stage: Stage, work: Path, on: str
) -> None:
    run = f"echo x >> {work / 'counter'}"
    async with stage(on) as scene:
        await scene.daemon.start()
        await scene.says(f"#run{{{run}}} #lines{{500}}", on=on)
        card = await shown(scene, on, "dm:ada", lambda one: TOO_LONG in one.text, "the question")
        question = await open_question(scene)
        assert card.choices in (
            [()] if on == "matrix" else [(f"3:{question}",), (f"1:{question}",)]
        )  # Deny
        if on == "slack":
            scene.rigs[on].server.envelope(
                "slash_commands",
                {
                    "command": "/ohmo",
                    "text": "approve",
                    "channel_id": "D0ADA",
                    "user_id": "U0ADA",
                    "user_name": "ada",
                    "trigger_id": "1.2.a",
                },
            )
        else:
            await scene.rigs[on].says("/approve")

        async def refused() -> bool:
            return sum(TOO_LONG in one.text for one in await bot(scene, on)) == 2

        await until("the command is refused", refused)
        if on != "matrix":
            forges(scene, on, card.id, f"0:{question}")
            await presses_ended(scene, 1)
        assert await open_question(scene) == question
        assert not (work / "counter").exists()
        whole = await ohmo(scene, "approvals", "show", question)
        assert behind(500, run) in whole
        await ohmo(scene, "approvals", "approve", question)
        await scene.answered()
        assert (work / "counter").read_text() == "x\n"


@pytest.mark.parametrize("on", BUTTONS)
@pytest.mark.person("allow")
async def test_a_button_answers_the_question_of_its_own_card_only(
    stage: Stage, work: Path, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await scene.says(f"#run{{echo a >> {work / 'a'}}} #then{{echo b >> {work / 'b'}}}", on=on)
        first = await scene.asked(on)
        one = await open_question(scene)
        await scene.press_first(on)

        async def second_asked() -> bool:
            return any(
                message.choices and message.id != first.id for message in await bot(scene, on)
            )

        await until("the second question", second_asked)
        other = await open_question(scene)
        assert other != one
        forges(scene, on, first.id, f"0:{one}")  # the button of a closed card
        await presses_ended(scene, 2)
        forges(scene, on, first.id, f"0:{other}")  # the other's button on this card
        await presses_ended(scene, 3)
        assert await open_question(scene) == other
        assert (work / "a").read_text() == "a\n"
        assert not (work / "b").exists()
        (card,) = [message for message in await bot(scene, on) if message.choices]
        await scene.rigs[on].presses(card.id, card.choices[0])
        await scene.answered()
        assert (work / "b").read_text() == "b\n"


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
