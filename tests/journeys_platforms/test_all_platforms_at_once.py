"""Six platforms at once: people who talk through a storm of faults, and people who change their
minds."""

from __future__ import annotations

import os
import random

import pytest

from tests.faults.storm import storm
from tests.journeys_platforms.conftest import Stage

pytestmark = pytest.mark.cold_start


@pytest.mark.fault(20, 23, 24, 27, on="all")
async def test_100_messages_in_30_threads_are_each_answered_once_in_order_while_one_call_in_ten_breaks(
    stage: Stage,
) -> None:
    """The small storm; ``python -m tests.faults.storm`` is the long one."""
    seed = int(os.environ.get("OHMO_FAULTS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: OHMO_FAULTS_SEED={seed} repeats this storm")
    async with stage() as scene:
        report = await storm(scene, seed, messages=100, threads=25, faults=0.1, pause=0.05)
        assert all(report.took.values()), "every platform's acknowledgements were seen"
        assert sum(weather.met.total() for weather in report.weathers.values()) >= 5


@pytest.mark.person("more", "edit", on=("telegram", "slack", "discord", "matrix"))
async def test_a_message_edited_while_it_waits_is_answered_once_as_it_says_now(
    stage: Stage,
) -> None:
    async with stage("telegram", "slack", "discord", "matrix") as scene:
        await scene.daemon.start()
        answered = {on: await scene.says("nothing to add", on=on) for on in scene.rigs}
        await scene.answered()
        for on in scene.rigs:
            await scene.says("#hold{0} keeps the thread busy", on=on)
        await scene.models_asked(8)
        changed: list[str] = []
        for on in scene.rigs:
            waiting = await scene.says("we meet on tuesday", on=on)
            changed.append(f"{waiting} we meet on wednesday")
            await scene.rigs[on].edits(scene.messages[waiting], changed[-1])
            await scene.rigs[on].edits(
                scene.messages[answered[on]], "an answered message is not answered again"
            )
        await scene.heard(*changed)
        scene.model.go.set()
        await scene.check()
        asked = [request.said for request in scene.model.asked]
        assert sum("wednesday" in said for said in asked) == 4
        assert not any("tuesday" in said for said in asked)
