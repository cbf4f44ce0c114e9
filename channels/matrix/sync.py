"""What arrives: our own sync loop, whose position is saved together with the events it brought, and
after the keys it brought.

Source: Matrix Client-Server API, "Syncing", "End-to-end encryption" (extensions to ``/sync``),
"Receipts", "Fully read markers"."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from dataclasses import replace

from channels.catch_up import left_out
from channels.contract import Address, Arrival, ChannelContext, ChatId, Clock, Cursor, Inbound
from channels.errors import ChannelError, NotReady, RateLimited, Rejected
from channels.matrix.account import TYPE as DOUBLES
from channels.matrix.account import Doubles
from channels.matrix.client import MatrixClient
from channels.matrix.inbound import (
    SPOKEN,
    Event,
    Object,
    Original,
    Room,
    Unreadable,
    View,
    about,
    arrival_of,
    events_of,
    flaw,
    list_of,
    mapping,
    object_of,
    original,
    redacts,
)
from channels.matrix.rooms import LONGEST_GAP, TYPES, History, Invitations, Rooms
from channels.payloads import Body, Garbled, Quarantine
from channels.record import Recent, record
from channels.text import wall

log = logging.getLogger("channels.matrix")

CURSOR = "sync"
REMEMBERED = 5_000  # events whose author, words and thread are kept in memory
SAVED_EVERY = 10.0  # seconds between two positions that bring nothing to store
RECEIPTS = 5.0  # seconds for telling the homeserver what was read
# of one sync, and of what has to be asked to understand it, before the connection counts as lost
TRIES = 3
NOTHING: Body = {"types": []}
STATE = ["m.room.member", "m.room.encryption", "m.room.history_visibility"]
EVERYTHING = json.dumps(
    {
        "presence": NOTHING,
        "account_data": {"types": ["m.direct", DOUBLES]},
        "room": {
            "timeline": {"types": TYPES, "limit": 50},
            "state": {"types": STATE, "lazy_load_members": True},
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
        "room": {
            "timeline": {"types": [], "limit": 1},
            "state": NOTHING,
            "ephemeral": NOTHING,
            "account_data": NOTHING,
        },
    }
)


@record
class Position:
    """Where to go on. ``order``: how many events were numbered so far; ``invites``: rooms we still
    have to join."""

    since: str
    order: int
    invites: tuple[str, ...] = ()

    def cursor(self) -> Cursor:
        saved = {"since": self.since, "order": self.order, "invites": self.invites}
        return Cursor(CURSOR, json.dumps(saved))

    @classmethod
    def read(cls, value: str) -> Position | None:
        try:
            saved = json.loads(value)
            return cls(str(saved["since"]), int(saved["order"]), tuple(saved["invites"]))
        except (ValueError, KeyError, TypeError):
            return None


class Listening:
    """One ``receive``: from the saved position, or the very first time from ``born``, the answer of
    the sync made when we connected."""

    def __init__(
        self,
        client: MatrixClient,
        rooms: Rooms,
        invitations: Invitations,
        me: str,
        context: ChannelContext,
        doubles: Doubles,
        clock: Clock,
    ) -> None:
        self._doubles = doubles
        self._client = client
        self._rooms = rooms
        self._invitations = invitations
        self._me = me
        self._context = context
        self._clock = clock
        self._history = History(client, rooms, me, context, clock)
        self._known = Recent[str, Original](REMEMBERED)
        self._followed: list[str] = []  # rooms that replaced others
        self._unreadable = Quarantine(context.state / "malformed", me)
        self._position: Position = Position("", 0)
        self._saved: Position = Position("", 0)
        self._saved_at = 0.0  # monotonic
        self._missed = True  # the first answer brings what was said while we were away
        self._markers: dict[str, str] = {}  # the newest message of a room that was stored
        self._marked = asyncio.Event()

    async def run(self, born: Object) -> None:
        self._position = await self._start(born)
        self._read_direct(await self._client.account_data(self._me, "m.direct"))
        await self._doubles.leave_word()
        beside = [
            asyncio.create_task(self._mark_read(), name="matrix read markers"),
            asyncio.create_task(self._doubles.run(), name="matrix doubles"),
        ]
        pace = self._client.pace
        failed = 0
        answered = time.monotonic()
        try:
            while True:
                try:
                    await self._round(born, poll=0 if self._missed or failed else pace.poll)
                except (NotReady, RateLimited) as failure:
                    failed += 1
                    silent = time.monotonic() - answered
                    mute = isinstance(failure, NotReady) and silent >= pace.poll + 2 * pace.slack
                    if failed == TRIES or mute:
                        raise
                    log.info("%s: a sync is tried again: %s", self._me, failure)
                    # Drawn from the whole of a range that doubles, so that many clients do not come
                    # back at once; a wait that was asked for comes first.
                    pause = random.uniform(0, pace.soon * 2 ** (failed - 1))  # noqa: S311
                    if isinstance(failure, RateLimited):
                        pause += failure.retry_after
                    await asyncio.sleep(pause)
                else:
                    failed = 0
                    answered = time.monotonic()
                    self._rooms.live = True
                for task in beside:
                    if task.done():  # both go on for ever
                        task.result()
        finally:
            self._rooms.live = False
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    async def _start(self, born: Object) -> Position:
        saved = Position.read(await self._context.cursor(CURSOR) or "")
        if saved is not None:
            return saved
        # Later numbers must be larger even when the cursor was lost: begin at the time, which
        # passes faster than events come.
        position = await self._begin(born, Position("", int(self._clock().timestamp() * 1000)))
        patience = self._client.pace.catch_up
        answer = await self._client.sync(None, INVITES_ONLY, poll=0, patience=patience)
        invites = await self._invitations.accept(await self._invitations.wanted(answer))
        return replace(position, invites=invites)

    async def _begin(self, born: Object, position: Position) -> Position:
        """From the moment we connected. The next sync makes the homeserver forget the keys this
        answer brought: they are kept first. What it says of our stock of keys is long out of
        date."""
        encryption = self._rooms.encryption
        if encryption is not None:
            news = await encryption.hear("", {"to_device": born.get("to_device")})
            await encryption.tend(news)
        return replace(position, since=str(born["next_batch"]))

    async def _round(self, born: Object, *, poll: float) -> None:
        """One sync: fetch, keep its keys, publish with the next position, then send what has to be
        sent because of it. Until it is published it can be asked for again, as a new life would."""
        answer = await self._fetch(born, poll)
        if answer is None:
            return
        position = self._position
        for event in events_of(answer.get("account_data")):
            if event.get("type") == "m.direct":
                self._read_direct(object_of(event, "content"))
            elif event.get("type") == DOUBLES:
                self._doubles.heard(object_of(event, "content"))
        # The keys, and what they open of earlier events.
        encryption = self._rooms.encryption
        news = None
        if encryption is not None:
            news = await encryption.hear(position.since, answer)
        sessions = None if self._missed or news is None else news.sessions
        opened, done = await self._history.opened_later(sessions, self._arrival)
        # What was said.
        arrivals, order = await self._arrivals(answer)
        new = await self._invitations.wanted(answer)
        invites = tuple(dict.fromkeys((*position.invites, *new, *self._followed)))
        self._followed.clear()
        since = str(answer.get("next_batch", position.since))
        following = Position(since, order, invites)
        # The very first position is worth saving, too: from now on nothing is before our time. What
        # brought no arrival, like our own words, may be heard twice, if no keys came along.
        now = time.monotonic()
        at_once = bool(arrivals) or encryption is not None or invites != self._saved.invites
        changed = following != self._saved and (at_once or now - self._saved_at >= SAVED_EVERY)
        if self._missed or opened or changed:
            await self._context.publish([*opened, *arrivals], following.cursor())
            self._saved = following
            self._saved_at = now
        self._position = following
        self._missed = False
        # After the commit people see that their words arrived. Nothing depends on it, so nothing
        # waits for it.
        for arrival in arrivals:
            if isinstance(arrival, Inbound):
                self._markers[str(arrival.address.chat)] = str(arrival.message)
        if self._markers:
            self._marked.set()
        if encryption is not None and news is not None:
            await encryption.step(encryption.undecrypted.done, done)
            await encryption.tend(news)
            await self._history.tell_overdue()
        if invites:
            remaining = await self._invitations.accept(invites)
            self._position = replace(following, invites=remaining)

    async def _fetch(self, born: Object, poll: float) -> Object | None:
        """None: the homeserver does not know our position any more; it begins anew."""
        position = self._position
        patience = self._client.pace.catch_up if self._missed else None
        try:
            answer = await self._client.sync(
                position.since, EVERYTHING, poll=poll, patience=patience
            )
        except Rejected as refused:
            if position.since == born["next_batch"]:
                why = f"the homeserver refuses its own sync position: {refused}"
                raise NotReady(why) from refused
            if self._rooms.encryption is not None:
                await self._rooms.encryption.position_lost()
            await self._context.missed(
                "matrix: the homeserver does not know any more where ohmo stopped reading"
                f" ({refused}); it goes on from now, {wall(self._clock(), self._context.zone)}."
                " Messages said before may be missing."
            )
            self._position = await self._begin(born, position)
            return None
        except Garbled as garbled:
            self._unreadable.keep(garbled.body)
            raise
        self._context.heard()
        return answer

    async def _arrivals(self, answer: Object) -> tuple[list[Arrival], int]:
        """What was said in all rooms, and how many events are numbered now."""
        rooms = object_of(answer, "rooms")
        for room in object_of(rooms, "leave"):
            self._rooms.forget(room)
        arrivals: list[Arrival] = []
        order = self._position.order
        since = self._position.since
        for room, update in object_of(rooms, "join").items():
            changes = mapping(update)
            for event in events_of(changes.get("state")):
                await self._rooms.learn(room, event)
            timeline = object_of(changes, "timeline")
            events, whole = await self._history.timeline(room, timeline, since, self._missed)
            of_room: list[Arrival] = []
            for event in events:
                await self._rooms.learn(room, event)
                order += 1
                number = f"{order:016d}"
                readable: Event | None = event
                if event.get("type") == "m.room.encrypted":
                    readable = await self._history.decrypted(room, event, number)
                elif event.get("type") == "m.room.tombstone":
                    new = self._invitations.follow(event)
                    if new is not None:
                        self._followed.append(new)
                        await self._context.missed(
                            f"matrix: the room {room} was replaced by {new}; ohmo goes there."
                            " Where channels.matrix.allow.groups names the old room, add the new"
                            " one."
                        )
                if readable is not None:
                    arrival = await self._arrival(room, readable, number)
                    of_room += [arrival] if arrival is not None else []
            arrivals += await self._fenced(room, of_room, whole=whole)
        return arrivals, order

    async def _fenced(self, room: str, arrivals: list[Arrival], *, whole: bool) -> list[Arrival]:
        """After an absence: what ``catch_up`` lets in. Whatever is left out is counted aloud where
        somebody may be waiting, else to the owner."""
        oldest, most = self._context.catch_up
        let_in = arrivals
        if self._missed:
            young = [arrival for arrival in arrivals if arrival.at >= self._clock() - oldest]
            let_in = young[-most:] if most else []
        keys = {arrival.key for arrival in let_in}
        others = [arrival for arrival in arrivals if arrival.key not in keys]
        left = [message for message in others if isinstance(message, Inbound)]
        if left or not whole:
            waiting = not whole or any(message.addressed for message in left)
            address = Address("matrix", self._me, ChatId(room)) if waiting else None
            where = "here" if waiting else f"on Matrix in {room}"
            text = left_out(
                [message.at for message in left],
                (oldest, most if self._missed else LONGEST_GAP),
                zone=self._context.zone,
                where=where,
                key="channels.matrix.catch_up",
                more=not whole,
            )
            await self._context.missed(text, address)
        return let_in

    async def _arrival(self, room: str, event: Event, order: str) -> Arrival | None:
        identity = event.get("event_id")
        unreadable = flaw(event)
        if unreadable:
            what = f"an event of {room}: its {unreadable} cannot be read"
            self._unreadable.pass_over(what, dict(event), str(identity or ""))
        if event.get("type") not in SPOKEN or not isinstance(identity, str):
            return None
        self._known[identity] = original(event)
        if event.get("sender") == self._me:
            return None
        target = about(event)
        if target is None:
            related = self._known.get(redacts(event))
        else:
            related = await self._original(room, target)
        try:
            state = await self._rooms.get(room)
        except Rejected:  # we were removed meanwhile
            state = Room(room)
        return arrival_of(event, View(self._me, state, order), related)

    async def _original(self, room: str, target: str) -> Original | None:
        if target not in self._known:
            event: Event | None = await self._client.event(room, target)
            encryption = self._rooms.encryption
            encrypted = event is not None and event.get("type") == "m.room.encrypted"
            if event is not None and encrypted and encryption is not None:
                opened = await encryption.read(room, event)
                # Bundled edits are encrypted, too.
                event = None if isinstance(opened, Unreadable) else {**opened, "unsigned": {}}
            if event is None:
                return None
            self._known[target] = original(event)
        return self._known[target]

    async def _mark_read(self) -> None:
        while True:
            await self._marked.wait()
            self._marked.clear()
            newest = self._markers
            self._markers = {}
            try:
                async with asyncio.timeout(RECEIPTS):
                    marks = [self._client.has_read(room, mark) for room, mark in newest.items()]
                    await asyncio.gather(*marks)
            except (ChannelError, TimeoutError) as failed:
                log.info("%s: a read marker was not moved: %s", self._me, failed)

    def _read_direct(self, content: Object) -> None:
        self._rooms.direct = frozenset(
            room for rooms in content.values() for room in list_of(rooms) if isinstance(room, str)
        )
