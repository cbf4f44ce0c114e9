"""Rows 12, 32, 36, 50 and 68: a start that dies, a message that kills, a tool that lasts, a second
instance, commands in the middle of everything."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ohmo.database.migrations import MIGRATIONS
from tests.conformance.rig import Visible
from tests.faults.conftest import Stage
from tests.faults.directed_model import MARKER
from tests.faults.ledger import Word
from tests.faults.scene import Scene

FREELY = {"permissions": {"mode": "full_auto"}, "access": {"roles": {"owner": ["telegram:1001"]}}}
# unshare(1): a pid namespace, as a container has one
ALONE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def is_notice(message: Visible) -> bool:
    """Words of the house itself: no marker, or a dead letter."""
    return not MARKER.search(message.text)


LAST = sum(len(statements) + 1 for statements in MIGRATIONS.values())


@pytest.mark.cold_start
@pytest.mark.parametrize("step", [1, 20, LAST])
async def test_a_first_start_that_dies_while_it_makes_the_store_is_made_good_by_the_next(
    stage: Stage, step: int
) -> None:
    async with stage("telegram") as scene:
        await scene.says()
        await scene.daemon.start(f"migrate.step=kill@{step}", ready=False)
        await scene.daemon.died()
        assert not (scene.daemon.home / "ohmo.db").exists(), (
            "a store that is half made stands under its name"
        )
        await scene.daemon.start()
        await scene.check()


@pytest.mark.fault(32, on="telegram")
async def test_a_message_that_ends_the_process_each_time_becomes_a_dead_letter_and_others_go_on(
    stage: Stage,
) -> None:
    async with stage("telegram", "web") as scene:  # the owner is told in the browser
        await scene.says("#chunks{8}", answered=False)
        for _ in range(8):  # the last three only after the house lived without it for a while
            await scene.daemon.start("model.chunk=kill@3", ready=False)
            await scene.daemon.died()
        await scene.says()
        await scene.says(chat="dm:bob")
        await scene.daemon.start()
        await scene.check(also=is_notice)
        notices = [
            message.text
            for message in await scene.rigs["telegram"].visible()
            if message.by_bot and is_notice(message)
        ]
        assert len(notices) == 1, notices
        assert "ended the process 8 times" in notices[0]


@pytest.mark.fault(32, on="telegram")
async def test_a_message_whose_turn_raises_three_times_becomes_a_dead_letter_and_others_go_on(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", **FREELY) as scene:
        await scene.daemon.start("tool.running=raise;model.chunk=raise;outbox.before=raise")
        poison = await scene.says(f"#run{{echo x >> {work / 'counter'}}}", answered=False)
        began = time.monotonic()
        await scene.models_asked(1)
        await scene.says()
        await scene.answered()
        assert time.monotonic() - began < 45, "the thread waited too long behind its poison"
        await scene.check(also=is_notice)
        notices = [
            message.text
            for message in await scene.rigs["telegram"].visible()
            if message.by_bot and is_notice(message)
        ]
        assert len(notices) == 1, notices
        assert "failed 3 times" in notices[0]
        assert "effect is unknown" in scene.told(poison)[0]
        assert not (work / "counter").exists()


@pytest.mark.fault(36, on="telegram")
async def test_a_thread_that_waits_for_a_tool_holds_up_nobody_else_and_loses_no_later_message(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", **FREELY) as scene:
        await scene.daemon.start()
        begun, gate = work / "begun", work / "gate"
        slow = await scene.says(
            f"#run{{touch {begun}; while [ ! -e {gate} ]; do sleep 0.05; done}}"
        )
        await scene.appears(begun)
        later = await scene.says()
        for other in [await scene.says(chat="dm:bob"), *await scene.bursts(5)]:
            await scene.answered(other)
        assert not await scene.answers(slow)
        assert not await scene.answers(later)
        gate.touch()
        await scene.check()


@pytest.mark.cold_start
async def test_a_second_instance_ends_with_75_and_names_the_first(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        second = scene.daemon.twin()
        await second.start(ready=False)
        assert await second.ended() == 75
        assert f"pid {scene.daemon.pid}" in second.said
        await scene.says()
        await scene.answered()
        await scene.quiet()  # what was shown is settled: a kill before that may repeat it, marked
        await scene.daemon.kill()
        await scene.daemon.start()  # the lock of the dead is no obstacle
        await scene.says()
        await scene.check()


# Row 68: each leaves the thread in the middle of something.


async def in_the_model_stall(scene: Scene, work: Path) -> None:
    await scene.says("#hold{0}", answered=False)
    await scene.models_asked(1)


async def in_the_stream(scene: Scene, work: Path) -> None:
    await scene.says("#chunks{20} #hold{8}", answered=False)
    await scene.models_asked(1)


async def in_an_approval(scene: Scene, work: Path) -> None:
    await scene.says(f"#run{{echo x >> {work / 'counter'}}}", answered=False)
    await scene.asked("telegram")


async def in_a_tool(scene: Scene, work: Path) -> None:
    await scene.says(f"#run{{touch {work / 'begun'}; sleep 300}}", answered=False)
    await scene.press_first("telegram")
    await scene.appears(work / "begun")


MOMENTS = (in_the_model_stall, in_the_stream, in_an_approval, in_a_tool)


def is_reply(message: Visible) -> bool:
    """The command's reply, a card, or the closing of either."""
    return not MARKER.search(message.text) or "stopped" in message.text


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(f"/{act}", marks=pytest.mark.person(act, on="telegram"))
        for act in ("stop", "new")
    ],
)
@pytest.mark.fault(68, on="telegram")
async def test_a_command_takes_effect_at_once_whatever_runs(
    stage: Stage, work: Path, moment: object, command: str
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        await moment(scene, work)  # pyright: ignore[reportCallIssue]
        waiting = await scene.says(answered=False)
        await scene.rigs["telegram"].says(command)
        await scene.stopped()
        await scene.says()
        await scene.check(also=is_reply)
        assert not [text for text in scene.told(waiting) if text]
        assert not (work / "counter").exists()


@pytest.mark.parametrize("moment", [in_the_stream, in_an_approval])
@pytest.mark.parametrize("failpoint", ["inbound.stored=kill@2", "inbound.received=kill@2"])
@pytest.mark.fault(68, on="telegram")
async def test_a_stop_that_met_a_kill_is_carried_out_by_the_next_life(
    stage: Stage, work: Path, moment: object, failpoint: str
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start(failpoint)
        await moment(scene, work)  # pyright: ignore[reportCallIssue]
        await scene.rigs["telegram"].says("/stop")
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.stopped()
        await scene.says()
        await scene.check(also=is_reply)
        assert not (work / "counter").exists()


@pytest.mark.parametrize("failpoint", ["inbound.stored=kill@2", "inbound.received=kill@2"])
@pytest.mark.person("more", "restart", on="telegram")
async def test_words_that_should_have_steered_a_turn_that_was_killed_are_answered_once(
    stage: Stage, failpoint: str
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start(failpoint)
        await scene.says("#hold{0}")
        await scene.models_asked(1)
        marker = "m-2-cafe5ee2"
        scene.words.append(Word(marker, ("telegram", "dm:ada", None)))
        scene.messages[marker] = await scene.rigs["telegram"].says(f"/steer {marker}")
        await scene.daemon.died()
        scene.model.go.set()
        await scene.daemon.start()
        await scene.check(again=True)


@pytest.mark.needs("namespaces")
async def test_lives_that_share_one_pid_do_not_wait_for_each_other(stage: Stage) -> None:
    """In a container every life is pid 1 on the same host name: the dead one's leases must not look
    like one's own."""
    async with stage("telegram", command=(*ALONE, sys.executable, "-m", "ohmo", "run")) as scene:
        await scene.says("#wait{60}")
        await scene.daemon.start()
        await scene.models_asked(1)
        await scene.daemon.kill()
        scene.model.patient = False  # pyright: ignore[reportAttributeAccessIssue]
        dead = scene.daemon.holders()
        assert dead
        await scene.daemon.start()
        assert not dead & scene.daemon.holders()
        await scene.check()
