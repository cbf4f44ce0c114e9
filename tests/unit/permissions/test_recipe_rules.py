"""What a recipe tells the model to run is what its rules let it run: nobody is there at nine to be
asked."""

from __future__ import annotations

import re

import pytest
from permission_house import House

from ohmo.cron.recipes import BUNDLED, read_recipe
from ohmo.cron.spec import spec_of
from ohmo_testing.house import BIRTH

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
