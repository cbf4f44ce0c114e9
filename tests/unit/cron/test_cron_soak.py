"""A slice of the soak; the whole is ``python -m tests.unit.cron.soak``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cron.soak import one_round


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_slot_is_doubled_and_none_is_unrecorded(seed: int, tmp_path: Path) -> None:
    found = await one_round(seed, tmp_path, 25)
    assert found.wrong == []
    assert (found.doubled, found.unrecorded) == (0, 0)
    assert found.slots > 1_000
    assert found.kills
    assert found.states["done"] > 20
