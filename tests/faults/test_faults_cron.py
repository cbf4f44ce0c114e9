"""Rows 15 and 16: a job's run is claimed once and ends once, however the daemon dies in between."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import ClientError

from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene


def job(prompt: str, every: str = "1h") -> dict[str, Any]:
    return {
        "cron": {
            "timezone": "UTC",
            "jobs": [{"name": "j", "every": every, "prompt": prompt, "rules": ["Bash(echo:*)"]}],
        }
    }


async def history(scene: Scene) -> list[dict[str, Any]]:
    status, found = await scene.daemon.call("GET", "/api/v1/cron/j/history")
    assert status == 200, found
    return found["occurrences"]


async def started(scene: Scene) -> None:
    async def there() -> bool:
        return bool((await scene.daemon.call("GET", "/api/v1/cron"))[1]["jobs"])

    await until("the job is there", there)


async def died_running(scene: Scene, failpoint: str) -> None:
    await scene.daemon.start(failpoint)
    await started(scene)
    with suppress(ClientError, OSError):  # it may die before it answers
        await scene.daemon.call("POST", "/api/v1/cron/j/run", {})
    await scene.daemon.died()
    await scene.daemon.start()

    async def over() -> bool:
        return [one["state"] for one in await history(scene)] == ["done"]

    await until("the run is done", over)


async def test_a_kill_between_claim_and_run_runs_it_once(stage: Stage) -> None:
    async with stage("telegram", **job("m-1-cafe0001 report", every="3s")) as scene:
        await scene.daemon.start("cron.claimed=kill", ready=False)
        await scene.daemon.died()
        await scene.daemon.start()

        async def over() -> bool:
            return any(one["state"] == "done" for one in (await history(scene))[-1:])

        await until("the run that was claimed is done", over)
        first = (await history(scene))[-1]
        assert first["attempts"] == 1


async def test_a_kill_after_the_run_and_before_its_mark_runs_nothing_twice(
    stage: Stage, work: Path
) -> None:
    counter = work / "counter"
    async with stage(
        "telegram",
        **job(f"m-1-cafe0002 #run{{echo x >> {counter}}}"),
        permissions={"mode": "full_auto"},
    ) as scene:
        await died_running(scene, "cron.ran=kill")
        assert counter.read_text() == "x\n"
        assert len(await history(scene)) == 1
