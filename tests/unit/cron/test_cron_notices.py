"""What the owner has to hear of jobs is told, also when the store does not take it at first."""

from __future__ import annotations

import asyncio

from ohmo.cron.scheduler import AGAIN
from ohmo_testing.house import eventually
from tests.unit.cron.scheduler_rig import Rig

DAILY = {"name": "brief", "schedule": "0 10 * * *", "tz": "UTC", "prompt": "what is new?"}


async def test_missed_runs_are_recorded_only_when_the_owner_was_told() -> None:
    scene = Rig(refused=2)
    await scene.desk.create(DAILY)
    scene.clock.tick(3 * 86_400)
    async with scene.scheduler():
        await eventually(lambda: len(scene.told) == 2, within=20 + 2 * AGAIN)

        async def recorded() -> bool:
            return [one.state for one in await scene.desk.history("brief")] == ["missed"] * 3

        await eventually(recorded)
    assert scene.recorded_before == [0, 0, 0]
    assert "- brief: 3 (the last was due" in scene.told[1]


async def test_a_failure_that_could_not_be_told_is_told_later() -> None:
    scene = Rig(refused=2)
    async with scene.scheduler():
        await scene.desk.create(DAILY)
        await asyncio.sleep(0)
        scene.clock.tick(3_600)
        await scene.fails()
        await eventually(lambda: len(scene.told) == 2, within=20 + 2 * AGAIN)
    assert "The job brief failed" in scene.told[1]
    assert "no credit" in scene.told[1]


async def test_runs_that_end_before_anybody_looks_are_told_too() -> None:
    scene = Rig()
    async with scene.scheduler():
        await scene.desk.create(DAILY)
        await scene.looked()
        scene.at_once = ["no credit", ""]
        scene.clock.tick(3_600)
        await eventually(lambda: len(scene.told) == 2)
        scene.clock.tick(86_400)
        await eventually(lambda: len(scene.told) == 4)
    assert "The job brief failed" in scene.told[1]
    assert "The job brief is well again" in scene.told[3]


async def test_a_failure_is_told_whatever_its_reason_begins_with() -> None:
    scene = Rig()
    async with scene.scheduler():
        await scene.desk.create(DAILY)
        await scene.looked()
        scene.at_once = ["stopped by the provider"]
        scene.clock.tick(3_600)
        await eventually(lambda: len(scene.told) == 2)
    assert "The job brief failed" in scene.told[1]
    assert "stopped by the provider" in scene.told[1]
