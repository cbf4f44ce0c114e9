"""What was freed goes back to the system."""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ohmo.daemon.allocator import EVERY, give_back, trimming


def resident() -> int:
    """MiB of this process in memory, by /proc/self/status."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) >> 10


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim")
def test_freed_memory_below_something_still_used_goes_back_to_the_system() -> None:
    blocks = [bytes(2000) for _ in range(60_000)]  # small enough for the heap, too large for Python's own pools
    last = blocks[-1]  # holds the top of the heap: without trimming nothing below it goes back
    del blocks
    full = resident()
    give = trimming()
    assert give is not None
    give()
    assert resident() <= full - 80, "a hundred and fifteen MiB were freed"
    assert len(last) == 2000


_THREAD = """
import re, sys, threading
from pathlib import Path
from ohmo.daemon.allocator import one_arena
if sys.argv[1] == "one":
    one_arena()
kept = []
thread = threading.Thread(target=lambda: kept.extend(bytes(2000) for _ in range(30_000)))
thread.start()
thread.join()
begin, end = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\\[heap\\]$", Path("/proc/self/maps").read_text(), re.MULTILINE).groups()
print((int(end, 16) - int(begin, 16)) >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_one_heap() -> None:
    one, many = (int(subprocess.check_output([sys.executable, "-c", _THREAD, word], timeout=60)) for word in ("one", "many"))
    assert one >= 50 > 30 > many, "MiB in the heap of the process, after a thread took sixty"


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
    assert (slept, given) == ([EVERY] * 3, [1, 1])


async def test_a_library_without_it_costs_nothing() -> None:
    await asyncio.wait_for(give_back(None), 20)
