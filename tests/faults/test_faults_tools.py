"""Rows 5 to 7: kill -9 around a command that must not run twice; the model hears what happened, and
the transcript stays valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.conftest import Stage
from tests.faults.scene import Scene

FREELY = {"permissions": {"mode": "full_auto"}, "access": {"roles": {"owner": ["telegram:1001"]}}}


async def counted(scene: Scene, failpoint: str, work: Path) -> tuple[str, int]:
    """A command that leaves one line per run, a death at the failpoint, a new life: what the model
    was told, and the number of runs."""
    counter = work / "counter"
    await scene.daemon.start(failpoint)
    marker = await scene.says(f"#run{{echo x >> {counter}}}")
    await scene.daemon.died()
    assert await scene.daemon.left_behind() == []
    await scene.daemon.start()
    await scene.check()
    told = scene.told(marker)
    assert len(told) == 1, told
    return told[0], len(counter.read_text().splitlines()) if counter.exists() else 0


@pytest.mark.fault(5, on="telegram")
async def test_a_command_that_had_not_started_is_reported_as_not_executed(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", **FREELY) as scene:
        told, runs = await counted(scene, "tool.before=kill", work)
        assert "not executed" in told
        assert runs == 0


@pytest.mark.fault(6, on="telegram")
async def test_a_command_that_had_started_is_never_run_again(stage: Stage, work: Path) -> None:
    async with stage("telegram", **FREELY) as scene:
        told, runs = await counted(scene, "tool.running=kill", work)
        assert "effect is unknown" in told
        assert runs <= 1


@pytest.mark.fault(7, on="telegram")
async def test_a_command_whose_result_was_not_stored_ran_once(stage: Stage, work: Path) -> None:
    async with stage("telegram", **FREELY) as scene:
        told, runs = await counted(scene, "tool.after=kill", work)
        assert "effect is unknown" in told
        assert runs == 1


@pytest.mark.fault(6, on="telegram")
async def test_a_command_that_is_running_dies_with_the_daemon(stage: Stage, work: Path) -> None:
    async with stage("telegram", **FREELY) as scene:
        await scene.daemon.start()
        begun = work / "begun"
        marker = await scene.says(f"#run{{echo x >> {begun}; (sleep 300 & sleep 300)}}")
        await scene.appears(begun)
        await scene.daemon.kill()
        assert await scene.daemon.left_behind() == []
        await scene.daemon.start()
        await scene.check()
        assert "effect is unknown" in scene.told(marker)[0]
        assert begun.read_text() == "x\n"


async def test_a_reading_command_runs_again_after_a_kill(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start("tool.running=kill")
        marker = await scene.says("#run{echo still here}")
        await scene.daemon.died()
        await scene.daemon.start()
        await scene.check()
        assert "still here" in scene.told(marker)[0]
