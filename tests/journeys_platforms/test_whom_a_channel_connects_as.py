"""``ohmo channels test`` against each platform: it says as whom it connects by the name people
write, not by a number alone."""

from __future__ import annotations

import asyncio

import pytest

from tests.journeys_platforms.conftest import Stage
from tests.programs import ohmo

NAMES = {
    "telegram": "@ohmo_test_bot (7000001)",
    "discord": "@ohmo (1000000000000000001)",
    "slack": "@ohmo (",
    "feishu": "@ohmo (",
    "matrix": "@ohmo",
}


@pytest.mark.parametrize("on", NAMES)
async def test_a_channel_says_its_name(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        done = await asyncio.to_thread(ohmo, scene.daemon.home, "channels", "test", on, code=0)
        assert done.stderr == ""
        assert done.stdout.startswith(f"{on}: connected as {NAMES[on]}")
