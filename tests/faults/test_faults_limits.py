"""The campaign of limits runs: with its whole numbers only where a person starts it, so nobody
would see that it followed the product no longer."""

from __future__ import annotations

import argparse

from tests.faults.limits import measured, page


async def test_every_figure_is_measured_and_held_with_small_numbers() -> None:
    wish = argparse.Namespace(calls=8, timeouts=1, kills=1, rebindings=40, bytes=1_000_000)
    rows = await measured(wish)
    text = page(rows, "a test")
    # How long a decision takes is for a machine that does nothing else.
    late = {"permission decision"}
    assert [row.figure for row in rows if not row.held and row.figure not in late] == [], text
    assert len(rows) == text.count("held") + text.count("NOT HELD") == 4
