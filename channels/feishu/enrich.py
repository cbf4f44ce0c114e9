"""What an event leaves out and one more question tells: the message somebody answers to, forwarded
messages, the chat of a reaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from channels.errors import AuthFailed, ChannelError
from channels.feishu import inbound
from channels.feishu.fields import word
from channels.feishu.history import History
from channels.feishu.inbound import Place, Spoken, spoken_row
from channels.feishu.memory import PATIENCE, Own
from channels.payloads import Body, Malformed, soft
from channels.record import Recent

_log = logging.getLogger(__name__)
KEPT = 500
QUOTE = 2000  # characters of a quoted message
INSIDE = 20_000  # characters of forwarded messages
FORWARDED = 100  # of them


class Extras:
    """Asked within PATIENCE; what cannot be had is left out, and the message goes on."""

    def __init__(self, history: History, app: str, bot: str, own: Own) -> None:
        self._history = history
        self._app = app
        self._bot = bot
        self._own = own
        self._quoted = Recent[str, str](KEPT)
        self._inside = Recent[str, str](KEPT)

    @property
    def quoted(self) -> Mapping[str, str]:
        return self._quoted

    @property
    def inside(self) -> Mapping[str, str]:
        return self._inside

    def known_chat(self, payload: Body) -> str:
        """Of a reaction, which names its message only; the chat is written into the event. "" when
        it is not known."""
        event = soft(payload, "event")
        place = self._own.placed(word(event, "message_id"))
        if place is None:
            return ""
        event["chat_id"] = place[0]
        return place[0]

    async def chat_of(self, payload: Body) -> str:
        """The same, asked for. "" when it cannot be found out."""
        event = soft(payload, "event")
        message = word(event, "message_id")
        if message and word(event, "operator_type") != "app":
            await self._rows(message)
        return self.known_chat(payload)

    def lacks(self, spoken: Spoken) -> bool:
        """Whether it answers to something nobody knows yet, or forwards something."""
        return spoken.kind == "merge_forward" or self._answered(spoken) is not None

    async def learn(self, told: Sequence[Spoken], place: Place) -> None:
        """One question after the other. Raises AuthFailed."""
        for spoken in told:
            parent = self._answered(spoken)
            if parent is not None and (rows := await self._rows(parent)):
                self._quoted[parent] = _summary(rows[0], place)[:QUOTE]
            if spoken.kind == "merge_forward":
                rows = await self._rows(spoken.id)
                lines = [_line(row, place) for row in rows[:FORWARDED] if row.id != spoken.id]
                if lines:
                    shown = "\n".join(["[forwarded messages]", *lines])
                    self._inside[spoken.id] = shown[:INSIDE]

    def _answered(self, spoken: Spoken) -> str | None:
        parent = spoken.parent
        return parent if parent and parent != spoken.topic and parent not in self._quoted else None

    async def _rows(self, message: str) -> list[Spoken]:
        try:
            async with asyncio.timeout(PATIENCE):
                bodies = await self._history.message(message)
        except AuthFailed:
            raise
        except (ChannelError, TimeoutError) as error:
            _log.info("feishu: %s cannot be read: %s", message, error)
            return []
        rows: list[Spoken] = []
        for body in bodies:
            try:
                rows.append(row := spoken_row(body))
            except Malformed:
                continue
            if row.chat and not word(body, "upper_message_id"):
                self._own.place(row.id, row.chat, row.topic)
                if not row.person and row.sender == self._app:
                    self._own.said(row.id)
        return rows


def _summary(row: Spoken, place: Place) -> str:
    try:
        return inbound.summary(row, place)
    except Malformed:
        return "[a message that cannot be read]"


def _line(row: Spoken, place: Place) -> str:
    return f"{place.names.get(row.sender) or row.sender or 'somebody'}: {_summary(row, place)}"
