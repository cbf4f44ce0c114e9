"""Row 44: the wall clock of the real daemon is set by a year, to 1970 and back; nothing is over
early or runs twice, all is answered in order."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.faults.clock import WallClock
from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.faults.test_faults_approvals import is_card, press, runs

YEAR = 365 * 86_400.0


async def noticed(scene: Scene, times: int) -> None:
    async def logged() -> bool:
        try:  # another day: another file
            older = "".join(
                gzip.decompress(path.read_bytes()).decode()
                for path in (scene.daemon.home / "logs").glob("*.gz")
            )
        except (FileNotFoundError, EOFError):
            return False  # it is turned over just now, or packed
        return (older + scene.daemon.log).count('"clock_was_set"') >= times

    await until(f"the clock is noticed for the {times}. time", logged)


@pytest.mark.needs("cc")
async def test_a_clock_that_is_set_ends_no_question_and_loses_no_word(
    stage: Stage, work: Path, tmp_path: Path
) -> None:
    clock = WallClock(tmp_path)
    jobs = {
        "timezone": "UTC",
        "jobs": [{"name": "j", "schedule": "0 * * * *", "prompt": "m-1-cafe0044 report"}],
    }
    async with stage(
        "telegram", permissions={"approval_timeout": "90s"}, cron=jobs, owner=["telegram:1001"]
    ) as scene:
        scene.daemon.environ.update(clock.environ)
        await scene.daemon.start()
        await scene.says(f"#run{{echo x >> {work / 'counter'}}}")
        await scene.asked("telegram")
        for number, to in enumerate((YEAR, None, 0.0), 1):
            clock.in_1970() if to is None else clock.sets(to)
            await scene.says(chat="dm:bob")
            await noticed(scene, number)
            await scene.says(chat="dm:bob")
        await press(scene, "telegram")
        await scene.answered()
        _, found = await scene.daemon.call("GET", "/api/v1/cron/j/history")
        dues = [one["due"] for one in found["occurrences"]]
        assert len(set(dues)) == len(dues)
        # who believes a clock that is a year ahead must think that what is said now was said long
        # ago, and that Telegram lost a year
        told = (
            "Scheduled runs were missed",
            "I was away",
            "Telegram keeps messages for 24 hours only",
        )
        await scene.check(also=lambda one: is_card(one) or any(text in one.text for text in told))
        assert runs(work) == 1
        assert scene.daemon.lives == 1


@pytest.mark.needs("cc")
@pytest.mark.parametrize("to", [YEAR, None], ids=["a year ahead", "1970"])
async def test_a_clock_that_is_set_while_the_daemon_is_dead_leaves_no_killed_turn_behind(
    stage: Stage, tmp_path: Path, to: float | None
) -> None:
    clock = WallClock(tmp_path)
    async with stage("telegram") as scene:
        scene.daemon.environ.update(clock.environ)
        await scene.daemon.start()
        await scene.says("#hold{0}")
        await scene.models_asked(1)
        await scene.says()  # waits behind it
        await scene.daemon.kill()
        scene.model.go.set()
        clock.in_1970() if to is None else clock.sets(to)
        await scene.says(chat="dm:bob")
        await scene.daemon.start()
        await noticed(scene, 1)
        await scene.answered()
        await scene.check(
            also=lambda one: any(
                text in one.text
                for text in ("I was away", "Telegram keeps messages for 24 hours only")
            )
        )
        assert scene.daemon.lives == 2
