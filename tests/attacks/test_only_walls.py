"""The shell inputs of ``lists/``, each run as it stands between walls and nothing else: without rules,
modes or questions. Here a quarter of them, with ``OHMO_ATTACKS=all`` every one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from tests.attacks.only_walls import Input, all_tried, inputs
from tests.attacks.rows import LISTS, Row
from tests.parts import skip_without, there
from tests.platforms.model.script import Call

pytestmark = [pytest.mark.timeout(300), pytest.mark.needs("linux")]
CATEGORIES = sorted(path.stem for path in LISTS.glob("*.yaml") if inputs(path.stem))
_STEP = 1 if os.environ.get("OHMO_ATTACKS") == "all" else 4


@pytest.mark.parametrize("category", [name for name in CATEGORIES if name != "benign"])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_no_command_gets_out(
    category: str, backend: Literal["bubblewrap", "landlock"], tmp_path: Path
) -> None:
    part = "bwrap" if backend == "bubblewrap" else "landlock"
    if not there(part):
        skip_without(part)
    chosen = inputs(category)[::_STEP]
    outcomes, reached = await all_tried(tmp_path, backend, chosen)
    ran = sum(one.ran > 0 for one in outcomes)
    print(f"{backend}, {category}: {len(outcomes)} inputs tried, {ran} ended by themselves")
    broken = [f"{one.input.row.shown}: {what}" for one in outcomes for what in one.effects]
    assert (broken, reached, len(outcomes)) == ([], [], len(chosen))
    assert ran >= 0.8 * len(outcomes)


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
