"""Rows 1, 3, 5, 6 and 7 on every platform: one home whose daemon dies at each of these steps in
turn, with commands on their way that must not run twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.conftest import RIGS, Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene

FREELY = {"permissions": {"mode": "full_auto"}, "access": {"default_role": "admin"}}


def runs(counter: Path) -> int:
    return len(counter.read_text().splitlines()) if counter.exists() else 0


async def looked_back(scene: Scene) -> bool:
    """Feishu's first contact: what was said before it was looked for, and that is saved; or it died
    of it."""
    saved = [
        str(value)
        for (value,) in scene.daemon.rows(
            "SELECT value FROM cursors WHERE channel = 'feishu' AND name <> 'p2p'"
        )
    ]
    return not scene.daemon.alive or (
        bool(saved) and not any('"heard"' in value for value in saved)
    )


async def dies_with(scene: Scene, counter: Path, on: str) -> str:
    """Says something that runs a command, when nothing else is on its way; the daemon does not
    outlive it."""
    if scene.daemon.alive:
        await scene.answered()
        await scene.quiet()
    marker = await scene.says(f"#run{{echo x >> {counter}}}", on=on)
    await scene.daemon.died()
    return marker


@pytest.mark.fault(1, 3, 5, 6, 7)
@pytest.mark.parametrize(
    "on",
    [
        pytest.param(on, marks=[pytest.mark.needs("synapse")] if on == "matrix" else [])
        for on in RIGS
    ],
)
@pytest.mark.person("say", "restart")
async def test_deaths_on_the_way_in_and_around_a_command_lose_nothing_and_run_nothing_twice(
    stage: Stage, work: Path, on: str
) -> None:
    async with stage(on, **FREELY) as scene:
        await scene.daemon.start(f"inbound.received=kill@{3 if on == 'feishu' else 2}")
        # Discord tells nobody of a first message that was said to a dead process
        known = await scene.says("known to each other", on=on)
        await scene.answered_or_died(known)  # who looks back meanwhile may hear it twice
        if on == "feishu" and scene.daemon.alive:  # a position is saved once more
            await until("the first contact was looked back on", lambda: looked_back(scene))
        first = await dies_with(scene, work / "first", on)
        # the same message goes on, and dies again
        for failpoint in ("turn.claim=kill", "tool.before=kill"):
            await scene.daemon.start(failpoint, ready=False)
            await scene.daemon.died()
        await scene.daemon.start("tool.running=kill")
        second = await dies_with(scene, work / "second", on)
        await scene.daemon.start("tool.after=kill")
        third = await dies_with(scene, work / "third", on)
        await scene.daemon.start()
        await scene.check(again=True)
        assert [
            "not executed" in scene.told(first)[0],
            "effect is unknown" in scene.told(second)[0],
            "effect is unknown" in scene.told(third)[0],
        ] == [True] * 3
        assert (runs(work / "first"), runs(work / "third")) == (0, 1)
        assert runs(work / "second") <= 1
