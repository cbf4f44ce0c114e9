"""Of a developer's everyday commands those that read run unasked, nearly all of them, and none that
writes; no form of the attack list does, and what a recipe tells the model its rules allow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attack_forms import Kind, everyday, kinds
from permission_house import House

from ohmo.cron.recipes import BUNDLED, read_recipe
from ohmo.cron.spec import spec_of
from ohmo_testing.house import BIRTH
from tests.unit.permissions.attack_scenes import SCENES, Scene
from tests.unit.permissions.everyday_project import project
from tests.unit.permissions.permission_house import Mode, Role

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


KINDS = kinds()
SEATS: tuple[tuple[Mode, Role], ...] = (
    ("default", "owner"),
    ("default", "user"),
    ("plan", "owner"),
    ("plan", "user"),
)


def test_the_attack_list_is_long_and_names_nothing_twice() -> None:
    strict = [form for kind in KINDS if not kind.by_run for form in kind.forms]
    assert len(strict) >= 300
    assert sorted(form for form in set(strict) if strict.count(form) > 1) == []


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.by_run], ids=lambda kind: kind.name
)
def test_no_attack_runs_unasked(kind: Kind, tmp_path: Path) -> None:
    scene = SCENES[kind.scene](tmp_path)
    house = scene.house
    unasked = [
        (form, mode, role)
        for form in kind.filled(scene.home, scene.work)
        for mode, role in SEATS
        if house.bash(form, mode, role).verdict == "allow"
    ]
    assert sorted({form for form, _, _ in unasked}) == [], (
        f"{len(unasked)} of {len(kind.forms) * len(SEATS)}"
    )


COMMAND = re.compile(r"^(ohmo .*|.* \| ohmo .*)$|: (ohmo sessions show) ID", re.MULTILINE)
GIVEN = {"command": "cat build/report.xml", "url": "https://ci.example.org/api/results?branch=main"}


@pytest.mark.parametrize("name", sorted(path.stem for path in BUNDLED.glob("*.yaml")))
def test_the_commands_of_a_recipe_are_allowed_by_its_own_rules_and_nothing_beside_them_is(
    house: House, name: str
) -> None:
    recipe = read_recipe(name, (BUNDLED,))
    spec = spec_of(
        recipe.job({key: GIVEN[key] for key in recipe.parameters if key in GIVEN}), "UTC", BIRTH
    )
    commands = [next(filter(None, found)) for found in COMMAND.findall(spec.prompt)]
    assert commands, spec.prompt
    for command in commands:
        told = (
            "ohmo sessions show 4xfyr57mq7zbtlnyxw5rr6"
            if command == "ohmo sessions show"
            else command
        )
        assert house.bash(told, allow=spec.rules).verdict == "allow", told
        for more in ("; touch x", " && rm -r y", " > z", " | sh", " $(touch x)"):
            assert house.bash(told + more, allow=spec.rules).verdict != "allow", told + more
