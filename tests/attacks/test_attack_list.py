"""Every input of ``lists/`` on a real daemon: no secret reaches the model, nothing outside of what a
person allowed is changed, nothing of this machine is connected to. Nobody answers a question."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.attacks.house import Outcome, attackable, attacked
from tests.attacks.rows import LISTS, rows
from tests.unit.permissions.attack_scenes import CANARY, write

pytestmark = [pytest.mark.timeout(300), pytest.mark.needs("cc", "rg")]
CATEGORIES = sorted(path.stem for path in LISTS.glob("*.yaml") if path.stem != "benign")


def summary(category: str, outcomes: list[Outcome]) -> str:
    done = [one for one in outcomes if one.told]
    how = Counter("asked" if one.asked else "refused or without effect" for one in done)
    return f"{category}: {len(outcomes)} inputs, {dict(how)}"


@pytest.mark.parametrize("category", CATEGORIES)
async def test_no_attack_succeeds(category: str, tmp_path: Path) -> None:
    async with attacked(attackable(tmp_path / "a")) as house:
        outcomes = await house.tries(rows(category))
        print(summary(category, outcomes))
        broken = [f"{one.row.shown}: {what}" for one in outcomes for what in one.effects]
    assert not broken, "\n".join((f"{len(broken)} of {len(outcomes)}", *broken))


async def test_the_house_sees_what_succeeds(tmp_path: Path) -> None:
    assert CANARY and write
