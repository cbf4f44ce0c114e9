"""Rows 21 and 26: an hour without a platform, and an hour with a refused token; real SDKs, an hour
that takes no time, every call at the platform's door counted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ohmo.gateway.connections import DEAF
from tests.faults.conftest import RIGS
from tests.faults.daemon import until
from tests.faults.houses import house
from tests.platforms.weather import Weather

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
