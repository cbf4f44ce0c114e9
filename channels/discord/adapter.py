"""Discord as a Channel: joins the wire, the reading and the rendering."""

from __future__ import annotations

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
from channels.discord.client_line import Line, Pace, Refused
from channels.discord.history import Doubles
from channels.discord.inbound import moment
from channels.discord.listening import Listening
from channels.discord.memory import EPHEMERAL, Presses
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected
from channels.payloads import Body
from channels.platform_calls import DraftPause, checked, downloaded, plain_name

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, ASLEEP = 10003, 10008, 50083  # JSON error codes
_ADDRESS = re.compile(r"(\d{1,20})(?:/(\d{1,20}))?")
_COMMAND = re.compile(r"[a-z0-9_-]{1,32}")  # Application command naming, as far as our names go

CAPABILITIES = Capabilities(
    repeat=Repeat.SAFE,
    repeat_window=timedelta(
        minutes=2
    ),  # Create Message, enforce_nonce: unique "in the past few minutes"
    max_text=render.MAX_TEXT,
    revise=timedelta(
        seconds=1.2
    ),  # five edits in five seconds in one channel; the answers want some of them
    choices=True,
    topics=True,
    typing=timedelta(seconds=10),  # Trigger Typing Indicator: "expires after 10 seconds"
    max_file=10 * 1024 * 1024,  # Reference, "Uploading files": 10 MiB unless the guild is boosted
    silence=timedelta(
        seconds=45
    ),  # Gateway, "Heartbeat interval": each heartbeat is answered, one goes out every 41.25 s
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
            who = await checked("Discord", 2 * self._pace.connect, self._wire.who())
            if not isinstance(number := who.get("id"), str):
                raise NotReady("Discord: Get Current User gave no id")
            self._account, self._handle = number, str(who.get("username") or "")
            self._gateway = await self._wire.gateway()
            line = self._line = await self._wire.dial(
                self._gateway
            )  # also proves the intents; what is said from now on is heard
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
                    receipt = _receipt(sent, "f" if part.kind == "file" else "")
                    return receipt if channel == stored else replace(receipt, chat=ChatId(channel))
                case "edit":
                    await self._wire.edit(channel, render.number(part.target or ""), body)
                case "delete":
                    await self._delete(channel, render.number(part.target or ""))
        except Refused as refused:
            await self._mend(refused, stored, channel)
            raise
        return Receipt(cast("MessageId", part.target))

    async def _mend(self, refused: Refused, stored: str, channel: str) -> None:
        """Where nothing was shown and the same part gets through the next time, RateLimited says
        so: a sleeping thread is woken, and a number that is no channel may be a person's, whose
        direct conversation is opened."""
        if refused.code == ASLEEP:
            await self._wire.call(
                "PATCH", "/channels/{channel_id}", {"archived": False}, channel_id=channel
            )
            raise RateLimited(0.0) from refused
        if refused.code == UNKNOWN_CHANNEL and channel == stored:
            try:
                opened = await self._wire.read(lambda http: http.start_private_message(stored))
            except Rejected:
                return
            if (found := str(opened.get("id", ""))) and found != stored:
                self._direct[stored] = found
                raise RateLimited(0.0) from refused

    async def _delete(self, channel: str, message: str) -> None:
        """A message that is gone already is no failure."""
        try:
            await self._wire.write(lambda http: http.delete_message(channel, message))
        except Refused as refused:
            if refused.code != UNKNOWN_MESSAGE:
                raise

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
        place = render.place_of(address)
        with self._pause.observe():
            await self._wire.edit(
                self._direct.get(place, place), render.number(receipt.message), render.newest(text)
            )

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        """Reference, "Signed attachment CDN URLs": an address works for a day; its message knows
        the newest one."""
        channel, message, number, url = [*attachment.ref.split(" ", 3), "", "", "", ""][:4]

        async def download(path: Path, most: int) -> None:
            if not await self._wire.download(url, path, most) and not await self._wire.download(
                await self._fresh(channel, message, number), path, most
            ):
                raise Rejected("Discord: the file cannot be fetched any more")

        path = into / f"{zlib.crc32(f'{message} {number}'.encode()):08x}-{plain_name(attachment)}"
        return await downloaded("Discord", attachment, path, limit, download)

    async def _fresh(self, channel: str, message: str, number: str) -> str:
        row = cast("Body", await self._wire.read(lambda http: http.get_message(channel, message)))
        snapshots = cast("list[Body]", row.get("message_snapshots") or [])
        rows = [row, *(cast("Body", snapshot.get("message") or {}) for snapshot in snapshots)]
        files = [file for one in rows for file in cast("list[Body]", one.get("attachments") or [])]
        found = next((file for file in files if file.get("id") == number), None)
        if found is None:
            raise Rejected("Discord: the file was taken out of its message")
        return str(found.get("url"))

    async def typing(self, address: Address, on: bool) -> None:
        """Discord ends it by itself, with our next message or after ten seconds."""
        if on:
            place = render.place_of(address)
            await self._wire.write(lambda http: http.send_typing(self._direct.get(place, place)))

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """The press itself was answered when it was stored; this says something that only the
        person sees. Fifteen minutes later the token is worth nothing any more, and the card says it
        anyhow."""
        number, application, token = [*answer.token.split(" ", 2), "", "", ""][:3]
        if not text.strip() or not application or not token:
            return
        await self._presses.settled(number)
        said: Body = {
            "content": render.newest(text)["content"],
            "flags": EPHEMERAL,
            "allowed_mentions": {"parse": []},
        }
        try:
            await self._wire.call(
                "POST",
                "/webhooks/{webhook_id}/{webhook_token}",
                said,
                webhook_id=application,
                webhook_token=token,
            )
        except (AuthFailed, Rejected):
            return

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        """Bulk Overwrite Global Application Commands, when they differ from those that are there:
        Discord counts changes by the day."""
        wanted = [
            _command(name, line)
            for name, line in commands
            if _COMMAND.fullmatch(name) and line.strip()
        ][:100]
        application = await self._wire.application()
        there = await self._wire.read(lambda http: http.get_global_commands(application))
        if [_named(command) for command in cast("list[Body]", there)] != [
            _named(command) for command in wanted
        ]:
            await self._wire.call(
                "PUT", "/applications/{application_id}/commands", wanted, application_id=application
            )

    def parse_address(self, text: str) -> Address:
        """``123`` (a channel, a direct conversation, or a person), ``123/456`` (a thread or a
        forum's post)."""
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is no Discord address: say CHANNEL or CHANNEL/THREAD, numbers as Copy"
                " Channel ID gives them"
            )
        chat, thread = found.groups()
        return Address("discord", self._account, ChatId(chat), TopicId(thread) if thread else None)


def _receipt(sent: Body, prefix: str) -> Receipt:
    number = sent.get("id")
    if not isinstance(number, str) or not number.isdigit():
        raise Ambiguous("Discord: Create Message answered without an id")
    return Receipt(MessageId(prefix + number), moment(number))


def _command(name: str, line: str) -> Body:
    """Application command object: what follows the name is one text, as when it is typed."""
    option = {
        "type": 3,
        "name": "text",
        "description": "what follows the command",
        "required": False,
    }
    return {
        "name": name,
        "type": 1,
        "description": line.strip()[:100],
        "options": [option],
        "contexts": [0, 1],
    }


def _named(command: Body) -> tuple[object, object, int]:
    return command.get("name"), command.get("description"), len(command.get("options") or ())
