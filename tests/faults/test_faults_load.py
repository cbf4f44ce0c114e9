"""Rows 17 and 18: many turns at once, a graceful stop among them, kills at random; 50 messages in
flight as in the figures of the promise."""

from __future__ import annotations

import asyncio
import os
import random
import time

import pytest

from tests.faults.conftest import Stage
from tests.faults.nemesis import campaign

IN_FLIGHT = {
    "before the model call": "turn.claim=kill@25",
    "during the model call": "model.chunk=kill@60",
    "after the model call": "outbox.before=kill@10",
    "between accept and receipt": "send.accepted=kill@20",
}


@pytest.mark.parametrize("failpoint", IN_FLIGHT.values(), ids=IN_FLIGHT.keys())
@pytest.mark.fault("failpoint", on="telegram")
async def test_50_messages_in_flight_outlive_a_kill(stage: Stage, failpoint: str) -> None:
    async with stage("telegram") as scene:
        await scene.bursts(50, "#pace{0.02}")
        await scene.daemon.start(failpoint, ready=False)
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.check(repeats=4)


@pytest.mark.fault(10, on="slack")
async def test_50_messages_in_flight_on_slack_are_never_answered_twice(stage: Stage) -> None:
    async with stage("slack") as scene:
        await scene.daemon.start("send.accepted=kill@20")
        await scene.bursts(50, "#pace{0.02}", on="slack")
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.check()


async def test_sigterm_with_20_running_turns_ends_in_time_and_loses_nothing(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        await scene.bursts(10, "#chunks{4} #pace{0.1}")  # these end while it drains
        await scene.bursts(10, "#wait{30}")  # these do not
        await scene.models_asked(20)
        began = time.monotonic()
        assert await scene.daemon.stop() == 0
        assert time.monotonic() - began < 25
        assert await scene.daemon.left_behind() == []
        scene.model.patient = False  # pyright: ignore[reportAttributeAccessIssue] - the next life is not kept waiting
        await scene.daemon.start()
        await scene.check()


async def test_8_random_kills_under_load_lose_and_repeat_nothing(stage: Stage) -> None:
    seed = int(os.environ.get("OHMO_FAULTS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: OHMO_FAULTS_SEED={seed} repeats this campaign")
    async with stage("telegram", "slack", "web") as scene:
        async with asyncio.timeout(240):
            await campaign(scene, random.Random(seed), kills=8, messages=120)
