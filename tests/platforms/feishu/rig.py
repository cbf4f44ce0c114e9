"""The Feishu rig: the adapter through the real lark_oapi against the loopback tenant."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from channels.contract import Options
from channels.feishu import Settings
from channels.feishu.adapter import Feishu
from channels.feishu.client import Pace
from tests.conformance.rig import Visible
from tests.platforms.feishu import cards
from tests.platforms.feishu.rules import Rules
from tests.platforms.feishu.server import Fault, Server
from tests.platforms.feishu.world import APP, SECRET, Row

QUICK = Pace(call=5, connect=5, ping=5, upload=20, lull=0.01)


class FeishuRig:
    """See tests/conformance/rig.py."""

    name = "feishu"

    def __init__(self, server: Server) -> None:
        self.server = server
        self.world = server.world

    def settings(self) -> dict[str, Any]:
        return {"app_id": APP, "app_secret": SECRET, "domain": self.server.url}

    def channel(self, *, options: Options | None = None, pace: Pace | None = None) -> Feishu:
        return Feishu(Settings(**self.settings()), options or Options(), pace or QUICK)

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        place = self.world.chat(chat)
        mention = mention and place not in self.world.private
        return self.world.says(
            place, self.world.person(place, person), text, topic, mention=mention
        )["message_id"]

    async def edits(self, message: str, text: str, *, chat: str = "dm:ada") -> None:
        raise NotImplementedError(
            "Feishu announces no edit; the history shows it, see test_feishu_catch_up"
        )

    async def deletes(self, message: str, *, chat: str = "dm:ada") -> None:
        self.world.recalls(message)

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        """card.action.trigger: a callback."""
        row = self.world.find(message)
        button = next(
            one
            for one in cards.buttons(self.world.card(row))
            if one["behaviors"][0]["value"]["choice"] == choice
        )
        place = row["chat_id"]
        self.server.event(
            "card.action.trigger",
            {
                "operator": {
                    "tenant_key": "t",
                    "open_id": self.world.person(place, person),
                    "user_id": "",
                    "union_id": "",
                },
                "token": "c-1",
                "action": {
                    "value": button["behaviors"][0]["value"],
                    "tag": "button",
                    "timezone": "Asia/Shanghai",
                },
                "host": "im_message",
                "context": {"open_message_id": message, "open_chat_id": place},
            },
            callback=True,
        )

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        return [
            self.shown(row) for row in self.world.rows[self.world.chat(chat)] if not row["deleted"]
        ]

    def shown(self, row: Row) -> Visible:
        content = json.loads(row["body"]["content"])
        text, choices, files = "", (), ()
        match row["msg_type"]:
            case "interactive":
                card = self.world.card(row)
                text, choices = (
                    cards.text_of(card),
                    tuple(one["behaviors"][0]["value"]["choice"] for one in cards.buttons(card)),
                )
            case "image" | "file" as kind:
                files = (self.world.files[content[f"{kind}_key"]][1],)
            case _:
                text = content.get("text", "")
        topic = row.get("root_id") if "thread_id" in row else None
        return Visible(
            row["message_id"],
            text,
            row["sender"]["id"] == APP,
            topic,
            row.get("edits", 0),
            choices,
            files,
        )

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        self.world.announce(self.world.find(message))

    async def cut(self) -> None:
        self.server.cut()

    def down(self, away: bool) -> None:
        self.server.down(away)

    def lose_next_response(self) -> None:
        self.server.faults.append(Fault("lose"))

    def limit_next(self, seconds: float) -> None:
        self.server.faults.append(Fault("limit", seconds))

    def reject_next(self) -> None:
        self.server.faults.append(Fault("code", 230099))

    def revoke(self, revoked: bool = True) -> None:
        self.server.revoked = revoked
        if revoked:
            self.server.cut()


@asynccontextmanager
async def rig(rules: Rules | None = None) -> AsyncIterator[FeishuRig]:
    async with Server(rules).running() as server:
        yield FeishuRig(server)
