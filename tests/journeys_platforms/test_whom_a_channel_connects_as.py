"""``ohmo channels test`` against each platform: it says as whom it connects by the name people
write, not by a number alone."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tests.faults.daemon import ROOT
from tests.journeys_platforms.conftest import Stage

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
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ohmo",
            "channels",
            "test",
            on,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(scene.daemon.home.parent),
                "OHMO_HOME": str(scene.daemon.home),
            },
        )
        out, err = await asyncio.wait_for(process.communicate(), 90)
        assert (process.returncode, err) == (0, b"")
        assert out.decode().startswith(f"{on}: connected as {NAMES[on]}")
