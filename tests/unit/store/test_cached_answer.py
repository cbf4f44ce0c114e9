"""A question that is asked all the time costs a share of a core, not all of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from ohmo.database.cached_answer import CachedAnswer


@dataclass
class Dear:
    """Takes ``takes`` seconds of its own clock."""

    takes: float
    now: float = 0.0
    asked: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> int:
        self.asked += 1
        await self.gate.wait()
        self.now += self.takes
        if self.takes > 100:
            raise OSError("away")
        return self.asked


@pytest.mark.parametrize(("takes", "good"), [(0.1, 5.0), (2.0, 30.0)])
async def test_an_answer_is_good_for_fifty_times_what_it_took_but_not_for_ever(
    takes: float, good: float
) -> None:
    dear = Dear(takes)
    dear.gate.set()
    sparing = CachedAnswer(dear, monotonic=lambda: dear.now)
    assert [await sparing(), await sparing()] == [1, 1]
    dear.now += good - 0.01
    assert await sparing() == 1
    dear.now += 0.01
    assert await sparing() == 2


async def test_who_comes_meanwhile_gets_the_same_answer_and_who_leaves_takes_nothing_away() -> None:
    dear = Dear(1.0)
    sparing = CachedAnswer(dear, monotonic=lambda: dear.now)
    first, second = asyncio.create_task(sparing()), asyncio.create_task(sparing())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    dear.gate.set()
    assert await second == 1
    assert dear.asked == 1


async def test_a_failure_is_nobodys_answer_later() -> None:
    dear = Dear(1000.0)
    dear.gate.set()
    sparing = CachedAnswer(dear, monotonic=lambda: dear.now)
    with pytest.raises(OSError, match="away"):
        await sparing()
    dear.takes = 1.0
    assert await sparing() == 2
