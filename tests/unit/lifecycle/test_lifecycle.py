"""How things live and die; what was freed goes back to the system."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from ohmo.ambient import derived
from ohmo.heap import TRIM, give_back, trimming
from ohmo.lifecycle import backoff, failure_of, notify, supervised, unbroken


def test_back_off_doubles_up_to_its_most_with_full_jitter() -> None:
    assert [backoff(attempt, draw=lambda: 1.0) for attempt in range(8)] == [
        1,
        2,
        4,
        8,
        16,
        32,
        60,
        60,
    ]
    assert backoff(10_000, draw=lambda: 0.0) == 6.0


async def test_what_fails_is_started_again_until_it_ends_by_itself() -> None:
    tries, pauses = 0, list[float]()

    async def work() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise OSError("again")

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    await supervised("work", work, sleep=sleep)
    assert (tries, len(pauses)) == (4, 3)


async def test_cancellation_is_no_failure() -> None:
    task = asyncio.create_task(failure_of(asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_commit_that_is_under_way_is_waited_for_before_the_cancellation_goes_on() -> None:
    disk, done = asyncio.Event(), list[str]()

    async def commit() -> str:
        await disk.wait()
        done.append("committed")
        return "committed"

    task = asyncio.create_task(unbroken(commit()))
    await asyncio.sleep(0)
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    disk.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["committed"]


async def test_the_failure_of_a_commit_reaches_whoever_waits() -> None:
    async def commit() -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await unbroken(commit())


def test_derived_ids_are_equal_for_equal_names_and_fit_every_platform() -> None:
    assert derived("waiting", "t1") == derived("waiting", "t1")
    assert (
        len(
            {
                derived("waiting", "t1"),
                derived("waiting", "t2"),
                derived("waitingt1"),
                derived("left out", "t1"),
            }
        )
        == 4
    )
    assert len(derived("a")) == 22
    assert derived("a\udcff").isalnum()


def test_a_service_manager_hears_of_it_and_nobody_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        assert notify({"NOTIFY_SOCKET": str(path)}, "READY=1")
        assert manager.recv(100) == b"READY=1"
    assert not notify({}, "READY=1")
    assert not notify({"NOTIFY_SOCKET": str(tmp_path / "gone")}, "READY=1")


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
