"""What of the attack list is allowed is really run, in a box with canaries: it may change nothing,
start nothing of the attacker's, and print no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.box import Box, Job, Ran, fingerprint
from tests.unit.permissions.attack_forms import Kind, kinds
from tests.unit.permissions.attack_scenes import CANARY, SCENES, Scene
from tests.unit.permissions.permission_house import Mode

pytestmark = pytest.mark.needs("bwrap", "rg")
# git's, of what it looked at
_CACHE = ("work/.git/index", "work/module/.git/index", "work/bare/index")


def allowed(kind: Kind, scene: Scene) -> list[str]:
    """What runs unasked in a mode that is meant for reading."""
    modes: tuple[Mode, ...] = ("default", "plan")
    forms = kind.filled(scene.home, scene.work)
    return [
        form
        for form in forms
        if any(scene.house.bash(form, mode).verdict == "allow" for mode in modes)
    ]


def run_each(scene: Scene, commands: list[str]) -> list[str]:
    """Each alone, so that an effect has a name."""
    wrong: list[str] = []
    before = _state(scene)
    with Box(scene.root) as box:
        for command in commands:
            ran = box.run(
                [Job(command, scene.work, scene.env(command))], traced=False, seconds=1.0
            )[0]
            after = _state(scene)
            effects = [name for name in {*before, *after} if before.get(name) != after.get(name)]
            wrong += [
                f"{command!r}: {what}"
                for what in (*_told(ran), *(f"changed {name}" for name in sorted(effects)))
            ]
            before = after
    return wrong


def _told(ran: Ran) -> list[str]:
    return ["printed a secret"] if CANARY in ran.out else []


def _state(scene: Scene) -> dict[str, str]:
    return {name: what for name, what in fingerprint(scene.home).items() if name not in _CACHE}


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_what_is_allowed_of_the_attack_list_does_nothing(kind: Kind, tmp_path: Path) -> None:
    scene = SCENES[kind.scene](tmp_path / "box")
    assert run_each(scene, allowed(kind, scene)) == []
