"""How things live and die."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from ohmo.ambient import derived
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
