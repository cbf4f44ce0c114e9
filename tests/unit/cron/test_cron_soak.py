"""A slice of the soak; the whole is ``python -m tests.unit.cron.soak``."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cron.soak import one_round


async def test_no_slot_is_doubled_and_none_is_unrecorded(tmp_path: Path) -> None:
    done = 0
    # how many runs end between two deaths is chance: one round alone had 9 to 41
    for seed in (3, 4, 5):
        (tmp_path / str(seed)).mkdir()
        found = await one_round(seed, tmp_path / str(seed), 10)
        assert found.wrong == []
        assert (found.doubled, found.unrecorded) == (0, 0)
        assert found.slots > 1_000
        assert found.kills
        done += found.states["done"]
    assert done > 20
