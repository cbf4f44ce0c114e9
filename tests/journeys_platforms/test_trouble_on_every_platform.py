"""Messages that change, come late, are huge, come as a flood, wait, or are said by bots (faults.md,
rows 28 to 36 and 69)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_huge_and_strange import MIB, peak
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS, allow

# a homeserver tells everything in one order, and an edit after what it edits
ORDERED_BY_THE_SERVER = {"matrix"}
# announces none; its history shows them (tests/channels/feishu/test_feishu_catch_up.py)
NO_EDITS = {"feishu"}
NO_DELETIONS = {"telegram"}  # tells bots of none


def is_notice(message: Visible) -> bool:
    """Words of the house itself."""
    return not MARKER.search(message.text)


def asked_of(scene: Scene, marker: str) -> list[str]:
    """What the model was asked with the marker in it."""
    return [request.said for request in scene.model.asked if marker in request.said]


async def elsewhere(scene: Scene, on: str) -> str:
    """Another conversation with the bot."""
    if on != "matrix":
        return "dm:bob"
    if "dm:other" not in scene.rigs[on].rooms:
        await scene.rigs[on].creates("dm:other", "ada")
    return "dm:other"


# row 28


@contextmanager
def backwards(scene: Scene, on: str) -> Iterator[None]:
    """What happens meanwhile is told in the opposite order."""
    rig = scene.rigs[on]
    place, name = {
        "slack": lambda: (rig.server.workspace, "emit"),
        "discord": lambda: (rig.server.world, "dispatch"),
        "telegram": lambda: (rig.server.world, "enqueue"),
        "feishu": lambda: (rig.world, "emit"),
    }[on]()
    tell, held = getattr(place, name), []
    setattr(place, name, lambda *told: held.append(copy.deepcopy(told)))
    try:
        yield
    finally:
        setattr(place, name, tell)
        for told in reversed(held):
            tell(*told)


async def deletes(scene: Scene, on: str, marker: str) -> None:
    rig, message = scene.rigs[on], scene.messages[marker]
    await (rig.redacts(message) if on == "matrix" else rig.deletes(message))


@pytest.mark.fault(28, on="all")
async def test_what_changes_goes_or_comes_late_while_it_waits_is_taken_as_it_stands_and_in_its_order(
    stage: Stage,
) -> None:
    async with stage(*PLATFORMS) as scene:
        await scene.daemon.start()
        for on in PLATFORMS:
            await scene.says("#hold{0}", on=on)
        await scene.models_asked(len(PLATFORMS))
        changed: list[str] = []
        gone: list[str] = []
        for on in PLATFORMS:
            if on not in NO_EDITS:
                changed.append(await scene.says("before", on=on))
                await scene.rigs[on].edits(scene.messages[changed[-1]], f"{changed[-1]} after")
            if on not in NO_DELETIONS:
                gone.append(await scene.says("never mind", on=on, answered=False))
                # which shows nobody any more what was taken back before it was read
                if on in ORDERED_BY_THE_SERVER:
                    await scene.heard(gone[-1])
                await deletes(scene, on, gone[-1])
            if on in ORDERED_BY_THE_SERVER:
                continue
            with backwards(scene, on):
                await scene.says("earlier", on=on)
                await scene.says("later", on=on)
            with backwards(scene, on):
                early = await scene.says("before", on=on, answered=on in NO_DELETIONS)
                if on in NO_DELETIONS:
                    changed.append(early)
                    await scene.rigs[on].edits(scene.messages[early], f"{early} after")
                else:
                    gone.append(early)
                    await deletes(scene, on, early)
        # and with it all that was told before
        await scene.heard(*[await scene.says("the last of all", on=on) for on in PLATFORMS])
        scene.model.go.set()
        await scene.answered()
        for marker in changed:
            texts = asked_of(scene, marker)
            assert texts, marker
            assert all("after" in text and "before" not in text for text in texts), texts
        assert [marker for marker in gone if asked_of(scene, marker)] == []
        await scene.check()


# row 33


def too_much(scene: Scene, on: str) -> tuple[str, int]:
    """Ada says the longest text her client can send, and shows a file nobody should fetch: its
    name, and the length of the text."""
    rig, text, size = scene.rigs[on], "x" * 4000, 200 * MIB
    match on:
        case "discord":  # with Nitro: 4 000 characters, ten attachments
            stored = [
                rig.server.world.store(f"film-{number}.bin", b"") | {"size": size}
                for number in range(10)
            ]
            rig.server.world.says(text, "dm:ada", attachments=stored)
        case "telegram":  # 4 096 characters, captions 1 024
            rig.server.world.says(text, "dm:ada")
            stored = rig.server.world.store("film-0.bin", b"") | {
                "file_size": size,
                "file_name": "film-0.bin",
            }
            rig.server.world.says("", "dm:ada", document=stored)
        case _:  # Feishu: 150 KB of text
            text = "x" * 140_000
            rig.world.says("oc_dmada", "ou_ada", text)
            key = "file_from_a_person"  # people may send larger ones than bots
            rig.world.files[key] = ("file", "film-0.bin", bytes(101 * MIB))
            rig.world.sends(
                "oc_dmada", "ou_ada", "file", {"file_key": key, "file_name": "film-0.bin"}
            )
    return "film-0.bin", len(text)


async def too_much_on_matrix(scene: Scene) -> tuple[str, int]:
    """65 536 bytes of event."""
    rig, text = scene.rigs["matrix"], "x" * 60_000
    await rig.says(text)
    info = {"mimetype": "application/octet-stream", "size": 200 * MIB}
    await rig.post(
        {
            "msgtype": "m.file",
            "body": "film-0.bin",
            "filename": "film-0.bin",
            "url": await rig.uploads(b""),
            "info": info,
        }
    )
    return "film-0.bin", len(text)


@pytest.mark.parametrize("on", [on for on in PLATFORMS if on != "slack"])
@pytest.mark.fault(33)
async def test_the_longest_text_and_a_file_that_is_too_large_are_answered_in_bounded_memory(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        for _ in range(3):
            await scene.says(on=on)
        await scene.answered()
        before = peak(scene)
        name, length = await too_much_on_matrix(scene) if on == "matrix" else too_much(scene, on)
        await scene.says("and this", on=on)
        await scene.answered()
        told = json.dumps([request.body["messages"] for request in scene.model.asked])
        assert "x" * length in told
        assert f"The file {name} could not be fetched: " in told
        assert peak(scene) - before < 64 * MIB
        assert not list((scene.daemon.home / "media").rglob("*film*"))
        await scene.check(also=is_notice)


# row 35

FLOOD = {"matrix": 10}  # as many as a homeserver takes of one person in the time


@pytest.mark.fault(35, on="all")
@pytest.mark.person("say", on="chats")
async def test_a_flood_of_one_person_keeps_nobody_else_waiting_and_loses_nothing(
    stage: Stage,
) -> None:
    async with stage(*PLATFORMS) as scene:
        await scene.daemon.start()
        for on in PLATFORMS:
            await scene.says(on=on, chat=await elsewhere(scene, on))
        await scene.answered()
        flood = [
            await scene.says("#wait{0.2}", on=on)
            for on in PLATFORMS
            for _ in range(FLOOD.get(on, 20))
        ]
        others = [
            await scene.says("a word of Bob's", on=on, chat=await elsewhere(scene, on))
            for on in PLATFORMS
        ]
        await scene.answered(*others)
        late = [marker for marker in flood if not await scene.answers(marker)]
        assert late, "Bob's words were answered behind the whole flood"
        await scene.check()


# row 36


@pytest.mark.fault(36, on="all")
@pytest.mark.person("more", on="chats")
async def test_a_thread_that_waits_for_a_tool_holds_up_nobody_else_and_loses_no_later_message(
    stage: Stage, work: Path
) -> None:
    async with stage(*PLATFORMS) as scene:
        await scene.daemon.start()
        slow: list[str] = []
        for on in PLATFORMS:
            begun = work / f"begun-{on}"
            slow.append(
                await scene.says(
                    f"#run{{touch {begun}; while [ ! -e {work / 'gate'} ]; do sleep 0.05; done}}",
                    on=on,
                )
            )
            await allow(scene, on)
            await scene.appears(begun)
        later = [await scene.says("later", on=on) for on in PLATFORMS]
        others = [
            await scene.says("of somebody else", on=on, chat=await elsewhere(scene, on))
            for on in PLATFORMS
        ]
        await scene.answered(*others)
        assert [marker for marker in (*slow, *later) if await scene.answers(marker)] == []
        (work / "gate").touch()
        await scene.check(also=is_notice)


# row 69


def a_bot_says(scene: Scene, on: str, text: str, thread: str | None) -> str:
    """Another program calls ohmo in the group; the message."""
    rig, bot = (
        scene.rigs[on],
        {"id": 900_000_001, "is_bot": True, "first_name": "Robot", "username": "robot_bot"},
    )
    match on:
        case "slack":
            return rig.server.workspace.says(
                "C0GROUP", "U0OTHER", f"<@U0OHMO> {text}", thread, bot_id="B0OTHER"
            )["ts"]
        case "discord":
            world = rig.server.world
            me = world.guild()["members"][0]["user"]
            robot = {
                "id": "3000000000000000099",
                "username": "robot",
                "global_name": None,
                "discriminator": "0",
                "bot": True,
                "avatar": None,
            }
            return world.add(world.place("group"), robot, f"<@{me['id']}> {text}", mentions=[me])[
                "id"
            ]
        case _:
            world = rig.server.world
            name = "@ohmo_test_bot"
            fields: dict[str, Any] = {
                "text": f"{name} {text}",
                "entities": [{"type": "mention", "offset": 0, "length": len(name)}],
            }
            message = world.add(world.chat("group"), bot, fields)
            world.enqueue("message", message)
            return str(message["message_id"])


@pytest.mark.parametrize("on", ["slack", "discord", "telegram"])
@pytest.mark.fault(69)
async def test_a_bot_that_goes_on_talking_gets_ten_answers_and_one_word_and_a_person_goes_on(
    stage: Stage, on: str
) -> None:
    """Feishu tells no bot what another bot says, and on Matrix bots speak in notices, which nobody
    answers."""
    async with stage(on, **{on: {"bots": "answer"}}) as scene:
        await scene.daemon.start()

        def answers(seen: list[Visible]) -> int:
            return sum(one.by_bot and one.text.startswith("no marker") for one in seen)

        thread: str | None = None  # in Slack a call in a channel begins one
        for number in range(1, 14):
            message = a_bot_says(scene, on, f"and {number}?", thread)
            thread = thread or message

            async def settled(number: int = number) -> bool:
                seen = list(await scene.rigs[on].visible("group"))
                return answers(seen) == min(number, 10) and await scene.daemon.idle()

            await until(f"what became of the bot's {number}. message", settled)

        async def paused() -> (
            bool
        ):  # its eleventh message changes no number of answers: it may still be on its way
            return (
                any(
                    "I have answered this bot" in message.text
                    for message in await scene.rigs[on].visible("group")
                )
                and await scene.daemon.idle()
            )

        await until("that it pauses is said", paused)
        seen = [one for one in await scene.rigs[on].visible("group") if one.by_bot]
        assert sum("I have answered this bot 10 times in a row" in one.text for one in seen) == 1
        assert len(seen) == 11
        await scene.says(
            "I am a person", on=on, chat="group", topic=thread if on == "slack" else None
        )
        await scene.check(also=is_notice)
