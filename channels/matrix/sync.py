"""What arrives: our own sync loop, whose position is saved together with the events it brought.

Source: Matrix Client-Server API, "Syncing" (``limited`` timelines and their gaps)."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from channels.contract import Address, Arrival, ChannelContext, ChatId, Cursor, Inbound
from channels.errors import NotReady, RateLimited, Rejected
from channels.gaps import left_out
from channels.matrix.client import POLL, MatrixClient
from channels.matrix.inbound import (
    SPOKEN,
    Event,
    Lens,
    Original,
    Room,
    about,
    arrival,
    flaw,
    localpart,
    mapping,
    original,
    redacts,
    starts_here,
)
from channels.quarantine import Garbled, Quarantine

log = logging.getLogger("channels.matrix")

CURSOR = "sync"
REMEMBERED = 5_000  # events whose author, words and thread are kept in memory
LONGEST_GAP = 10_000  # events of one room fetched for one gap; more than that is no chat any more
NO_ENCRYPTION = "I cannot read encrypted rooms yet. Please invite me to a room without encryption."
TYPES = ["m.room.message", "m.reaction", "m.room.redaction", "m.room.member", "m.room.encryption", "m.room.encrypted"]
IN_ROOMS = json.dumps({"types": TYPES, "lazy_load_members": True})
NOTHING: dict[str, Any] = {"types": []}
EVERYTHING = json.dumps(
    {
        "presence": NOTHING,
        "account_data": {"types": ["m.direct"]},
        "room": {
            "timeline": {"types": TYPES, "limit": 50},
            "state": {"types": ["m.room.member", "m.room.encryption"], "lazy_load_members": True},
            "ephemeral": NOTHING,
            "account_data": NOTHING,
        },
    }
)
POSITION_ONLY = json.dumps({"presence": NOTHING, "account_data": NOTHING, "room": {"rooms": []}})
INVITES_ONLY = json.dumps(
    {
        "presence": NOTHING,
        "account_data": NOTHING,
        "room": {"timeline": {"types": [], "limit": 1}, "state": NOTHING, "ephemeral": NOTHING, "account_data": NOTHING},
    }
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on. ``order``: how many events were numbered so far; ``invites``: rooms we still have to join."""

    since: str
    order: int
    invites: tuple[str, ...] = ()

    def cursor(self) -> Cursor:
        return Cursor(CURSOR, json.dumps({"since": self.since, "order": self.order, "invites": self.invites}))

    @classmethod
    def read(cls, value: str) -> Position | None:
        try:
            saved = json.loads(value)
            return cls(str(saved["since"]), int(saved["order"]), tuple(saved["invites"]))
        except (ValueError, KeyError, TypeError):
            return None


class Rooms:
    """What is known about rooms; asked of the homeserver once, then kept up to date by the sync."""

    def __init__(self, client: MatrixClient) -> None:
        self.live = False  # the sync is running, so that what is known is also true
        self.direct: frozenset[str] = frozenset()
        self._client = client
        self._rooms: dict[str, Room] = {}

    async def get(self, room: str) -> Room:
        known = self._rooms.get(room)
        if known is None or not known.members:
            members = await self._client.joined_members(room)
            known = self._rooms.setdefault(room, Room(room))
            for user, profile in members.items():
                name = mapping(profile).get("display_name")
                known.members[user] = name if isinstance(name, str) and name else localpart(user)
        known.direct = room in self.direct
        return known

    async def is_encrypted(self, room: str) -> bool:
        """Asked again whenever the sync is not there to tell us of a change; once encrypted, a room stays so."""
        known = self._rooms.setdefault(room, Room(room))
        if known.encrypted is None or (not known.encrypted and not self.live):
            known.encrypted = await self._client.is_encrypted(room)
        return known.encrypted

    def learn(self, room: str, event: Event) -> None:
        """Members count only once all are known."""
        known = self._rooms.setdefault(room, Room(room))
        if known.members or event.get("type") == "m.room.encryption":
            known.learn(event)

    def forget(self, room: str) -> None:
        self._rooms.pop(room, None)


class Listening:
    """One ``receive``: from the saved position, or from ``born`` (when we connected) the very first time."""

    def __init__(self, client: MatrixClient, rooms: Rooms, me: str, context: ChannelContext, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._rooms = rooms
        self._me = me
        self._context = context
        self._clock = clock
        self._known: OrderedDict[str, Original] = OrderedDict()
        self._told: set[str] = set()  # encrypted rooms the owner has heard of
        self._aside = Quarantine(context.state / "malformed")

    async def run(self, born: str) -> None:
        position = await self._start(born)
        self._read_direct(await self._client.account_data(self._me, "m.direct"))
        missed = True  # the first answer brings what was said while we were away
        try:
            while True:
                position = await self._round(position, born, missed)
                missed = False
                self._rooms.live = True
        finally:
            self._rooms.live = False

    async def _start(self, born: str) -> Position:
        saved = Position.read(await self._context.cursor(CURSOR) or "")
        if saved is not None:
            return saved
        # Later numbers must be larger even when the cursor was lost: begin at the time, which passes faster than events come.
        position = Position(born, int(self._clock().timestamp() * 1000))
        answer = await self._client.sync(None, INVITES_ONLY, poll=0)
        return replace(position, invites=await self._accept(await self._readable(answer)))

    async def _round(self, position: Position, born: str, missed: bool) -> Position:
        """One sync: fetch, publish with the next position, then accept invitations."""
        try:
            answer = await self._client.sync(position.since, EVERYTHING, poll=0 if missed else POLL)
        except Rejected as refused:
            if position.since == born:
                raise NotReady(f"the homeserver refuses its own sync position: {refused}") from refused
            await self._context.missed(
                f"matrix: the homeserver does not know any more where ohmo stopped reading ({refused}); it goes on from now, "
                f"{self._clock():%Y-%m-%d %H:%M} UTC. Messages said before may be missing."
            )
            return replace(position, since=born)
        except Garbled as garbled:
            self._aside.keep(garbled.body)
            raise
        self._context.heard()
        for event in _events(answer.get("account_data")):
            if event.get("type") == "m.direct":
                self._read_direct(mapping(event.get("content")))
        arrivals, order = await self._arrivals(answer, position, missed)
        invites = tuple(dict.fromkeys((*position.invites, *await self._readable(answer))))
        following = Position(str(answer.get("next_batch", position.since)), order, invites)
        if missed or following != position:  # the very first position is worth saving, too: from now on nothing is before our time
            await self._context.publish(arrivals, following.cursor())
        if invites:
            following = replace(following, invites=await self._accept(invites))
        return following

    async def _arrivals(self, answer: Mapping[str, Any], position: Position, missed: bool) -> tuple[list[Arrival], int]:
        rooms = mapping(answer.get("rooms"))
        for room in mapping(rooms.get("leave")):
            self._rooms.forget(room)
        arrivals: list[Arrival] = []
        order = position.order
        for room, update in mapping(rooms.get("join")).items():
            events, whole = await self._timeline(room, mapping(update), position.since, missed)
            said: list[Arrival] = []
            for event in events:
                self._rooms.learn(room, event)
                order += 1
                heard = await self._arrival(room, event, f"{order:016d}")
                if heard is not None:
                    said.append(heard)
            arrivals += await self._fenced(room, said, missed=missed, whole=whole)
        return arrivals, order

    async def _timeline(self, room: str, update: Mapping[str, Any], since: str, missed: bool) -> tuple[Sequence[Event], bool]:
        """Events of a room since the last sync, oldest first, the gap of a limited timeline filled; whether they are all."""
        timeline = mapping(update.get("timeline"))
        for event in _events(update.get("state")):
            self._rooms.learn(room, event)
        events, whole = _events(timeline), True
        start = timeline.get("prev_batch")
        if timeline.get("limited") is True and isinstance(start, str) and not self._begins(events):
            self._rooms.forget(room)  # members may have come and gone in a gap that is too long to fetch
            earlier, whole = await self._gap(room, start, since, missed)
            events = earlier + events
        first = max((number for number, event in enumerate(events) if starts_here(event, self._me)), default=-1)
        return events[first + 1 :], whole

    async def _gap(self, room: str, start: str, since: str, missed: bool) -> tuple[list[Event], bool]:
        """What a limited timeline left out, oldest first: back to the last sync, our invitation, or the fence; whether it is all."""
        oldest, most = self._context.catch_up
        most = most if missed else LONGEST_GAP
        edge = (self._clock() - oldest).timestamp() * 1000
        events: list[Event] = []
        at: object = start
        while isinstance(at, str):
            try:
                page = await self._client.messages(room, at, since, IN_ROOMS)
            except Rejected as refused:
                await self._context.missed(f"matrix: the history of {room} cannot be read ({refused}); messages said there may be missing.")
                break
            chunk = [mapping(event) for event in _list(page.get("chunk"))]
            events += chunk
            at = page.get("end") if chunk else None
            said = sum(event.get("type") == "m.room.message" for event in events)
            if self._begins(chunk):
                break
            if at is not None and ((missed and _older(chunk, edge)) or said >= most):
                return events[::-1], False
        return events[::-1], True

    def _begins(self, events: Sequence[Event]) -> bool:
        return any(starts_here(event, self._me) for event in events)

    async def _fenced(self, room: str, said: list[Arrival], *, missed: bool, whole: bool) -> list[Arrival]:
        """After an absence: what ``catch_up`` lets in. Whatever is left out is counted aloud where somebody may be waiting, else to the owner."""
        oldest, most = self._context.catch_up
        kept = said
        if missed:
            young = [heard for heard in said if heard.at >= self._clock() - oldest]
            kept = young[-most:] if most else []
        names = {heard.key for heard in kept}
        left = [heard for heard in said if isinstance(heard, Inbound) and heard.key not in names]
        if left or not whole:
            waiting = not whole or any(heard.addressed for heard in left)
            address = Address("matrix", self._me, ChatId(room)) if waiting else None
            where = "here" if waiting else f"on Matrix in {room}"
            fence = (oldest, most) if missed else (oldest, LONGEST_GAP)
            text = left_out([heard.at for heard in left], fence, where=where, key="channels.matrix.catch_up", more=not whole)
            await self._context.missed(text, address)
        return kept

    async def _arrival(self, room: str, event: Event, order: str) -> Arrival | None:
        identity = event.get("event_id")
        if event.get("type") == "m.room.encrypted":
            if room not in self._told:
                await self._context.missed(f"matrix: {room} is encrypted; messages there cannot be read or answered yet.")
            self._told.add(room)
            return None
        if where := flaw(event):
            self._aside.keep(dict(event), str(identity or ""))
            log.warning("%s: an event of %s was passed over (%d so far): its %s cannot be read", self._me, room, self._aside.count, where)
        if event.get("type") not in SPOKEN or not isinstance(identity, str):
            return None
        self._remember(identity, original(event))
        if event.get("sender") == self._me:
            return None
        target = about(event)
        known = self._known.get(redacts(event)) if target is None else await self._original(room, target)
        return arrival(event, Lens(self._me, await self._room(room), order), known)

    async def _room(self, room: str) -> Room:
        try:
            return await self._rooms.get(room)
        except Rejected:  # we were removed meanwhile
            return Room(room)

    async def _original(self, room: str, target: str) -> Original | None:
        if target not in self._known:
            event = await self._client.event(room, target)
            if event is None:
                return None
            self._remember(target, original(event))
        return self._known[target]

    def _remember(self, identity: str, message: Original) -> None:
        self._known[identity] = message
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def _readable(self, answer: Mapping[str, Any]) -> list[str]:
        """Rooms we are invited to; an invitation to an encrypted room is declined with a reason the inviter sees."""
        readable: list[str] = []
        for room, state in _invites(answer).items():
            if any(event.get("type") == "m.room.encryption" for event in state):
                await self._decline(room)
            else:
                readable.append(room)
        return readable

    async def _decline(self, room: str) -> None:
        log.warning("%s: declined an invitation to %s, which is encrypted", self._me, room)
        try:
            await self._client.leave(room, NO_ENCRYPTION)
        except (NotReady, RateLimited, Rejected) as failed:
            log.warning("%s: the invitation to %s stays open: %s", self._me, room, failed)

    async def _accept(self, rooms: Sequence[str]) -> tuple[str, ...]:
        """Joins; the rooms to try again. Who may speak is the gateway's business."""
        left: list[str] = []
        for room in rooms:
            try:
                await self._client.join(room)
            except (NotReady, RateLimited) as failed:
                log.warning("%s: joining %s is tried again: %s", self._me, room, failed)
                left.append(room)
            except Rejected as refused:
                log.warning("%s: %s cannot be joined: %s", self._me, room, refused)
        return tuple(left)

    def _read_direct(self, content: Mapping[str, Any]) -> None:
        self._rooms.direct = frozenset(room for rooms in content.values() for room in _list(rooms) if isinstance(room, str))


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _events(part: object) -> list[Event]:
    return [mapping(event) for event in _list(mapping(part).get("events"))]


def _invites(answer: Mapping[str, Any]) -> dict[str, list[Event]]:
    invites = mapping(mapping(answer.get("rooms")).get("invite"))
    return {room: _events(mapping(invite).get("invite_state")) for room, invite in invites.items()}


def _older(events: Sequence[Event], edge: float) -> bool:
    """Whether the oldest of a page that goes backwards is older than ``edge`` milliseconds."""
    at: object = events[-1].get("origin_server_ts") if events else None
    return isinstance(at, int | float) and at < edge
