"""Two bounded queues: what arrives is awaited until it is durable; what running turns say is fanned
out to whoever watches, who may lose events but never delays a turn."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import structlog

from channels.errors import Unavailable
from channels.record import record
from ohmo.contracts.agent import Event
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.errors import StoreError
from ohmo.contracts.turns import Accepted, CursorSave, Seat, ThreadSettings

log = structlog.get_logger("ohmo.bus")
CROWD = 8  # batches on their way to the store: more than an ordinary minute ever has
Seated = tuple[Arrival, Seat]
Heard = tuple[str, Event]  # a thread, and what happened in its turn
Accept = Callable[[Sequence[Seated], CursorSave | None], Awaitable[list[Accepted]]]
Storing = Callable[[Sequence[Seated]], None]
Stored = Callable[[Sequence[tuple[Accepted, Arrival, Seat]]], None]


def _nobody(_: Sequence[object]) -> None:
    return


@record
class Batch:
    """What one platform handed over at once."""

    arrivals: tuple[Arrival, ...]
    cursor: CursorSave | None
    settings: ThreadSettings | None
    stored: asyncio.Future[list[Accepted]]


class MessageBus:
    """``seat`` decides where an arrival belongs; ``accept`` stores a batch in one transaction.
    ``bound``: batches that may wait; when it is reached publish waits, and so does the platform.
    ``acknowledged`` is told the seconds from receipt to commit of every batch. ``inbound`` batches
    are handed to the store one after the other without waiting for each commit: the writer groups
    them."""

    def __init__(
        self,
        *,
        seat: Callable[[Arrival], Seat],
        accept: Accept,
        failpoint: Callable[[str], None],
        bound: int = 1024,
        acknowledged: Callable[[float], None] | None = None,
    ) -> None:
        self.inbound: asyncio.Queue[Batch] = asyncio.Queue(bound)
        self.outbound = EventStream(bound)
        self._seat = seat
        self._accept = accept
        self._storing: Storing = _nobody
        self._stored: Stored = _nobody
        self._failpoint = failpoint
        self._width = asyncio.Semaphore(64)
        self._stopped = False
        self._acknowledged = acknowledged
        self._on_the_way = 0

    def subscribe(self, *, storing: Storing, stored: Stored) -> None:
        """Before anything is published. ``storing`` is told of a batch that goes to the store,
        ``stored``, in the order of the commits, of what is new."""
        self._storing = storing
        self._stored = stored

    @property
    def crowded(self) -> bool:
        """More comes in just now than is stored. Jobs that are due do not count: no platform waits
        for their acknowledgement, and to begin late is what they must not."""
        return self._on_the_way >= CROWD

    async def publish(
        self,
        arrivals: Sequence[Arrival],
        cursor: CursorSave | None = None,
        *,
        settings: ThreadSettings | None = None,
    ) -> list[Accepted]:
        """Returns after the commit. ``settings``: chosen with these arrivals, for their threads.
        Raises Unavailable (nothing may be acknowledged) and LeaseLost (the cursor is fenced
        off)."""
        received = time.monotonic()
        if arrivals:  # a cursor alone is no message
            self._failpoint("inbound.received")
        batch = Batch(tuple(arrivals), cursor, settings, asyncio.get_running_loop().create_future())
        of_jobs = all(
            isinstance(arrival, Wake) and arrival.occurrence is not None for arrival in arrivals
        )
        self._on_the_way += not of_jobs
        try:
            await self.inbound.put(batch)
            if self._stopped:
                self._refuse()
            accepted = await batch.stored
        finally:
            self._on_the_way -= not of_jobs
        if arrivals:
            self._failpoint("inbound.stored")
            if self._acknowledged is not None:
                self._acknowledged(time.monotonic() - received)
        return accepted

    async def publish_wake(self, wake: Wake, settings: ThreadSettings | None = None) -> Accepted:
        """``publish`` of one that no platform sends."""
        (accepted,) = await self.publish([wake], settings=settings)
        return accepted

    async def run(self) -> None:
        """Until cancelled; batches that were not stored by then fail with Unavailable."""
        self._stopped = False
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._width.acquire()
                    try:
                        batch = await self.inbound.get()
                    except asyncio.CancelledError:
                        self._width.release()
                        raise
                    group.create_task(self._store(batch), name="bus.store")
        finally:
            self._stopped = True
            self._refuse()

    def _refuse(self) -> None:
        """Nobody takes what waits any more."""
        while not self.inbound.empty():
            _fail(self.inbound.get_nowait(), Unavailable("the daemon is stopping"))

    async def _store(self, batch: Batch) -> None:
        try:
            seated: list[Seated] = []
            for arrival in batch.arrivals:
                seat = self._seat(arrival)
                if batch.settings is not None:
                    chosen = batch.settings.over(seat.settings or ThreadSettings())
                    seat = replace(seat, settings=chosen)
                seated.append((arrival, seat))
            self._storing(seated)
            accepted = (
                await self._accept(seated, batch.cursor)
                if seated or batch.cursor is not None
                else []
            )
        except (Unavailable, StoreError) as error:
            _fail(batch, error)
        except asyncio.CancelledError:
            _fail(batch, Unavailable("the daemon is stopping"))
            raise
        except Exception as error:
            # One batch that cannot be seated or written must not make every channel deaf.
            log.error("batch_failed", error=f"{type(error).__name__}: {error}", exc_info=error)
            _fail(batch, Unavailable(f"this batch could not be stored: {error}"))
        else:
            if not batch.stored.done():
                batch.stored.set_result(accepted)
            self._stored(
                [
                    (got, arrival, seat)
                    for got, (arrival, seat) in zip(accepted, seated, strict=True)
                    if not got.duplicate
                ]
            )
        finally:
            # Only when nobody has said anything: a publisher never waits for ever.
            _fail(batch, Unavailable("this batch could not be stored"))
            self._width.release()


def _fail(batch: Batch, error: Exception) -> None:
    if not batch.stored.done():
        batch.stored.set_exception(error)


class _Listener:
    """One watcher's bounded queue; when it is full the oldest event goes."""

    def __init__(self, who: str, bound: int) -> None:
        self._who = who
        self._events: deque[Heard] = deque(maxlen=bound)
        self._ready = asyncio.Event()
        self.dropped = 0

    def hear(self, heard: Heard) -> None:
        if len(self._events) == self._events.maxlen:
            if not self.dropped:
                log.warning("events_dropped", watcher=self._who, behind=len(self._events))
            self.dropped += 1
        self._events.append(heard)
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[Heard]:
        while True:
            while self._events:
                yield self._events.popleft()
            self._ready.clear()
            await self._ready.wait()


class EventStream:
    """What running turns say, for whoever watches (``ohmo.lifecycle.follow``): each has a queue, so
    that none makes a turn wait. ``bound``: events a watcher may lag behind. ``dropped`` counts what
    slow watchers lost."""

    def __init__(self, bound: int = 1024) -> None:
        self._bound = bound
        self._listeners: list[_Listener] = []
        self._gone = 0

    @property
    def dropped(self) -> int:
        return self._gone + sum(listener.dropped for listener in self._listeners)

    def emit(self, thread: str, event: Event) -> None:
        """From a turn; never waits."""
        for listener in self._listeners:
            listener.hear((thread, event))

    @contextmanager
    def listen(self, who: str = "a watcher") -> Generator[AsyncIterator[Heard]]:
        """Thread and event of every running turn from now on. ``who`` is named in the log when it
        falls behind."""
        listener = _Listener(who, self._bound)
        self._listeners.append(listener)
        try:
            yield aiter(listener)
        finally:
            self._listeners.remove(listener)
            self._gone += listener.dropped
