"""Discord as a Channel: joins the wire, the reading and the rendering."""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from channels.competing_instance import CompetingInstance
from channels.contract import (
    Address,
    Answer,
    Attachment,
    Capabilities,
    ChannelContext,
    ChatId,
    MessageId,
    Options,
    Outbound,
    Part,
    Receipt,
    Repeat,
    TopicId,
)
from channels.discord import Settings, render
from channels.discord.client import Wire
from channels.discord.client_line import Line, Pace, Refused, object_of
from channels.discord.history import Doubles
from channels.discord.inbound import moment
from channels.discord.listening import Listening
from channels.discord.memory import EPHEMERAL, Presses, rows_of
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected
from channels.payloads import Body
from channels.platform_calls import DraftPause, checked, downloaded, plain_name

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, ASLEEP = 10003, 10008, 50083  # JSON error codes
_ADDRESS = re.compile(r"(\d{1,20})(?:/(\d{1,20}))?")
_COMMAND = re.compile(r"[a-z0-9_-]{1,32}")  # Application command naming, as far as our names go

CAPABILITIES = Capabilities(
    repeat=Repeat.SAFE,
    # Create Message, enforce_nonce: unique "in the past few minutes"
    repeat_window=timedelta(minutes=2),
    max_text=render.MAX_TEXT,
    # five edits in five seconds in one channel; the answers want some of them
    revise=timedelta(seconds=1.2),
    choices=True,
    topics=True,
    typing=timedelta(seconds=10),  # Trigger Typing Indicator: "expires after 10 seconds"
    max_file=10 * 1024 * 1024,  # Reference, "Uploading files": 10 MiB unless the guild is boosted
    # Gateway, "Heartbeat interval": each heartbeat is answered, one goes out every 41.25 s
    silence=timedelta(seconds=45),
)


class Discord:
    """One bot."""

    def __init__(self, settings: Settings, options: Options, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._clock = options.clock
        self._wire = Wire(settings.token, settings.api_url, self._pace)
        self._presses = Presses(self._wire)
        self._account = self._handle = self._gateway = ""
        self._line: Line | None = None  # until it is taken to listen on
        self._direct: dict[str, str] = {}  # person -> the direct conversation with them
        self._pause = DraftPause()
        self._competing = CompetingInstance(options.state, options.clock, options.since)
        self.capabilities = (
            replace(CAPABILITIES, revise=None) if options.streaming == "off" else CAPABILITIES
        )

    @property
    def account(self) -> str:
        """The bot's user id."""
        return self._account

    @property
    def handle(self) -> str:
        return self._handle

    @property
    def wary(self) -> bool:
        return self._competing.rested is not None

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        async with self._wire.open():
            user = await checked("Discord", 2 * self._pace.connect, self._wire.user())
            number = user.get("id")
            if not isinstance(number, str):
                raise NotReady("Discord: Get Current User gave no id")
            self._account = number
            self._handle = str(user.get("username") or "")
            self._gateway = await self._wire.gateway()
            # Also proves the intents; what is said from now on is heard.
            line = self._line = await self._wire.dial(self._gateway)
            try:
                yield
            finally:
                self._line = None
                await line.close()
                await self._presses.close()

    async def receive(self, context: ChannelContext) -> None:
        line, self._line = self._line, None
        doubles = Doubles(self._competing, self._account)
        await Listening(
            self._wire, context, self._account, self._presses, self._clock, doubles
        ).run(self._gateway, line)

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render.render(outbound)

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def upload(self, part: Part) -> str:  # Create Message uploads and shows in one call
        return ""

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        frozen: Body = json.loads(part.payload)
        stored, body = str(frozen["channel"]), cast("Body", frozen["body"])
        channel = self._direct.get(stored, stored)
        try:
            match part.kind:
                case "post" | "file":
                    paths = [Path(path) for path in frozen.get("paths", ())]
                    self._competing.send(key)
                    sent = await self._wire.post(
                        channel, body | {"nonce": key, "enforce_nonce": True}, paths
                    )
                    number = sent.get("id")
                    if not isinstance(number, str) or not number.isdigit():
                        raise Ambiguous("Discord: Create Message answered without an id")
                    message = MessageId(f"f{number}" if part.kind == "file" else number)
                    chat = ChatId(channel) if channel != stored else None
                    return Receipt(message, moment(number), chat)
                case "edit":
                    await self._wire.edit(channel, render.number(part.target or ""), body)
                case "delete":
                    message = render.number(part.target or "")
                    try:
                        await self._wire.write(lambda http: http.delete_message(channel, message))
                    except Refused as refused:
                        if refused.code != UNKNOWN_MESSAGE:  # gone already is no failure
                            raise
        except Refused as refused:
            # Nothing was shown. Where the same part gets through the next time, RateLimited says
            # so: a sleeping thread is woken, and a number that is no channel may be a person's,
            # whose direct conversation is opened.
            if refused.code == ASLEEP:
                await self._wire.call(
                    "PATCH", "/channels/{channel_id}", {"archived": False}, channel_id=channel
                )
                raise RateLimited(0.0) from refused
            if refused.code == UNKNOWN_CHANNEL and channel == stored:
                direct = stored
                with contextlib.suppress(Rejected):
                    opened = await self._wire.read(lambda http: http.start_private_message(stored))
                    direct = str(opened.get("id") or stored)
                if direct != stored:
                    self._direct[stored] = direct
                    raise RateLimited(0.0) from refused
            raise
        return Receipt(cast("MessageId", part.target))

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        """Repeat.SAFE never asks: an equal nonce gives the message that is there."""
        raise NotReady("Discord folds equal sends by itself; there is nothing to look for")

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        """Dropped after a rate limit until Discord's wait is over, and when it is refused: the
        final text is a part of its own."""
        if receipt is None or self._pause.active:
            return
        stored = render.place_of(address)
        channel = self._direct.get(stored, stored)
        with self._pause.observe():
            await self._wire.edit(channel, render.number(receipt.message), render.newest(text))

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        """Reference, "Signed attachment CDN URLs": an address works for a day; its message knows
        the newest one."""
        channel, message, number, url = [*attachment.ref.split(" ", 3), "", "", "", ""][:4]

        async def download(path: Path, most: int) -> None:
            if await self._wire.download(url, path, most):
                return
            row = await self._wire.message(channel, message)
            files = rows_of(row, "attachments")
            for snapshot in rows_of(row, "message_snapshots"):
                files += rows_of(object_of(snapshot.get("message")), "attachments")
            newest = [str(file.get("url")) for file in files if file.get("id") == number]
            if not newest:
                raise Rejected("Discord: the file was taken out of its message")
            if not await self._wire.download(newest[0], path, most):
                raise Rejected("Discord: the file cannot be fetched any more")

        path = into / f"{zlib.crc32(f'{message} {number}'.encode()):08x}-{plain_name(attachment)}"
        return await downloaded("Discord", attachment, path, limit, download)

    async def typing(self, address: Address, on: bool) -> None:
        """Discord ends it by itself, with our next message or after ten seconds."""
        if on:
            stored = render.place_of(address)
            channel = self._direct.get(stored, stored)
            await self._wire.write(lambda http: http.send_typing(channel))

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """The press itself was answered when it was stored; this says something that only the
        person sees. Fifteen minutes later the token is worth nothing any more, and the card says it
        anyhow."""
        number, application, token = [*answer.token.split(" ", 2), "", "", ""][:3]
        if not text.strip() or not application or not token:
            return
        await self._presses.settled(number)
        body: Body = {
            "content": render.newest(text)["content"],
            "flags": EPHEMERAL,
            "allowed_mentions": {"parse": []},
        }
        try:
            await self._wire.call(
                "POST",
                "/webhooks/{webhook_id}/{webhook_token}",
                body,
                webhook_id=application,
                webhook_token=token,
            )
        except (AuthFailed, Rejected):
            return

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        """Bulk Overwrite Global Application Commands, when they differ from those that are there:
        Discord counts changes by the day."""
        # Application command object: what follows the name is one text, as when it is typed.
        option = {
            "type": 3,
            "name": "text",
            "description": "what follows the command",
            "required": False,
        }
        menu: list[Body] = [
            {
                "name": name,
                "type": 1,
                "description": line.strip()[:100],
                "options": [option],
                "contexts": [0, 1],
            }
            for name, line in commands
            if _COMMAND.fullmatch(name) and line.strip()
        ][:100]
        application = await self._wire.application()
        present = await self._wire.read(lambda http: http.get_global_commands(application))
        if list(map(_named, cast("list[Body]", present))) != list(map(_named, menu)):
            await self._wire.call(
                "PUT", "/applications/{application_id}/commands", menu, application_id=application
            )

    def parse_address(self, text: str) -> Address:
        """``123`` (a channel, a direct conversation, or a person), ``123/456`` (a thread or a
        forum's post)."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is no Discord address: say CHANNEL or CHANNEL/THREAD, numbers as Copy"
                " Channel ID gives them"
            )
        chat, thread = match.groups()
        return Address("discord", self._account, ChatId(chat), TopicId(thread) if thread else None)


def _named(command: Body) -> tuple[object, object, int]:
    return command.get("name"), command.get("description"), len(command.get("options") or ())
