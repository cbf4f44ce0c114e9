"""Which rooms the bot goes into: invitations of people who may invite it, and rooms that replace
one it was in.

Source: Matrix Client-Server API, "Room membership" (stripped state of invitations), "Room upgrades"
(``m.room.tombstone``)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from channels.contract import Address, ChatId, Person, PersonId
from channels.errors import NotReady, RateLimited, Rejected
from channels.matrix.client import MatrixClient
from channels.matrix.history import list_of
from channels.matrix.inbound import Event, localpart, mapping
from channels.matrix.rooms import Rooms

log = logging.getLogger("channels.matrix")

Invited = Callable[[Address, Person, bool], bool]
NO_ENCRYPTION = (
    "I cannot read encrypted rooms yet: my owner has to set channels.matrix.encryption to true."
    " Please invite me to a room without."
)
NOBODY: Event = {}
UNKNOWN = (
    "I only come when somebody I know invites me, or to rooms my owner has named. Ask my owner to"
    " allow you."
)


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
        wanted: list[str] = []
        for room, state in _invites(answer).items():
            if self._rooms.encryption is None and any(
                event.get("type") == "m.room.encryption" for event in state
            ):
                await self._decline(room, NO_ENCRYPTION)
            elif self._welcome(room, state) or await self._replaces(room, state):
                wanted.append(room)
            else:
                await self._decline(room, UNKNOWN)
        return wanted

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

    def _welcome(self, room: str, state: Sequence[Event]) -> bool:
        if self._invited is None:
            return True
        mine: Event = next(
            (
                event
                for event in state
                if event.get("type") == "m.room.member" and event.get("state_key") == self._me
            ),
            NOBODY,
        )
        sender: object = mine.get("sender")
        if not isinstance(sender, str):
            return False
        direct = mapping(mine.get("content")).get("is_direct") is True
        return self._invited(
            Address("matrix", self._me, ChatId(room)),
            Person(PersonId(sender), localpart(sender)),
            direct,
        )

    async def _replaces(self, room: str, state: Sequence[Event]) -> bool:
        """Whether the room follows one we are in, and that one says so, too."""
        create: Event = next(
            (
                mapping(event.get("content"))
                for event in state
                if event.get("type") == "m.room.create"
            ),
            NOBODY,
        )
        old: object = mapping(create.get("predecessor")).get("room_id")
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


def _invites(answer: Mapping[str, Any]) -> dict[str, list[Event]]:
    invites = mapping(mapping(answer.get("rooms")).get("invite"))
    found: dict[str, list[Event]] = {}
    for room, invite in invites.items():
        events: object = mapping(mapping(invite).get("invite_state")).get("events")
        found[room] = [mapping(event) for event in list_of(events)]
    return found
