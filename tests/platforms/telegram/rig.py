"""Telegram for the conformance suite: the loopback Bot API in this process, spoken to through
python-telegram-bot."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from channels.contract import Channel, Options
from channels.telegram import Settings
from channels.telegram.adapter import Telegram
from channels.telegram.client import Pace
from tests.conformance.rig import Visible
from tests.platforms.telegram.rules import Rules
from tests.platforms.telegram.server import Server
from tests.platforms.telegram.world import BOT, Body, Chat

QUICK = Pace(connect=5, call=5, poll=2, conflict=0.01, former=0.02, held=1_000, upload=20)


class TelegramRig:
    """See tests/conformance/rig.py."""

    name = "telegram"

    def __init__(self, server: Server, pace: Pace = QUICK) -> None:
        self.server = server
        self.pace = pace

    def settings(self) -> dict[str, Any]:
        return {"enabled": True, "token": self.server.token, "api_url": self.server.url}

    def channel(self, options: Options | None = None) -> Channel:
        return Telegram(
            Settings(token=self.server.token, api_url=self.server.url),
            options or Options(),
            self.pace,
        )

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        number = int(topic) if topic is not None else None
        return str(self.server.world.says(text, chat, person, number, mention)["message_id"])

    async def edits(self, message: str, text: str, *, chat: str = "dm:ada") -> None:
        self.server.world.edits(int(message), text, chat)

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        self.server.world.press(int(message), choice, chat, person)

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        place = self.server.world.chat(chat)
        return [shown(body, place) for body in place.messages.values()]

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        self.server.world.redeliver(int(message), chat)

    async def cut(self) -> None:
        self.server.cut()

    def down(self, away: bool) -> None:
        self.server.down(away)

    def lose_next_response(self) -> None:
        self.server.faults.lose += 1

    def limit_next(self, seconds: float) -> None:
        self.server.faults.limit = seconds

    def reject_next(self) -> None:
        self.server.faults.reject += 1

    def revoke(self, revoked: bool = True) -> None:
        """Also ends the poll that waits, as Telegram does."""
        self.server.faults.revoked = revoked
        if revoked:
            self.server.cut()


def shown(body: Body, place: Chat) -> Visible:
    number = body["message_id"]
    rows = body.get("reply_markup", {}).get("inline_keyboard", [])
    return Visible(
        id=str(number),
        text=body.get("text") or body.get("caption") or "",
        by_bot=body["from"]["id"] == BOT["id"],
        topic=str(body["message_thread_id"]) if body.get("is_topic_message") else None,
        edits=place.edits.get(number, 0),
        choices=tuple(
            button["callback_data"] for row in rows for button in row if "callback_data" in button
        ),
        files=(place.files[number],) if number in place.files else (),
    )


@asynccontextmanager
async def rig(rules: Rules | None = None) -> AsyncGenerator[TelegramRig]:
    async with Server(rules=rules or Rules()).running() as server:
        yield TelegramRig(server)
