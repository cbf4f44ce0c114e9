"""In front of the store: publish returns after the commit, waits when the queue is full, and never
for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from channels.contract import Address, ChatId, Inbound, MessageId
from channels.errors import Unavailable
from ohmo.ambient import inert
from ohmo.bus import CROWD, EventStream, MessageBus
from ohmo.contracts.agent import Event, TextDelta
from ohmo.contracts.arrivals import Occurrence, Wake
from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.turns import Accepted, Seat
from ohmo.lifecycle import follow
from ohmo.storefile.open_store import open_sqlite
from ohmo_testing.house import eventually
from tests.makers import inbound

PLACE = Address("slack", "T1", ChatId("C1"))


def said(number: int, chat: str = "C1") -> Inbound:
    return inbound(
        Address("slack", "T1", ChatId(chat)),
        f"m-{number}",
        f"{chat}.{number}",
        order=f"{number:06d}",
        message=MessageId(str(number)),
    )


class Disk:
    """A store that commits when it is told to."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.fails: Exception | None = None
        self.asked: list[int] = []
        self.announced: list[int] = []
        self.told: list[int] = []

    async def accept(self, items: Sequence[Any], cursor: object) -> list[Accepted]:
        self.asked.append(len(items))
        await self.open.wait()
        if self.fails is not None:
            raise self.fails
        return [
            Accepted("t", int(arrival.message), duplicate=int(arrival.message) < 0)
            for arrival, _ in items
        ]

    def storing(self, batch: Sequence[Any]) -> None:
        self.announced.append(len(batch))

    def tell(self, told: Sequence[Any]) -> None:
        self.told += [accepted.seq for accepted, _, _ in told]


@asynccontextmanager
async def running(disk: Disk, *, bound: int = 1024, seat: Any = None) -> AsyncGenerator[MessageBus]:
    bus = MessageBus(
        seat=seat or (lambda arrival: Seat("", "message")),
        accept=disk.accept,
        failpoint=inert,
        bound=bound,
    )
    bus.subscribe(storing=disk.storing, stored=disk.tell)
    task = asyncio.create_task(bus.run())
    try:
        yield bus
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_publish_returns_after_the_commit() -> None:
    disk = Disk()
    disk.open.clear()
    async with running(disk) as bus:
        publishing = asyncio.create_task(bus.publish([said(1)]))
        while not disk.asked:
            await asyncio.sleep(0)
        assert not publishing.done()
        disk.open.set()
        assert [accepted.seq for accepted in await publishing] == [1]


async def test_duplicates_are_acknowledged_and_not_told() -> None:
    disk = Disk()
    async with running(disk) as bus:
        assert len(await bus.publish([said(-1), said(2)])) == 2
    assert disk.told == [2]


async def test_a_full_queue_makes_the_platform_wait() -> None:
    disk = Disk()
    disk.open.clear()
    async with running(disk, bound=2) as bus:
        publishing = [asyncio.create_task(bus.publish([said(number)])) for number in range(100)]
        for _ in range(300):
            await asyncio.sleep(0)
        assert bus.inbound.full()
        assert len(disk.asked) <= 64
        disk.open.set()
        await asyncio.gather(*publishing)
    assert disk.told == list(range(100))


@pytest.mark.parametrize("error", [Unavailable("the disk is full"), LeaseLost()])
async def test_what_the_store_raises_reaches_the_publisher_and_the_next_batch_goes_on(
    error: Exception,
) -> None:
    disk = Disk()
    disk.fails = error
    async with running(disk) as bus:
        with pytest.raises(type(error)):
            await bus.publish([said(1)])
        disk.fails = None
        await bus.publish([said(2)])
    assert disk.told == [2]


async def test_a_publisher_that_is_cut_off_leaves_its_batch_to_be_stored() -> None:
    disk = Disk()
    disk.open.clear()
    async with running(disk) as bus:
        publishing = asyncio.create_task(bus.publish([said(1)]))
        while not disk.asked:
            await asyncio.sleep(0)
        publishing.cancel()
        disk.open.set()
        await bus.publish([said(2)])
    assert disk.told == [1, 2]


async def test_nobody_waits_for_a_bus_that_has_stopped() -> None:
    disk = Disk()
    disk.open.clear()
    async with running(disk, bound=1) as bus:
        publishing = [asyncio.create_task(bus.publish([said(number)])) for number in range(80)]
        for _ in range(200):
            await asyncio.sleep(0)
    publishing.append(asyncio.create_task(bus.publish([said(99)])))
    async with asyncio.timeout(10):
        results = await asyncio.gather(*publishing, return_exceptions=True)
    assert {type(result) for result in results} == {Unavailable}


async def test_an_arrival_nobody_can_seat_does_not_leave_its_publisher_waiting() -> None:
    disk = Disk()

    def seat(arrival: Inbound) -> Seat:
        if arrival.key == said(1).key:
            raise KeyError(arrival.key)
        return Seat("", "message")

    bus = MessageBus(seat=seat, accept=disk.accept, failpoint=inert)  # type: ignore[arg-type]
    task = asyncio.create_task(bus.run())
    with pytest.raises(Unavailable):
        await bus.publish([said(1)])
    await bus.publish([said(2)])  # and nobody else is made deaf by it
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_what_is_told_comes_in_the_order_of_the_commits(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    clock = lambda: datetime(2026, 1, 1, tzinfo=UTC)  # noqa: E731
    async with open_sqlite(
        tmp_path / "ohmo.db", clock=clock, writer=uuid4().hex[:12], failpoint=inert
    ) as store:
        bus = MessageBus(
            seat=lambda arrival: Seat("", "message"), accept=store.accept, failpoint=inert
        )
        bus.subscribe(
            storing=lambda batch: None,
            stored=lambda new: told.extend(
                (accepted.thread, accepted.seq) for accepted, _, _ in new
            ),
        )
        task = asyncio.create_task(bus.run())
        await asyncio.gather(
            *(bus.publish([said(number, f"C{number % 7}")]) for number in range(500))
        )
        task.cancel()
        await asyncio.wait([task])
    assert len(told) == 500
    for thread in {thread for thread, _ in told}:
        numbers = [seq for where, seq in told if where == thread]
        assert numbers == sorted(numbers)


async def test_only_a_slow_watcher_loses_events() -> None:
    stream = EventStream(bound=3)
    quick: list[str] = []

    async def watch() -> None:
        with stream.listen() as events:
            async for _, event in events:
                assert isinstance(event, TextDelta)
                quick.append(event.text)

    watching = asyncio.create_task(watch())
    with stream.listen() as slow:
        await asyncio.sleep(0)  # the quick one listens now
        for number in range(10):
            stream.emit("t", TextDelta("turn", str(number)))
            while len(quick) <= number:
                await asyncio.sleep(0)
        assert stream.dropped == 7
        seen = [
            event.text
            for _, event in [await anext(slow) for _ in range(3)]
            if isinstance(event, TextDelta)
        ]
    watching.cancel()
    await asyncio.wait([watching])
    assert seen == ["7", "8", "9"]
    assert quick[-1] == "9"
    assert stream.dropped == 7  # also after everybody has left


async def test_neither_a_sleeping_nor_a_raising_watcher_is_run_by_who_emits() -> None:
    """What a turn pays for a watcher is a place in its queue: nothing of the watcher runs before
    the turn waits for something else, and what it does then reaches nobody."""
    stream = EventStream(bound=4)
    kept: list[str] = []
    hurt: list[str] = []

    async def sleeps() -> None:
        with stream.listen("sleeps") as events:
            async for _ in events:
                await asyncio.Event().wait()

    def keeps(_: str, event: Event) -> None:
        assert isinstance(event, TextDelta)
        kept.append(event.text)

    def raises(_: str, event: Event) -> None:
        hurt.append(event.turn)
        raise RuntimeError("a watcher fell")

    with capture_logs() as logs:
        watching = [
            asyncio.create_task(sleeps()),
            asyncio.create_task(follow("raises", partial(stream.listen, "raises"), raises)),
            asyncio.create_task(follow("keeps", stream.listen, keeps)),
        ]
        await asyncio.sleep(0)
        for number in range(10):
            stream.emit("t", TextDelta("turn", str(number)))
            assert len(kept) == len(hurt) == number  # emitting ran none of them
            while len(kept) <= number:
                await asyncio.sleep(0)
        assert kept == [str(number) for number in range(10)]
        assert len(hurt) == 10  # told the next event after each failure
        assert not any(task.done() for task in watching)
        assert stream.dropped == 5  # of ten: one is looked at, four wait
    for task in watching:
        task.cancel()
    await asyncio.wait(watching)
    said = [(each["event"], each["watcher"]) for each in logs]
    assert sorted(said) == [("events_dropped", "sleeps"), ("watcher_failed", "raises")]


async def test_jobs_that_are_due_are_no_burst_of_messages() -> None:
    """Turns give way to messages that a platform waits to have acknowledged, not to the slots that
    want to begin."""
    disk = Disk()
    disk.open.clear()
    async with running(disk) as bus:
        slot = Occurrence("job", datetime(2026, 1, 1, tzinfo=UTC), 1, None, "schedule", fresh=True)
        place = Address("house", "local", ChatId("cron:job"))
        wake = Wake(
            key="cron:job@1",
            origin="cron",
            place=place,
            deliver=None,
            person="owner",
            prompt="x",
            at=slot.due,
            occurrence=slot,
        )
        due = [asyncio.create_task(bus.publish([wake])) for _ in range(CROWD)]
        await eventually(lambda: len(disk.asked) == CROWD)
        assert not bus.crowded
        said_ = [asyncio.create_task(bus.publish([said(number)])) for number in range(CROWD)]
        await eventually(lambda: len(disk.asked) == 2 * CROWD)
        assert bus.crowded
        for task in [*due, *said_]:
            task.cancel()
        await asyncio.gather(*due, *said_, return_exceptions=True)
        assert not bus.crowded
        disk.open.set()
