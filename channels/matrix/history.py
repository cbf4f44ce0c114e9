"""What was said while nobody listened: gaps in a timeline, filled as far as ``catch_up`` allows;
what is left out is counted aloud.

Source: Matrix Client-Server API, "Syncing" (``limited`` timelines and their gaps)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, cast

from channels.catch_up import left_out
from channels.contract import Address, Arrival, ChannelContext, ChatId, Inbound
from channels.errors import Rejected
from channels.matrix.client import MatrixClient
from channels.matrix.inbound import Event, mapping, starts_here

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
IN_ROOMS = json.dumps({"types": TYPES, "lazy_load_members": True})


class History:
    """``clock`` gives UTC."""

    def __init__(
        self, client: MatrixClient, me: str, context: ChannelContext, clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._me = me
        self._context = context
        self._clock = clock

    async def gap(
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
            said = sum(
                event.get("type") in {"m.room.message", "m.room.encrypted"} for event in events
            )
            if self.begins(chunk):
                break
            if at is not None and ((missed and _older(chunk, edge)) or said >= most):
                return events[::-1], False
        return events[::-1], True

    def begins(self, events: Sequence[Event]) -> bool:
        return any(starts_here(event, self._me) for event in events)

    async def fenced(
        self, room: str, said: list[Arrival], *, missed: bool, whole: bool
    ) -> list[Arrival]:
        """After an absence: what ``catch_up`` lets in. Whatever is left out is counted aloud where
        somebody may be waiting, else to the owner."""
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
            times, zone = [heard.at for heard in left], self._context.zone
            text = left_out(
                times, fence, zone=zone, where=where, key="channels.matrix.catch_up", more=not whole
            )
            await self._context.missed(text, address)
        return kept


def list_of(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _older(events: Sequence[Event], edge: float) -> bool:
    """Whether the oldest of a page that goes backwards is older than ``edge`` milliseconds."""
    at: object = events[-1].get("origin_server_ts") if events else None
    return isinstance(at, int | float) and at < edge
