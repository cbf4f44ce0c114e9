"""A word to whoever called in a shared place and is not heard there: seen by that person only, once
an hour. Courtesies, never retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from channels.contract import Address, Clock, Inbound, PersonId
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.store import Seat
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.intake")
AGAIN = timedelta(hours=1)
FRESH = timedelta(minutes=10)
WAITING = 100
PATIENCE = 10.0  # seconds one may take
REMEMBERED = 1_000
Whisper = Callable[[Address, PersonId, str], Awaitable[None]]


class Whispers:
    """``whisper`` does nothing on platforms that cannot."""

    def __init__(self, whisper: Whisper, clock: Clock) -> None:
        self._whisper = whisper
        self._clock = clock
        self._told: dict[tuple[str, str, str, str], datetime] = {}
        self._due: asyncio.Queue[tuple[Inbound, str]] = asyncio.Queue(WAITING)

    def hear(self, arrival: Arrival, seat: Seat) -> None:
        """What was stored just now, and where it was seated."""
        if (
            not isinstance(arrival, Inbound)
            or seat.ending is None
            or arrival.private
            or not arrival.addressed
            or arrival.person.bot
        ):
            return
        place, now = arrival.address, self._clock()
        if now - arrival.at > FRESH:  # said while nobody listened: the person is long gone
            return
        name = (place.channel, place.account, place.chat, arrival.person.id)
        if (last := self._told.get(name)) is not None and now - last < AGAIN:
            return
        if self._due.full():
            return
        self._told.pop(name, None)
        self._told[name] = now
        if len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]
        self._due.put_nowait(
            (
                arrival,
                f"I may not answer here: {seat.reason}. My owner can change that in config.yaml.",
            )
        )

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            said, text = await self._due.get()
            error = await failure_of(
                within(PATIENCE, self._whisper(said.address, said.person.id, text))
            )
            if error is not None:
                log.info("whisper_failed", channel=said.address.channel, error=str(error))
