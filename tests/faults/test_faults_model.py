"""Rows 39 and 65: no model answers for a while, and an event loop that hangs; with the real
daemon."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.rig import Visible
from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene
from tests.platforms.model.script import Asked, Script, Turn

KEPT, OLD = "Your message is kept", "Shall I still answer it?"
# what the directed model says when the last words are the house's: that the message is still wanted
ANSWER = "no marker"


def is_the_house(message: Visible) -> bool:
    """Notices and cards."""
    return not MARKER.search(message.text) or OLD in message.text


def away(asked: Asked) -> Turn:
    del asked
    return Turn(status=529, kind="overloaded_error", message="Overloaded")


def comes_back(scene: Scene, default: Script) -> None:
    scene.model.default = default
    scene.model.refused.clear()  # pyright: ignore[reportAttributeAccessIssue]  # that it was overloaded is no fault of the requests


async def shown(scene: Scene, chat: str, text: str, times: int = 1) -> list[Visible]:
    """The bot's messages that hold ``text``, once there are so many."""
    found: list[Visible] = []

    async def there() -> bool:
        found[:] = [
            message
            for message in await scene.rigs["telegram"].visible(chat)
            if message.by_bot and text in message.text
        ]
        return len(found) >= times

    await until(f"{chat} reads {text!r} {times} times", there)
    return found


async def test_while_no_model_answers_each_thread_reads_one_notice_and_later_all_answers_in_order(
    stage: Stage,
) -> None:
    chats = ("dm:ada", "dm:bob", "dm:7001")
    async with stage("telegram", sessions={"ask_after": "1h"}) as scene:
        there, scene.model.default = scene.model.default, away
        await scene.daemon.start()
        for _ in range(3):
            for chat in chats:
                await scene.says(chat=chat)
        for chat in chats:
            await shown(scene, chat, KEPT)
        await until("it knows that the notices were taken", scene.daemon.sent)
        await scene.daemon.kill()  # a restart says nothing twice
        await scene.daemon.start()
        before = scene.model.count
        await scene.models_asked(before + 3)
        comes_back(scene, there)
        await scene.answered()
        for chat in chats:
            assert len(await shown(scene, chat, KEPT)) == 1
        await scene.check(also=is_the_house)


async def test_what_has_waited_too_long_for_a_model_is_asked_about_before_it_is_answered(
    stage: Stage,
) -> None:
    async with stage("telegram", sessions={"ask_after": "3s"}) as scene:
        there, scene.model.default = scene.model.default, away
        await scene.daemon.start()
        said = [await scene.says(answered=False), await scene.says(answered=False)]
        await shown(scene, "dm:ada", KEPT)
        asked = scene.model.count
        comes_back(scene, there)
        # the first as soon as it is tried again, the second after it
        for number, marker in enumerate(said):
            card = (await shown(scene, "dm:ada", OLD, number + 1))[number]
            assert marker in card.text
            assert "say /approve or /deny." in card.text  # there is nothing to remember
            await scene.rigs["telegram"].presses(card.id, card.choices[0])
            await shown(scene, "dm:ada", ANSWER, number + 1)
        assert scene.model.count == asked + 2
        await scene.check(also=lambda one: is_the_house(one) or one.text == ANSWER)


async def test_a_loop_that_hangs_is_ended_by_its_watchdog_with_the_cause_in_the_log_and_loses_nothing(
    stage: Stage, home: Path
) -> None:
    supervisor = [
        sys.executable,
        "-P",
        "-m",
        "ohmo.service.supervisor",
        sys.executable,
        "-m",
        "ohmo",
        "run",
    ]
    asked = home / ".env"
    asked.touch(mode=0o600)
    asked.write_text("OHMO_FAILPOINTS=model.chunk=delay:300s@2\n")
    async with stage("telegram", command=supervisor) as scene:
        scene.daemon.environ.update(OHMO_SERVICE="background", OHMO_WATCHDOG="5")
        (home / "logs").mkdir(exist_ok=True)
        (home / "run").mkdir(mode=0o700, exist_ok=True)
        await scene.daemon.start()
        asked.write_text("")  # the next life does not hang
        await scene.says("#chunks{5}")
        await scene.says(chat="dm:bob")
        await scene.answered()
        said = scene.daemon.said
        assert "no sign of life" in said
        assert "Fatal Python error: Aborted" in said
        assert "ambient.py" in said, "the stack names what held the loop up"
        await scene.check()
