"""The Slack rig: the adapter through the real slack_sdk against the loopback workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from channels.contract import Options
from channels.slack import Settings
from channels.slack.adapter import Slack
from channels.slack.client import Pace
from tests.conformance.rig import Visible
from tests.platforms.slack.server import SENDS, Fault, Server
from tests.platforms.slack.workspace import APP_TOKEN, BOT, BOT_TOKEN, CHATS, PEOPLE, Row, Rules


class SlackRig:
    name = "slack"

    def __init__(self, server: Server) -> None:
        self.server = server
        self.pace: Pace | None = None  # unless a channel is given one

    def settings(self) -> dict[str, Any]:
        return {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "api_url": self.server.url}

    def channel(self, *, options: Options | None = None, pace: Pace | None = None) -> Slack:
        return Slack(Settings(**self.settings()), options or Options(), pace or self.pace)

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        words = escape(text)
        if mention and not chat.startswith("dm:"):
            words = f"<@{BOT}> {words}"
        place = self.server.workspace.place(chat)
        user = (
            PEOPLE[person]
            if chat in CHATS
            else self.server.workspace.chats[place].get("user", PEOPLE[person])
        )
        return self.server.workspace.says(place, user, words, topic)["ts"]

    async def edits(self, message: str, text: str, *, chat: str = "dm:ada") -> None:
        self.server.workspace.changes(CHATS[chat], message, escape(text))

    async def deletes(self, message: str, *, chat: str = "dm:ada") -> None:
        self.server.workspace.deletes(CHATS[chat], message)

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        """block_actions payload of a button in one of our messages."""
        row = self.server.workspace.row(CHATS[chat], message)
        button = next(button for button in buttons(row) if button["value"] == choice)
        container = {
            "type": "message",
            "message_ts": message,
            "channel_id": CHATS[chat],
            "is_ephemeral": False,
        }
        if row.get("thread_ts"):
            container["thread_ts"] = row["thread_ts"]
        self.server.envelope(
            "interactive",
            {
                "type": "block_actions",
                "user": {
                    "id": PEOPLE[person],
                    "username": person,
                    "name": person,
                    "team_id": "T0HOUSE",
                },
                "container": container,
                "channel": {"id": CHATS[chat], "name": chat},
                "message": row,
                "trigger_id": "1.2.abc",
                "response_url": f"http://127.0.0.1:{self.server.port}/response",
                "actions": [{**button, "block_id": "b1", "action_ts": self.server.workspace.ts()}],
            },
        )

    async def commands(
        self,
        text: str,
        *,
        command: str = "/ohmo",
        chat: str = "dm:ada",
        person: str = "ada",
        channel: str = "",
    ) -> str:
        """Slash commands: the payload somebody's command brings, in any conversation of the
        workspace; its answering address."""
        url = self.server.response_url()
        self.server.envelope(
            "slash_commands",
            {
                "command": command,
                "text": escape(text),
                "team_id": "T0HOUSE",
                "user_id": PEOPLE[person],
                "user_name": person,
                "response_url": url,
                "channel_id": channel or CHATS[chat],
                "channel_name": "directmessage" if chat.startswith("dm:") else chat,
                "trigger_id": self.server.workspace.number("13.37."),
                "api_app_id": "A0OHMO",
            },
        )
        return url

    def answers(self, url: str) -> list[Row]:
        """What came to a slash command's answering address."""
        return self.server.responses[url.rpartition("/")[2]]

    def opens_home(self, person: str = "ada", tab: str = "home") -> None:
        """app_home_opened; the view comes along once there is one."""
        event: Row = {
            "type": "app_home_opened",
            "user": PEOPLE[person],
            "channel": CHATS[f"dm:{person}"],
            "tab": tab,
            "event_ts": self.server.workspace.ts(),
        }
        view = self.server.views.get(PEOPLE[person])
        self.server.deliver(event | ({"view": view} if view is not None and tab == "home" else {}))

    def opens_assistant(
        self, person: str = "ada", kind: str = "assistant_thread_started", thread: str = ""
    ) -> str:
        """assistant_thread_started and assistant_thread_context_changed; the thread's root."""
        thread, chat = thread or self.server.workspace.ts(), CHATS[f"dm:{person}"]
        self.server.assistant_threads.add((chat, thread))
        self.server.deliver(
            {
                "type": kind,
                "event_ts": self.server.workspace.ts(),
                "assistant_thread": {
                    "user_id": PEOPLE[person],
                    "context": {"channel_id": "C0GROUP", "team_id": "T0HOUSE"},
                    "channel_id": chat,
                    "thread_ts": thread,
                },
            }
        )
        return thread

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        return [shown(row) for row in self.server.workspace.rows[self.server.workspace.place(chat)]]

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        place = self.server.workspace.place(chat)
        self.server.workspace.announce(place, self.server.workspace.row(place, message))

    async def cut(self) -> None:
        self.server.cut()

    def down(self, away: bool) -> None:
        self.server.down(away)

    def lose_next_response(self) -> None:
        self.server.faults.append(Fault("lose"))

    def limit_next(self, seconds: float) -> None:
        self.server.faults.append(Fault("limit", seconds))

    def reject_next(self) -> None:
        self.server.faults.append(Fault("reject", "invalid_blocks"))

    def revoke(self, revoked: bool = True) -> None:
        self.server.revoked = revoked
        if revoked:
            self.server.cut()


def escape(text: str) -> str:
    """What Slack's clients do to what a person types."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shown(row: Row) -> Visible:
    text = (
        row["text"]
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
        .replace("\u200b", "")
    )
    return Visible(
        id=row["ts"],
        text=text,
        by_bot=row["user"] == BOT,
        topic=row.get("thread_ts"),
        edits=row.get("edits", 0),
        choices=tuple(button["value"] for button in buttons(row)),
        files=tuple(file["name"] for file in row.get("files", ())),
    )


def buttons(row: Row) -> list[Row]:
    return [
        element
        for block in row.get("blocks", ())
        if block["type"] == "actions"
        for element in block["elements"]
    ]


@asynccontextmanager
async def rig(rules: Rules | None = None) -> AsyncIterator[SlackRig]:
    async with Server(rules).running() as server:
        yield SlackRig(server)


__all__ = ["SENDS", "SlackRig", "rig"]
