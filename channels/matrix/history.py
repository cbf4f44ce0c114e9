"""What was said while nobody listened, or cannot be read at once: gaps in a timeline, filled as far
as ``catch_up`` allows, what is left out counted aloud; encrypted events read when their key comes,
or told of when it does not.

Source: Matrix Client-Server API, "Syncing" (``limited`` timelines and their gaps), "End-to-end
encryption" (extensions to ``/sync``)."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from channels.catch_up import left_out
from channels.contract import Address, Arrival, ChannelContext, ChatId, Inbound
from channels.errors import Rejected
from channels.matrix.client import MatrixClient
from channels.matrix.inbound import (
    Event,
    Unreadable,
    events_of,
    list_of,
    localpart,
    mapping,
    starts_here,
)
from channels.matrix.rooms import Rooms
from channels.record import record
from channels.text import wall

log = logging.getLogger("channels.matrix")

LONGEST_GAP = 10_000  # events of one room fetched for one gap; more than that is no chat any more
TYPES = [
    "m.room.message",
    "m.reaction",
    "m.room.redaction",
    "m.room.member",
    "m.room.encryption",
    "m.room.encrypted",
    "m.room.tombstone",
    "m.room.history_visibility",
]
MESSAGES = {"m.room.message", "m.room.encrypted"}
IN_ROOMS = json.dumps({"types": TYPES, "lazy_load_members": True})
Spoken = Callable[[str, Event, str], Awaitable[Arrival | None]]


class History:
    """``clock`` gives UTC."""

    def __init__(
        self,
        client: MatrixClient,
        rooms: Rooms,
        me: str,
        context: ChannelContext,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._rooms = rooms
        self._me = me
        self._context = context
        self._clock = clock

    async def timeline(
        self, room: str, timeline: Mapping[str, Any], since: str, missed: bool
    ) -> tuple[Sequence[Event], bool]:
        """Events of a room since the last sync, oldest first, the gap of a limited timeline filled;
        whether they are all."""
        events = events_of(timeline)
        whole = True
        start = timeline.get("prev_batch")
        limited = timeline.get("limited") is True and isinstance(start, str)
        if limited and not self._begins(events):
            # Members may have come and gone in a gap that is too long to fetch.
            self._rooms.forget(room)
            earlier, whole = await self._gap(room, str(start), since, missed)
            events = earlier + events
        for number in range(len(events) - 1, -1, -1):
            if starts_here(events[number], self._me):
                return events[number + 1 :], whole
        return events, whole

    async def _gap(
        self, room: str, start: str, since: str, missed: bool
    ) -> tuple[list[Event], bool]:
        """What a limited timeline left out, oldest first: back to the last sync, our invitation, or
        the fence; whether it is all."""
        oldest, most = self._context.catch_up
        most = most if missed else LONGEST_GAP
        edge = (self._clock() - oldest).timestamp() * 1000
        events: list[Event] = []
        at: object = start
        while isinstance(at, str):
            try:
                page = await self._client.messages(room, at, since, IN_ROOMS)
            except Rejected as refused:
                await self._context.missed(
                    f"matrix: the history of {room} cannot be read ({refused}); messages said there"
                    " may be missing."
                )
                break
            chunk = [mapping(event) for event in list_of(page.get("chunk"))]
            events += chunk
            at = page.get("end") if chunk else None
            if self._begins(chunk):
                break
            if at is None:
                continue
            messages = sum(event.get("type") in MESSAGES for event in events)
            oldest_at: object = chunk[-1].get("origin_server_ts")  # pages go backwards
            too_old = isinstance(oldest_at, int | float) and oldest_at < edge
            if messages >= most or (missed and too_old):
                return events[::-1], False
        return events[::-1], True

    def _begins(self, events: Sequence[Event]) -> bool:
        """Whether our part in the room does."""
        return any(starts_here(event, self._me) for event in events)

    async def fenced(
        self, room: str, arrivals: list[Arrival], *, missed: bool, whole: bool
    ) -> list[Arrival]:
        """After an absence: what ``catch_up`` lets in. Whatever is left out is counted aloud where
        somebody may be waiting, else to the owner."""
        oldest, most = self._context.catch_up
        kept = arrivals
        if missed:
            young = [heard for heard in arrivals if heard.at >= self._clock() - oldest]
            kept = young[-most:] if most else []
        names = {heard.key for heard in kept}
        left = [
            heard for heard in arrivals if isinstance(heard, Inbound) and heard.key not in names
        ]
        if left or not whole:
            waiting = not whole or any(heard.addressed for heard in left)
            address = Address("matrix", self._me, ChatId(room)) if waiting else None
            where = "here" if waiting else f"on Matrix in {room}"
            text = left_out(
                [heard.at for heard in left],
                (oldest, most if missed else LONGEST_GAP),
                zone=self._context.zone,
                where=where,
                key="channels.matrix.catch_up",
                more=not whole,
            )
            await self._context.missed(text, address)
        return kept


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
            if room not in self._told:
                await self._context.missed(
                    f"matrix: {room} is encrypted, and channels.matrix.encryption is false;"
                    " messages there cannot be read or answered."
                )
            self._told.add(room)
            return None
        result = await encryption.read(room, event)
        if not isinstance(result, Unreadable):
            return result
        if result.session:
            await encryption.step(encryption.undecrypted.keep, room, event, result.session, order)
            await encryption.ask_for(room, result.session, sender, _sender_key(event))
        else:
            await self._tell(room, sender, event.get("origin_server_ts"), result.why)
        return None

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
            result = await encryption.read(kept.room, event)
            if isinstance(result, Unreadable) and result.session:
                await encryption.ask_for(kept.room, kept.session, kept.sender, _sender_key(event))
                continue
            done.append(kept.event)
            if isinstance(result, Unreadable):
                at = event.get("origin_server_ts")
                await self._tell(kept.room, kept.sender, at, result.why)
                continue
            arrival = await spoken(kept.room, result, kept.place)
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
            moment = datetime.fromtimestamp(at / 1000, UTC)
            when = f" at {wall(moment, self._context.zone)}"
        where = "here" if private else f"on Matrix in {room}"
        log.warning("%s: a message in %s cannot be read: %s", self._me, room, why)
        await self._context.missed(
            f"Not read: a message of {localpart(sender)} said {where}{when}: {why}."
            " Please say it again.",
            Address("matrix", self._me, ChatId(room)) if private else None,
        )


def _sender_key(event: Event) -> str:
    return str(mapping(event.get("content")).get("sender_key", ""))
