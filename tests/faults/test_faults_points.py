"""Figure G3, one seed for each platform: kill -9 at every named failpoint of a message's way; 20 seeds are ``make torture``."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.conftest import Stage
from tests.faults.points import CONFIG, at_every_point


@pytest.mark.parametrize(
    "on",
    [
        "telegram",
        "slack",
        "discord",
        "feishu",
        "web",
        pytest.param("matrix", marks=(pytest.mark.needs("synapse"), pytest.mark.xdist_group("synapse"))),
    ],
)
async def test_a_platform_survives_a_kill_at_every_point_of_a_messages_way(stage: Stage, work: Path, on: str) -> None:
    seed = int(os.environ.get("OHMO_FAULTS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: OHMO_FAULTS_SEED={seed} repeats this")
    async with stage(on, **CONFIG) as scene:
        await at_every_point(scene, on, work, random.Random(f"{on}:{seed}"))
