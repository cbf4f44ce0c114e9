"""No form of the attack list runs unasked: not in default mode and not in plan mode, for the owner
or a user."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack_forms import Kind, kinds

from tests.unit.permissions.attack_scenes import SCENES
from tests.unit.permissions.permission_house import Mode, Role

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
