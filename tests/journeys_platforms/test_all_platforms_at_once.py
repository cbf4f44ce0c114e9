"""75 messages in 15 threads over five platforms while connections break, platforms ask to wait and everything is delivered twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage

Thread = tuple[str, str, str | None]  # platform, chat, topic


async def threads(scene: Scene) -> Sequence[Thread]:
    """Three of each platform; group threads begin with a mention."""
    matrix = scene.rigs["matrix"]
    await matrix.room("group")
    await matrix.creates("dm:second", "ada")
    begun = [await scene.says(on="slack", chat="group") for _ in range(2)]
    root = await matrix.says("a root to talk under", chat="group", mention=False)
    return [
        ("telegram", "dm:ada", None),
        ("telegram", "dm:bob", None),
        ("telegram", "group", "77"),
        ("slack", "dm:ada", None),
        *(("slack", "group", scene.messages[marker]) for marker in begun),
        ("discord", "dm:ada", None),
        ("discord", "group", None),
        ("discord", "group", await scene.rigs["discord"].new_topic("group")),
        ("matrix", "dm:ada", None),
        ("matrix", "dm:second", None),
        ("matrix", "group", root),
        *(("web", f"dm:page{number}", None) for number in range(3)),
    ]


async def talk(scene: Scene, places: Sequence[Thread], rounds: range) -> None:
    for number in rounds:
        for on, chat, topic in places:
            await scene.says(f"#chunks{{{1 + number % 4}}} #pace{{0.02}}", on=on, chat=chat, topic=topic)


async def test_75_messages_in_15_threads_over_five_platforms_are_each_answered_once_in_order(stage: Stage) -> None:
    async with stage() as scene:
        rigs = scene.rigs
        await scene.daemon.start()
        places = await threads(scene)
        await talk(scene, places, range(2))
        await asyncio.gather(*(rigs[on].cut() for on in ("telegram", "slack", "discord", "matrix")))
        await talk(scene, places, range(2, 3))
        for on in ("telegram", "slack", "discord", "matrix"):
            rigs[on].limit_next(1.0)
        await talk(scene, places, range(3, 5))
        assert len(scene.words) >= 75
        await scene.answered()
        await scene.check(again=True)


async def test_a_message_edited_while_it_waits_is_answered_once_as_it_says_now(stage: Stage) -> None:
    async with stage("telegram", "slack", "discord", "matrix") as scene:
        await scene.daemon.start()
        answered = {on: await scene.says("nothing to add", on=on) for on in scene.rigs}
        await scene.answered()
        for on in scene.rigs:
            await scene.says("#wait{10} keeps the thread busy", on=on)
        await scene.models_asked(8)
        for on in scene.rigs:
            waiting = await scene.says("we meet on tuesday", on=on)
            await scene.rigs[on].edits(scene.messages[waiting], f"{waiting} we meet on wednesday")
            await scene.rigs[on].edits(scene.messages[answered[on]], "an answered message is not answered again")
        await scene.check()
        asked = [one.said for one in scene.model.asked]
        assert sum("wednesday" in said for said in asked) == 4
        assert not any("tuesday" in said for said in asked)
