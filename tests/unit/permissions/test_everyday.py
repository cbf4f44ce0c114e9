"""Of a developer's everyday commands those that read run unasked, nearly all of them, and none that
writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack_forms import everyday

from tests.unit.permissions.attack_scenes import Scene
from tests.unit.permissions.everyday_project import project

READING, WRITING = everyday()
LEAST = 0.9  # of the reading ones


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return project(tmp_path)


def test_the_list_is_a_day_long_and_mostly_reading() -> None:
    assert len({*READING, *WRITING}) == len(READING) + len(WRITING) >= 300
    assert 0.5 <= len(READING) / (len(READING) + len(WRITING)) <= 0.7


def test_nearly_everything_that_reads_runs_unasked(scene: Scene) -> None:
    house = scene.house
    rulings = {command: house.bash(command, "default", "user") for command in READING}
    asked = [
        f"{command}: {ruling.verdict}, {ruling.reason}"
        for command, ruling in rulings.items()
        if ruling.verdict != "allow"
    ]
    print(
        f"{len(READING) - len(asked)} of {len(READING)} reading commands run unasked; these ask:",
        *asked,
        sep="\n",
    )
    assert len(asked) <= (1 - LEAST) * len(READING)


@pytest.mark.parametrize("mode", ["default", "plan"])
def test_nothing_that_writes_runs_unasked(scene: Scene, mode: str) -> None:
    house = scene.house
    assert [
        command
        for command in WRITING
        if house.bash(command, "plan" if mode == "plan" else "default").verdict == "allow"
    ] == []
