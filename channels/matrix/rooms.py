"""What is known about rooms: who is there, and whether anything said there has to be encrypted.

Source: Matrix Client-Server API, "Room events", "m.room.encryption", "m.room.history_visibility",
"m.room.tombstone"."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from channels.errors import Rejected
from channels.matrix.client import MatrixClient
from channels.matrix.inbound import Event, Room, localpart, mapping

if TYPE_CHECKING:  # at run time only where encryption is on
    from channels.matrix.encryption import Encryption

Json = dict[str, Any]
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
            found = await self._client.state(room, "m.room.encryption")
            if found is not None:
                await self._encrypted(room, found)
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
        return "m.room.encrypted", await lock.encrypt(
            room, kind, content, await self._who_reads(room), await self.rules(room) or {}
        )

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
            visibility = mapping(await self._client.state(room, "m.room.history_visibility")).get(
                "history_visibility"
            )
            counted = {"join"} if visibility == "joined" else {"join", "invite"}
            events = await self._client.members(room)
            self._recipients[room] = frozenset(
                str(event.get("state_key"))
                for event in events
                if mapping(event.get("content")).get("membership") in counted
            )
        return self._recipients[room]
