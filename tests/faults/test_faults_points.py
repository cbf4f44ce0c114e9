"""What the long campaign does at every failpoint (figure G3, ``make torture``), here where no other
test asks: questions on two platforms."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.conftest import Stage
from tests.faults.points import ASKING, CONFIG, SAYING, at_points

SYNAPSE = pytest.param(
    "matrix", marks=(pytest.mark.needs("synapse"), pytest.mark.xdist_group("synapse"))
)


@pytest.mark.parametrize("on", ["feishu", SYNAPSE])
async def test_kills_at_random_points_and_around_a_question_are_survived(
    stage: Stage, work: Path, on: str
) -> None:
    seed = int(os.environ.get("OHMO_FAULTS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"seed {seed}: OHMO_FAULTS_SEED={seed} repeats this")
    chance = random.Random(f"{on}:{seed}")
    async with stage(on, **CONFIG) as scene:
        await at_points(scene, on, [*ASKING, *chance.sample(SAYING, 2)], work, chance)
