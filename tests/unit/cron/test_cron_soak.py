"""A slice of the soak; the whole is ``python -m tests.unit.cron.soak``."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cron.soak import one_round


async def test_no_slot_is_doubled_and_none_is_unrecorded(tmp_path: Path) -> None:
    found = await one_round(3, tmp_path, 10)
    assert found.wrong == []
    assert (found.doubled, found.unrecorded) == (0, 0)
    assert found.slots > 1_000
    assert found.kills
    assert found.states["done"] > 5
