"""Whether the store takes what is written: a disk that is full, failing or read-only is noticed by
the first write it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from channels.errors import Unavailable
from ohmo.store.statements import Driver, MakeOp, Moment, Op, T

PROBE = 256 << 10  # bytes: room for a write means little when the next message does not fit
RETRY = 1.0  # seconds between two tries while nothing can be written


def probe(_: Moment) -> Op[None]:
    """Asks for room as messages would. Its row goes with the next one, see ``forget``."""
    yield (
        """INSERT INTO meta (name, value) VALUES ('probe', ?) ON CONFLICT (name) DO UPDATE
        SET value = excluded.value""",
        ("-" * PROBE,),
    )


def forget(_: Moment) -> Op[None]:
    yield "DELETE FROM meta WHERE name = ?", ("probe",)


class Availability:
    """``away``: why nothing can be written, empty while everything is well. It begins with a write
    that was refused and ends with a probe that was not."""

    def __init__(self) -> None:
        self.away = ""
        self._gone = asyncio.Event()
        self._here = asyncio.Event()
        self._here.set()

    def lost(self, reason: str) -> None:
        self.away = self.away or reason
        self._here.clear()
        self._gone.set()

    def found(self) -> None:
        self.away = ""
        self._gone.clear()
        self._here.set()

    async def gone(self) -> None:
        """Until a write is refused."""
        await self._gone.wait()

    async def here(self) -> None:
        """Until the store takes what is written."""
        await self._here.wait()


class WatchedDriver:
    """``Driver`` that tells ``availability`` of writes that were refused."""

    def __init__(self, driver: Driver, availability: Availability) -> None:
        self._driver = driver
        self._availability = availability
        self.read = driver.read
        self.listeners = driver.listeners

    async def write(self, make: MakeOp[T], lock: str = "") -> T:
        try:
            return await self._driver.write(make, lock)
        except Unavailable as error:
            self._availability.lost(str(error))
            raise


async def watch(
    driver: Driver,
    availability: Availability,
    changed: Callable[[str], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Until cancelled: probes while nothing can be written. ``changed`` is told why it is so, at
    once, and an empty word when it is over."""
    while True:
        await availability.gone()
        await changed(availability.away)
        while availability.away:
            await sleep(RETRY)
            try:
                await driver.write(probe)
                await driver.write(forget)
            except Unavailable:
                continue
            availability.found()
        await changed("")
