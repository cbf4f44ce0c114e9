"""A clock that is set is noticed against one that never is; drift and time that simply passes are not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from channels.errors import Unavailable
from ohmo.sessions.clockwatch import Clockwatch
from ohmo.testing import BIRTH


class Over(Exception):
    """The story is told."""


@pytest.mark.parametrize(
    ("jumps", "moved"),
    [
        ([0, 0, 0], [None]), ([200, 200], [None]), ([3_600], [None, 3_600.0]), ([-3_600, 0, 0], [None, -3_600.0]),
        ([365 * 86_400, -400 * 86_400], [None, 365 * 86_400.0, -400 * 86_400.0]),
    ],
)  # fmt: skip
async def test_only_a_jump_moves_what_waits(jumps: list[float], moved: list[float | None]) -> None:
    wall, steady, story, seen = BIRTH, 0.0, list(jumps), list[float | None]()

    async def sleep(seconds: float) -> None:
        nonlocal wall, steady
        if not story:
            raise Over
        steady += seconds
        wall += timedelta(seconds=seconds + story.pop(0))

    async def rebase(seconds: float | None) -> float:
        seen.append(seconds)
        return seconds or 0.0

    with pytest.raises(Over):
        await Clockwatch(lambda: wall, rebase, monotonic=lambda: steady, sleep=sleep).run()
    assert seen == moved


async def test_a_jump_while_the_store_is_away_is_not_forgotten() -> None:
    wall, steady, rounds, seen = BIRTH, 0.0, 0, list[float | None]()

    async def sleep(seconds: float) -> None:
        nonlocal wall, steady, rounds
        rounds += 1
        if rounds == 4:
            raise Over
        steady += seconds
        wall += timedelta(seconds=seconds + (1_000 if rounds == 1 else 0))

    async def rebase(seconds: float | None) -> float:
        seen.append(seconds)
        if rounds == 1:
            raise Unavailable("away")
        return seconds or 0.0

    with pytest.raises(Over):
        await Clockwatch(lambda: wall, rebase, monotonic=lambda: steady, sleep=sleep).run()
    assert seen == [None, 1_000.0, 1_000.0]
