"""What was freed goes back to the system."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ohmo.heap import TRIM, give_back, trimming


def resident() -> int:
    """MiB of this process in memory, by /proc/self/status."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) >> 10


@pytest.mark.needs("glibc")
def test_freed_memory_below_something_still_used_goes_back_to_the_system() -> None:
    # small enough for the heap, too large for Python's own pools
    blocks = [bytes(2000) for _ in range(60_000)]
    last = blocks[-1]  # holds the top of the heap: without trimming nothing below it goes back
    del blocks
    full = resident()
    give = trimming()
    assert give is not None
    give()
    assert resident() <= full - 80, "a hundred and fifteen MiB were freed"
    assert len(last) == 2000


async def test_it_is_done_once_a_minute() -> None:
    slept: list[float] = []
    given: list[int] = []
    twice = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 2:
            twice.set()
            await asyncio.Event().wait()

    life = asyncio.create_task(give_back(lambda: given.append(1), sleep))
    await asyncio.wait_for(twice.wait(), 20)
    life.cancel()
    assert (slept, given) == ([TRIM] * 3, [1, 1])


async def test_a_library_without_it_costs_nothing() -> None:
    await asyncio.wait_for(give_back(None), 20)
