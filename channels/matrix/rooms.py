"""What is known about rooms: who is there, and whether anything said there has to be encrypted;
which the bot goes into; and what was said there while nobody listened, or cannot be read at once.

Source: Matrix Client-Server API, "Room events", "Room membership" (stripped state of invitations),
"Room upgrades" (``m.room.tombstone``), "m.room.encryption", "m.room.history_visibility", "Syncing"
(``limited`` timelines and their gaps), "End-to-end encryption" (extensions to ``/sync``)."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from channels.contract import Address, Arrival, ChannelContext, ChatId, Clock, Person, PersonId
from channels.errors import NotReady, RateLimited, Rejected
from channels.matrix.client import MatrixClient
from channels.matrix.inbound import (
    Event,
    Object,
    Room,
    Unreadable,
    events_of,
    list_of,
    localpart,
    mapping,
    object_of,
    starts_here,
    text_of,
)
from channels.payloads import Body
from channels.text import wall

if TYPE_CHECKING:  # at run time only where encryption is on
    from channels.matrix.encryption import Encryption

log = logging.getLogger("channels.matrix")

Invited = Callable[[Address, Person, bool], bool]
ArrivalOf = Callable[[str, Event, str], Awaitable[Arrival | None]]
NO_ENCRYPTION = (
    "I cannot read encrypted rooms yet: my owner has to set channels.matrix.encryption to true."
    " Please invite me to a room without."
)
UNKNOWN = (
    "I only come when somebody I know invites me, or to rooms my owner has named. Ask my owner to"
    " allow you."
)
MEMBERSHIP = {"m.room.member", "m.room.history_visibility"}
MESSAGES = {"m.room.message", "m.room.encrypted"}
OTHERS = {"m.reaction", "m.room.redaction", "m.room.encryption", "m.room.tombstone"}
TYPES = sorted(MEMBERSHIP | MESSAGES | OTHERS)
IN_ROOMS = json.dumps({"types": TYPES, "lazy_load_members": True})
LONGEST_GAP = 10_000  # events of one room fetched for one gap; more than that is no chat any more


class Rooms:
    """Asked of the homeserver once, then kept up to date by the sync. ``encryption`` None: nothing
    is sent into encrypted rooms."""

    def __init__(self, client: MatrixClient, encryption: Encryption | None = None) -> None:
        self.live = False  # the sync is running, so that what is known is also true
        self.direct: frozenset[str] = frozenset()
        self.encryption = encryption
        self._client = client
        self._rooms: dict[str, Room] = {}
        self._recipients: dict[str, frozenset[str]] = {}

    async def get(self, room: str) -> Room:
        result = self._rooms.get(room)
        if result is None or not result.members:
            members = await self._client.joined_members(room)
            result = self._rooms.setdefault(room, Room(room))
            for user, profile in members.items():
                result.members[user] = text_of(mapping(profile), "display_name") or localpart(user)
        result.direct = room in self.direct
        return result

    async def rules(self, room: str) -> Body | None:
        """The room's encryption; None: it has none at this moment. Asked anew each time while that
        is so, because nothing may ever be sent plain into an encrypted room; once encrypted, a room
        stays so, whatever the homeserver says later."""
        state = self._rooms.setdefault(room, Room(room))
        if state.encryption is None and self.encryption is not None:
            state.encryption = await self.encryption.rules(room)
        if state.encryption is None:
            content = await self._client.state(room, "m.room.encryption")
            if content is not None:
                await self._encrypted(room, content)
        return state.encryption

    async def lock(self, room: str) -> Encryption | None:
        """What has to encrypt everything that is sent there; None: nothing has to. Raises Rejected:
        it would have to, and is not on."""
        if await self.rules(room) is None:
            return None
        if self.encryption is None:
            raise Rejected(
                f"matrix: {room} is encrypted, and nothing is sent there in plain text; set"
                " channels.matrix.encryption: true"
            )
        return self.encryption

    async def seal(self, room: str, kind: str, content: Body) -> tuple[str, Body]:
        """Type and content as they may be sent: encrypted where the room is. Raises ChannelError,
        and nothing may be sent."""
        lock = await self.lock(room)
        if lock is None:
            return kind, content
        # Asked anew while no sync tells us of changes.
        if not self.live or room not in self._recipients:
            visibility = mapping(await self._client.state(room, "m.room.history_visibility"))
            # The invited read along where its history is theirs.
            joined = visibility.get("history_visibility") == "joined"
            counted = {"join"} if joined else {"join", "invite"}
            self._recipients[room] = frozenset(
                str(event.get("state_key"))
                for event in await self._client.members(room)
                if object_of(event, "content").get("membership") in counted
            )
        rules = await self.rules(room) or {}
        readers = self._recipients[room]
        return "m.room.encrypted", await lock.encrypt(room, kind, content, readers, rules)

    async def learn(self, room: str, event: Event) -> None:
        """Members count only once all are known."""
        state = self._rooms.setdefault(room, Room(room))
        if event.get("type") in MEMBERSHIP:
            self._recipients.pop(room, None)
        if event.get("type") == "m.room.encryption" and event.get("state_key") == "":
            await self._encrypted(room, dict(object_of(event, "content")))
        elif state.members:
            state.learn(event)

    def forget(self, room: str) -> None:
        self._recipients.pop(room, None)
        gone = self._rooms.pop(room, None)
        if gone is not None and gone.encryption is not None:
            self._rooms[room] = Room(room, encryption=gone.encryption)

    async def successor(self, room: str) -> str | None:
        """The room that replaced this one. Raises ChannelError."""
        tombstone = mapping(await self._client.state(room, "m.room.tombstone"))
        new = text_of(tombstone, "replacement_room")
        return new if new.startswith("!") else None

    async def _encrypted(self, room: str, rules: Body) -> None:
        state = self._rooms.setdefault(room, Room(room))
        if self.encryption is not None:
            await self.encryption.learn_rules(room, rules)
            state.encryption = await self.encryption.rules(room)
        elif state.encryption is None:
            state.encryption = json.loads(json.dumps(rules))


class Invitations:
    """``invited`` tells whether this person may bring us into this room (True: one-to-one); None:
    everybody may."""

    def __init__(
        self, client: MatrixClient, rooms: Rooms, me: str, invited: Invited | None
    ) -> None:
        self._client = client
        self._rooms = rooms
        self._me = me
        self._invited = invited
        self._through: dict[str, str] = {}  # homeservers that know a room we were sent to

    async def wanted(self, answer: Object) -> list[str]:
        """Rooms of a sync to go into; the other invitations are declined with a reason the inviter
        sees."""
        rooms: list[str] = []
        for room, invite in object_of(object_of(answer, "rooms"), "invite").items():
            state = events_of(mapping(invite).get("invite_state"))
            encrypted = any(event.get("type") == "m.room.encryption" for event in state)
            if encrypted and self._rooms.encryption is None:
                await self._decline(room, NO_ENCRYPTION)
            elif self._may_invite(room, state) or await self._replaces(room, state):
                rooms.append(room)
            else:
                await self._decline(room, UNKNOWN)
        return rooms

    def follow(self, event: Event) -> str | None:
        """The room a tombstone points to."""
        new = text_of(object_of(event, "content"), "replacement_room")
        if event.get("state_key") != "" or not new.startswith("!"):
            return None
        self._through[new] = str(event.get("sender", "")).partition(":")[2]
        return new

    async def accept(self, rooms: Sequence[str]) -> tuple[str, ...]:
        """Joins; the rooms to try again. Who may speak there is the gateway's business."""
        remaining: list[str] = []
        for room in rooms:
            server = self._through.get(room) or room.partition(":")[2]
            try:
                await self._client.join(room, server)
            except (NotReady, RateLimited) as failed:
                log.warning("%s: joining %s is tried again: %s", self._me, room, failed)
                remaining.append(room)
            except Rejected as refused:
                log.warning("%s: %s cannot be joined: %s", self._me, room, refused)
        return tuple(remaining)

    def _may_invite(self, room: str, state: Sequence[Event]) -> bool:
        """Whether whoever invited us may."""
        if self._invited is None:
            return True
        for event in state:
            if event.get("type") != "m.room.member" or event.get("state_key") != self._me:
                continue
            sender = event.get("sender")
            if not isinstance(sender, str):
                return False
            direct = object_of(event, "content").get("is_direct") is True
            person = Person(PersonId(sender), localpart(sender))
            return self._invited(Address("matrix", self._me, ChatId(room)), person, direct)
        return False

    async def _replaces(self, room: str, state: Sequence[Event]) -> bool:
        """Whether the room follows one we are in, and that one says so, too."""
        for event in state:
            if event.get("type") == "m.room.create":
                predecessor = object_of(object_of(event, "content"), "predecessor")
                old = predecessor.get("room_id")
                try:
                    return isinstance(old, str) and await self._rooms.successor(old) == room
                except Rejected:  # we are not in it
                    return False
        return False

    async def _decline(self, room: str, why: str) -> None:
        log.warning("%s: declined an invitation to %s: %s", self._me, room, why)
        try:
            await self._client.leave(room, why)
        except (NotReady, RateLimited, Rejected) as failed:
            log.warning("%s: the invitation to %s stays open: %s", self._me, room, failed)


class History:
    """Of one ``receive``: gaps in a timeline, filled as far as ``catch_up`` allows; encrypted
    events, read when their key comes or told of when it does not. ``clock`` gives UTC."""

    def __init__(
        self, client: MatrixClient, rooms: Rooms, me: str, context: ChannelContext, clock: Clock
    ) -> None:
        self._client = client
        self._rooms = rooms
        self._me = me
        self._context = context
        self._clock = clock
        self._told: set[str] = set()  # encrypted rooms the owner has heard of

    async def timeline(
        self, room: str, timeline: Object, since: str, missed: bool
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
            at = page.get("end")
            if not chunk or at is None or self._begins(chunk):
                break
            messages = sum(event.get("type") in MESSAGES for event in events)
            oldest_at: object = chunk[-1].get("origin_server_ts")  # pages go backwards
            too_old = isinstance(oldest_at, int | float) and oldest_at < edge
            if messages >= (most if missed else LONGEST_GAP) or (missed and too_old):
                return events[::-1], False
        return events[::-1], True

    def _begins(self, events: Sequence[Event]) -> bool:
        """Whether our part in the room does."""
        return any(starts_here(event, self._me) for event in events)

    async def decrypted(self, room: str, event: Event, order: str) -> Event | None:
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

    async def opened_later(
        self, sessions: set[str] | None, arrival_of: ArrivalOf
    ) -> tuple[list[Arrival], list[str]]:
        """What was said earlier and can be read now, in that order, and which events wait no
        longer. ``sessions``: whose keys came; None: all are tried. ``arrival_of``: reads a room's
        event under the number it was kept with."""
        arrivals: list[Arrival] = []
        done: list[str] = []
        encryption = self._rooms.encryption
        if encryption is None or sessions == set():
            return arrivals, done
        for waiting in await encryption.step(encryption.undecrypted.ready, sessions):
            room = waiting.room
            event = mapping(json.loads(waiting.body))
            result = await encryption.read(room, event)
            if not isinstance(result, Unreadable):
                done.append(waiting.event)
                arrival = await arrival_of(room, result, waiting.place)
                if arrival is not None:
                    arrivals.append(arrival)
            elif result.session:
                key = _sender_key(event)
                await encryption.ask_for(room, waiting.session, waiting.sender, key)
            else:
                done.append(waiting.event)
                at = event.get("origin_server_ts")
                await self._tell(room, waiting.sender, at, result.why)
        return arrivals, done

    async def tell_overdue(self) -> None:
        """Of events whose key did not come in time."""
        encryption = self._rooms.encryption
        assert encryption is not None, "only encrypted words wait"
        for waiting, withheld in await encryption.step(encryption.undecrypted.overdue):
            why = "its key has not reached me, and the sender's devices did not send it when asked"
            if withheld:
                why = f"its key was withheld: {withheld}"
            at = json.loads(waiting.body).get("origin_server_ts")
            await self._tell(waiting.room, waiting.sender, at, why)

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
    return str(object_of(event, "content").get("sender_key", ""))
