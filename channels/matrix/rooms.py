"""What is known about rooms: who is there, and whether anything said there has to be encrypted; and
which the bot goes into: invitations of people who may invite it, and rooms that replace one it was
in.

Source: Matrix Client-Server API, "Room events", "Room membership" (stripped state of invitations),
"Room upgrades" (``m.room.tombstone``), "m.room.encryption", "m.room.history_visibility"."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from channels.contract import Address, ChatId, Person, PersonId
from channels.errors import NotReady, RateLimited, Rejected
from channels.matrix.client import MatrixClient
from channels.matrix.inbound import Event, Room, list_of, localpart, mapping

if TYPE_CHECKING:  # at run time only where encryption is on
    from channels.matrix.encryption import Encryption

log = logging.getLogger("channels.matrix")

Json = dict[str, Any]
Invited = Callable[[Address, Person, bool], bool]
NO_ENCRYPTION = (
    "I cannot read encrypted rooms yet: my owner has to set channels.matrix.encryption to true."
    " Please invite me to a room without."
)
UNKNOWN = (
    "I only come when somebody I know invites me, or to rooms my owner has named. Ask my owner to"
    " allow you."
)
MEMBERSHIP = {"m.room.member", "m.room.history_visibility"}


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
        known = self._rooms.get(room)
        if known is None or not known.members:
            members = await self._client.joined_members(room)
            known = self._rooms.setdefault(room, Room(room))
            for user, profile in members.items():
                name = mapping(profile).get("display_name")
                known.members[user] = name if isinstance(name, str) and name else localpart(user)
        known.direct = room in self.direct
        return known

    async def rules(self, room: str) -> Json | None:
        """The room's encryption; None: it has none at this moment. Asked anew each time while that
        is so, because nothing may ever be sent plain into an encrypted room; once encrypted, a room
        stays so, whatever the homeserver says later."""
        known = self._rooms.setdefault(room, Room(room))
        if known.encryption is None and self.encryption is not None:
            known.encryption = await self.encryption.rules(room)
        if known.encryption is None:
            content = await self._client.state(room, "m.room.encryption")
            if content is not None:
                await self._encrypted(room, content)
        return known.encryption

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

    async def seal(self, room: str, kind: str, content: Json) -> tuple[str, Json]:
        """Type and content as they may be sent: encrypted where the room is. Raises ChannelError,
        and nothing may be sent."""
        lock = await self.lock(room)
        if lock is None:
            return kind, content
        readers = await self._who_reads(room)
        rules = await self.rules(room) or {}
        return "m.room.encrypted", await lock.encrypt(room, kind, content, readers, rules)

    async def learn(self, room: str, event: Event) -> None:
        """Members count only once all are known."""
        known = self._rooms.setdefault(room, Room(room))
        if event.get("type") in MEMBERSHIP:
            self._recipients.pop(room, None)
        if event.get("type") == "m.room.encryption" and event.get("state_key") == "":
            await self._encrypted(room, dict(mapping(event.get("content"))))
        elif known.members:
            known.learn(event)

    def forget(self, room: str) -> None:
        self._recipients.pop(room, None)
        gone = self._rooms.pop(room, None)
        if gone is not None and gone.encryption is not None:
            self._rooms[room] = Room(room, encryption=gone.encryption)

    async def successor(self, room: str) -> str | None:
        """The room that replaced this one. Raises ChannelError."""
        tombstone = await self._client.state(room, "m.room.tombstone")
        new: object = mapping(tombstone).get("replacement_room")
        return new if isinstance(new, str) and new.startswith("!") else None

    async def _encrypted(self, room: str, rules: Json) -> None:
        known = self._rooms.setdefault(room, Room(room))
        if self.encryption is not None:
            await self.encryption.learn_rules(room, rules)
            known.encryption = await self.encryption.rules(room)
        elif known.encryption is None:
            known.encryption = json.loads(json.dumps(rules))

    async def _who_reads(self, room: str) -> frozenset[str]:
        """Everybody in the room, and the invited where its history is theirs to read. Asked anew
        while no sync tells us of changes."""
        if not self.live or room not in self._recipients:
            state = mapping(await self._client.state(room, "m.room.history_visibility"))
            joined = state.get("history_visibility") == "joined"
            counted = {"join"} if joined else {"join", "invite"}
            events = await self._client.members(room)
            self._recipients[room] = frozenset(
                str(event.get("state_key"))
                for event in events
                if mapping(event.get("content")).get("membership") in counted
            )
        return self._recipients[room]


class Welcome:
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

    async def wanted(self, answer: Mapping[str, Any]) -> list[str]:
        """Rooms of a sync to go into; the other invitations are declined with a reason the inviter
        sees."""
        rooms: list[str] = []
        for room, invite in mapping(mapping(answer.get("rooms")).get("invite")).items():
            events: object = mapping(mapping(invite).get("invite_state")).get("events")
            state = [mapping(event) for event in list_of(events)]
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
        new: object = mapping(event.get("content")).get("replacement_room")
        if event.get("state_key") != "" or not isinstance(new, str) or not new.startswith("!"):
            return None
        self._through[new] = str(event.get("sender", "")).partition(":")[2]
        return new

    async def accept(self, rooms: Sequence[str]) -> tuple[str, ...]:
        """Joins; the rooms to try again. Who may speak there is the gateway's business."""
        left: list[str] = []
        for room in rooms:
            try:
                await self._client.join(room, self._through.get(room) or room.partition(":")[2])
            except (NotReady, RateLimited) as failed:
                log.warning("%s: joining %s is tried again: %s", self._me, room, failed)
                left.append(room)
            except Rejected as refused:
                log.warning("%s: %s cannot be joined: %s", self._me, room, refused)
        return tuple(left)

    def _may_invite(self, room: str, state: Sequence[Event]) -> bool:
        """Whether whoever invited us may."""
        if self._invited is None:
            return True
        for event in state:
            if event.get("type") != "m.room.member" or event.get("state_key") != self._me:
                continue
            sender: object = event.get("sender")
            if not isinstance(sender, str):
                return False
            direct = mapping(event.get("content")).get("is_direct") is True
            person = Person(PersonId(sender), localpart(sender))
            return self._invited(Address("matrix", self._me, ChatId(room)), person, direct)
        return False

    async def _replaces(self, room: str, state: Sequence[Event]) -> bool:
        """Whether the room follows one we are in, and that one says so, too."""
        created = [
            mapping(event.get("content")) for event in state if event.get("type") == "m.room.create"
        ]
        old: object = mapping(created[0].get("predecessor")).get("room_id") if created else None
        try:
            return isinstance(old, str) and await self._rooms.successor(old) == room
        except Rejected:  # we are not in it
            return False

    async def _decline(self, room: str, why: str) -> None:
        log.warning("%s: declined an invitation to %s: %s", self._me, room, why)
        try:
            await self._client.leave(room, why)
        except (NotReady, RateLimited, Rejected) as failed:
            log.warning("%s: the invitation to %s stays open: %s", self._me, room, failed)
