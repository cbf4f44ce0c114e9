"""Rows 21, 26 and 44: a wall clock set by a year, and hours that take no time without a platform or
with a refused token; all is answered in order, every call at the door counted."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from ohmo.gateway.connections import DEAF
from tests.faults.clock import WallClock
from tests.faults.conftest import RIGS, Stage
from tests.faults.daemon import until
from tests.faults.houses import house
from tests.faults.scene import Scene
from tests.faults.test_faults_approvals import is_card, press, runs
from tests.platforms.weather import Weather

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
        dues = [occurrence["due"] for occurrence in found["occurrences"]]
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


HOUR = 3600.0
ON = [
    pytest.param(on, marks=[pytest.mark.needs("synapse")] if on == "matrix" else []) for on in RIGS
]


@pytest.mark.fault(21)
@pytest.mark.parametrize("on", ON)
async def test_an_hour_without_the_platform_sees_at_most_a_hundred_calls_and_ends_within_a_minute(
    tmp_path: Path, on: str
) -> None:
    async with house(on, tmp_path / "state") as made:
        weather = made.door.weather = Weather(random.Random(1), 1.0, ("reset",))
        async with made.running() as board:
            await made.time.run_to(HOUR)
            assert 50 <= made.lives <= 100
            assert made.lives <= weather.calls <= 100
            assert board.report()[on].state == "reconnecting"
            made.door.weather = None
            await made.back(board, 61.0)


@pytest.mark.fault(26)
@pytest.mark.parametrize("on", ON)
async def test_an_hour_with_a_refused_token_sees_at_most_thirteen_tries_and_ends_within_five_minutes(
    tmp_path: Path, on: str
) -> None:
    async with house(on, tmp_path / "state") as made:
        made.rig.revoke()
        async with made.running() as board:
            await made.time.run_to(HOUR)
            assert 12 <= made.lives <= 13
            assert made.calls <= 2 * 13, "a try asks once or twice"
            assert board.report()[on].state == "auth_failed"
            made.rig.revoke(False)
            await made.back(board, 301.0)


@pytest.mark.fault(20, on="slack")
async def test_slack_is_not_called_connected_while_its_handshakes_are_refused(
    tmp_path: Path,
) -> None:
    async with house("slack", tmp_path / "state") as made:
        made.rig.server.refuse_sockets = True
        async with made.running() as board:

            async def refused() -> bool:
                status = board.report()["slack"]
                assert status.state in ("starting", "reconnecting"), status
                return made.rig.server.refused_handshakes > 0 and status.detail == DEAF

            await until("a handshake was refused while what we say is taken", refused)
            made.rig.server.refuse_sockets = False

            async def fallen() -> bool:
                return board.report()["slack"].detail != DEAF

            await until("that connection is given up", fallen)
            await made.back(board, 61.0)
