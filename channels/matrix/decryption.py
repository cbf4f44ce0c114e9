"""What encrypted events of a sync say: at once, when their key comes later, or that nobody can
tell.

Source: Matrix Client-Server API, "End-to-end encryption" (extensions to ``/sync``)."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from channels.contract import Address, Arrival, ChannelContext, ChatId
from channels.errors import Rejected
from channels.matrix.inbound import Event, Unreadable, localpart, mapping
from channels.matrix.rooms import Rooms
from channels.record import record
from channels.text import wall

log = logging.getLogger("channels.matrix")

Spoken = Callable[[str, Event, str], Awaitable[Arrival | None]]


@record
class Opened:
    """What could be read of earlier events."""

    arrivals: tuple[Arrival, ...] = ()  # in the order they were said
    done: tuple[str, ...] = ()  # events that wait no longer


class Decryption:
    """Of one ``receive``."""

    def __init__(self, rooms: Rooms, context: ChannelContext, me: str) -> None:
        self._rooms = rooms
        self._context = context
        self._me = me
        self._told: set[str] = set()  # encrypted rooms the owner has heard of

    async def open(self, room: str, event: Event, order: str) -> Event | None:
        """What an encrypted event says; None when nobody can tell yet. What waits for its key is on
        disk before the position is saved."""
        sender = str(event.get("sender"))
        if not event.get("content") or not isinstance(event.get("event_id"), str):
            return None  # deleted meanwhile
        if sender == self._me:
            return None
        encryption = self._rooms.encryption
        if encryption is None:
            await self._not_switched_on(room)
            return None
        found = await encryption.read(room, event)
        if not isinstance(found, Unreadable):
            return found
        if found.session:
            await encryption.step(encryption.undecrypted.keep, room, event, found.session, order)
            await encryption.ask_for(room, found.session, sender, _sender_key(event))
        else:
            await self._tell(room, sender, event.get("origin_server_ts"), found.why)
        return None

    async def _not_switched_on(self, room: str) -> None:
        if room not in self._told:
            await self._context.missed(
                f"matrix: {room} is encrypted, and channels.matrix.encryption is false;"
                " messages there cannot be read or answered."
            )
        self._told.add(room)

    async def opened_later(self, sessions: set[str] | None, spoken: Spoken) -> Opened:
        """What was said earlier and can be read now. ``sessions``: whose keys came; None: all are
        tried. ``spoken``: makes an arrival of a room's event under the number it was kept with."""
        encryption = self._rooms.encryption
        if encryption is None or sessions == set():
            return Opened()
        arrivals: list[Arrival] = []
        done: list[str] = []
        for kept in await encryption.step(encryption.undecrypted.ready, sessions):
            event = mapping(json.loads(kept.body))
            found = await encryption.read(kept.room, event)
            if isinstance(found, Unreadable) and found.session:
                await encryption.ask_for(kept.room, kept.session, kept.sender, _sender_key(event))
                continue
            done.append(kept.event)
            if isinstance(found, Unreadable):
                at = event.get("origin_server_ts")
                await self._tell(kept.room, kept.sender, at, found.why)
                continue
            arrival = await spoken(kept.room, found, kept.place)
            if arrival is not None:
                arrivals.append(arrival)
        return Opened(tuple(arrivals), tuple(done))

    async def tell_overdue(self) -> None:
        """Of events whose key did not come in time."""
        encryption = self._rooms.encryption
        assert encryption is not None, "only encrypted words wait"
        for kept, withheld in await encryption.step(encryption.undecrypted.overdue):
            why = "its key has not reached me, and the sender's devices did not send it when asked"
            if withheld:
                why = f"its key was withheld: {withheld}"
            at = json.loads(kept.body).get("origin_server_ts")
            await self._tell(kept.room, kept.sender, at, why)

    async def _tell(self, room: str, sender: str, at: object, why: str) -> None:
        """One honest line: in a one-to-one chat to its person, else to the owner, because nobody
        knows whether it was meant for us."""
        try:
            private = (await self._rooms.get(room)).private
        except Rejected:  # we were removed meanwhile
            private = False
        when = ""
        if isinstance(at, int) and 0 < at < 10**14:
            said = datetime.fromtimestamp(at / 1000, UTC)
            when = f" at {wall(said, self._context.zone)}"
        where = "here" if private else f"on Matrix in {room}"
        log.warning("%s: a message in %s cannot be read: %s", self._me, room, why)
        await self._context.missed(
            f"Not read: a message of {localpart(sender)} said {where}{when}: {why}."
            " Please say it again.",
            Address("matrix", self._me, ChatId(room)) if private else None,
        )


def _sender_key(event: Event) -> str:
    return str(mapping(event.get("content")).get("sender_key", ""))
