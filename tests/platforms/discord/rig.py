"""The Discord rig: the adapter through the real discord.py against the loopback guild."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from channels.contract import Options
from channels.discord import Settings
from channels.discord.adapter import Discord
from channels.discord.client_line import Pace
from tests.conformance.rig import Visible
from tests.platforms.discord.rules import Rules
from tests.platforms.discord.server import Server
from tests.platforms.discord.world import BOT, Body, choices

QUICK = Pace(identify=0.0)
_MARKS = re.compile(
    r"\\([^0-9A-Za-z\s])|https?://[^\s<>\\]+|```.*?```|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL,
)


class DiscordRig:
    """See tests/conformance/rig.py."""

    name = "discord"

    def __init__(self, server: Server) -> None:
        self.server = server

    def settings(self) -> dict[str, Any]:
        return {"enabled": True, "token": self.server.token, "api_url": self.server.url}

    def channel(self, *, options: Options | None = None, pace: Pace | None = None) -> Discord:
        return Discord(
            Settings(token=self.server.token, api_url=self.server.url),
            options or Options(),
            pace or QUICK,
        )

    async def new_topic(self, chat: str) -> str:
        """A thread is more than a message one answers to."""
        return self.server.world.thread("in the thread", self.server.world.place(chat).id)

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        return self.server.world.says(text, chat, person, topic, mention)["id"]

    async def edits(self, message: str, text: str, *, chat: str = "dm:ada") -> None:
        self.server.world.edits(message, text, chat)

    async def deletes(self, message: str, *, chat: str = "dm:ada") -> None:
        self.server.world.deletes([message], chat)

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        self.server.world.presses(message, choice, chat, person)

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        """A chat with its threads."""
        place = self.server.world.place(chat)
        places = [
            place,
            *(
                channel
                for channel in self.server.world.channels.values()
                if channel.parent == place.id
            ),
        ]
        rows = [(one, row) for one in places for row in one.messages.values()]
        return [
            Visible(
                id=row["id"],
                text=shown(read(row)),
                by_bot=row["author"]["id"] == BOT["id"],
                topic=one.id if one.type == 11 else None,
                edits=one.edits.get(row["id"], 0),
                choices=tuple(choices(row)),
                files=tuple(file["filename"] for file in row["attachments"]),
            )
            for one, row in sorted(rows, key=lambda pair: int(pair[1]["id"]))
        ]

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        self.server.world.redeliver(message, chat)

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
        self.server.revoked = revoked
        if revoked:
            self.server.cut()


def read(row: Body) -> str:
    """What a person reads of a message; with the flag SUPPRESS_EMBEDS its embeds are not shown."""
    embeds = [] if row["flags"] & (1 << 2) else row["embeds"]
    return "\n\n".join(
        filter(None, (row["content"], *(str(embed.get("description", "")) for embed in embeds)))
    )


def shown(content: str) -> str:
    """What a person reads: links and code as they stand, elsewhere a backslash before a mark is
    gone (the markup itself stays visible here)."""
    return _MARKS.sub(lambda found: found.group(1) or found.group(), content)


def messages(server: Server) -> list[Body]:
    """Every message of every channel, in order."""
    rows = [row for channel in server.world.channels.values() for row in channel.messages.values()]
    return sorted(rows, key=lambda row: int(row["id"]))


@asynccontextmanager
async def rig(rules: Rules | None = None) -> AsyncIterator[DiscordRig]:
    async with Server(rules).running() as server:
        yield DiscordRig(server)
