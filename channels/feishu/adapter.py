"""Feishu as a Channel: joins the wire, the reading and the rendering."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

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
from channels.errors import Ambiguous, NotReady, Rejected
from channels.feishu import Settings, render
from channels.feishu.chats import Own
from channels.feishu.client import Pace, Refused, Wire
from channels.feishu.client_line import Feed, feed
from channels.feishu.content import milliseconds, moment, word
from channels.feishu.feedback import BUSY, Presses, Streams, Typing
from channels.feishu.listening import Listening
from channels.payloads import Body, Malformed, soft
from channels.platform_calls import DraftPause, Names, checked, downloaded, plain_name
from channels.stale_typing import OpenIndicators

_MESSAGES = "/open-apis/im/v1/messages"
# "Recall message", "Reply message": recalled, deleted, no such message, no such thread, unsupported
# by what it was.
_GONE = frozenset({230011, 230110, 230005, 230019, 231003})
_ADDRESS = re.compile(r"((?:oc|ou|on)_[A-Za-z0-9]{1,64})(?:/(om_[A-Za-z0-9_-]{1,80}))?")
_PICTURES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff", ".heic"}
_LARGEST_PICTURE = 10 << 20  # Upload image
_LARGEST_FILE = 30 << 20  # Upload file
_LARGEST_FETCHED = 100 << 20  # Get resource files of a message
_NO_BOT = ": add the Bot feature to the app in the Developer Console and publish a version"
_FILE_TYPES = {
    ".opus": "opus",
    ".mp4": "mp4",
    ".pdf": "pdf",
    ".doc": "doc",
    ".docx": "doc",
    ".xls": "xls",
    ".xlsx": "xls",
    ".ppt": "ppt",
    ".pptx": "ppt",
}

_NAME_PATIENCE = 0.1  # seconds; Feishu wants its answer soon, and the next message has the name

CAPABILITIES = Capabilities(
    repeat=Repeat.SAFE,
    repeat_window=timedelta(minutes=55),  # "Send message", uuid: at most one message within an hour
    max_text=render.MAX_TEXT,
    revise=timedelta(seconds=0.7),  # a message takes five edits a second, a card entity ten writes
    # "Send message": five in any second to one chat
    post_burst=2,
    post_every=timedelta(seconds=0.25),
    choices=True,
    topics=True,
    typing=timedelta(seconds=30),
    max_file=_LARGEST_FILE,
    silence=timedelta(seconds=30),  # each ping is answered, one goes out every 10 s (Pace.ping)
)


class Feishu:
    """One app in one tenant."""

    def __init__(self, settings: Settings, options: Options, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._options = options
        self._app = settings.app_id
        self._wire = Wire(settings.app_id, settings.app_secret, settings.domain, self._pace)
        self._names = Names(self._wire.name_of, _NAME_PATIENCE)
        self._own = Own()
        self._presses = Presses()
        self._streams = Streams(self._wire, options.clock)
        self._typing = Typing(self._wire, self._own, OpenIndicators(options.state))
        self._bot = self._handle = ""
        self._line: Feed | None = None
        self._pause = DraftPause()
        self.capabilities = (
            replace(CAPABILITIES, revise=None) if options.streaming == "off" else CAPABILITIES
        )

    @property
    def account(self) -> str:
        """The app's id."""
        return self._app

    @property
    def handle(self) -> str:
        return self._handle

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        async with self._wire.open():
            asking = self._wire.call("GET", "/open-apis/bot/v3/info")
            who = await checked("Feishu", 2 * self._pace.connect, asking, _NO_BOT)
            about = soft(who, "bot") or who
            self._bot = word(about, "open_id")
            self._handle = word(about, "app_name")
            if not self._bot:
                raise NotReady("Feishu: bot/v3/info: answered without open_id")
            # What is said from now on waits in it for receive().
            async with feed(self._wire) as self._line:
                yield

    async def receive(self, context: ChannelContext) -> None:
        await self._typing.tidy()
        line = self._line
        self._line = None
        listening = Listening(
            self._wire,
            context,
            self._bot,
            names=self._names,
            own=self._own,
            presses=self._presses,
            clock=self._options.clock,
        )
        await listening.run(line)

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render.render(outbound)

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def upload(self, part: Part) -> str:
        """Upload image, Upload file: nobody sees it before its message. The handle names the
        message's type and its content."""
        path = Path(_body(part)["path"])
        try:
            size = path.stat().st_size  # noqa: ASYNC240 - one stat of a local file
            if path.suffix.lower() in _PICTURES and 0 < size <= _LARGEST_PICTURE:
                fields = {"image_type": "message"}
                made = await self._wire.upload("/open-apis/im/v1/images", fields, "image", path)
                return _handle("image", "image_key", word(made, "image_key"))
            if not 0 < size <= _LARGEST_FILE:
                raise Rejected(
                    f"Feishu: {path.name} has {size} bytes; files have between 1 and"
                    f" {_LARGEST_FILE}"
                )
            fields = {
                "file_type": _FILE_TYPES.get(path.suffix.lower(), "stream"),
                "file_name": path.name,
            }
            made = await self._wire.upload("/open-apis/im/v1/files", fields, "file", path)
            return _handle("file", "file_key", word(made, "file_key"))
        except OSError as error:
            raise Rejected(f"Feishu: {path} cannot be read: {error.strerror}") from error

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        body = _body(part)
        match part.kind:
            case "post":
                content = None
                if body.get("stream") and self._options.streaming in {None, "native"}:
                    content = await self._streams.begin(key, body["card"])
                receipt = await self._show(body, "interactive", content or body["card"], key)
                if content is not None:
                    self._streams.shown(key, receipt.message)
                return receipt
            case "edit":
                return await self._edit(render.message_of(cast("str", part.target)), body["card"])
            case "delete":
                message = render.message_of(cast("str", part.target))
                await self._streams.end(message)
                try:
                    await self._wire.call(
                        "DELETE", f"{_MESSAGES}/:message_id", paths={"message_id": message}
                    )
                except Refused as refused:
                    if refused.code not in _GONE:
                        raise
                return Receipt(cast("MessageId", part.target))
            case "file":
                if not handle:
                    raise Rejected(
                        "Feishu: a file is shown by the handle of its upload, and there is none"
                    )
                shown = json.loads(handle)
                receipt = await self._show(body, shown["type"], shown["content"], key)
                return replace(receipt, message=render.file_receipt(receipt.message))

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        """Never asked: a second send under the same uuid shows nothing twice."""
        return None

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        """Dropped after a rate limit until Feishu's wait is over, and whenever it fails: the final
        text is a part of its own."""
        if receipt is None or self._pause.active:
            return
        card = render.draft(text)
        with self._pause.observe():
            if not await self._streams.write(receipt.message, render.words_of(card)):
                await self._patch(receipt.message, card)

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        message, _, rest = attachment.ref.partition(" ")
        key, _, kind = rest.partition(" ")
        if not message or not key:
            raise Rejected(f"Feishu: {attachment.ref[:80]!r} names no file")
        uri = f"{_MESSAGES}/:message_id/resources/:file_key"
        paths = {"message_id": message, "file_key": key}
        query = {"type": kind or "file"}
        path = into / f"{re.sub(r'[^A-Za-z0-9_-]', '_', key)[-40:]}-{plain_name(attachment)}"
        limit = min(limit, _LARGEST_FETCHED)
        return await downloaded(
            "Feishu",
            attachment,
            path,
            limit,
            lambda path, most: self._wire.download(uri, paths, query, path, most),
        )

    async def typing(self, address: Address, on: bool) -> None:
        await (self._typing.on(address) if on else self._typing.off(address))

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """A toast, as long as the press itself is not answered; later nobody but everybody could
        see it, so nothing is said."""
        self._presses.say(answer.token, text.strip()[:200])

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        """A bot's menu is made in the Developer Console and cannot be set by an app: see
        docs/channels/feishu.md."""

    def parse_address(self, text: str) -> Address:
        """``oc_…`` (a chat), ``oc_…/om_…`` (the thread of a message), ``ou_…`` (a person, whose
        chat with the bot is meant)."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is no Feishu address: say oc_… (a chat), oc_…/om_… (a thread) or ou_… (a"
                " person)"
            )
        chat, root = match.groups()
        return Address("feishu", self._app, ChatId(chat), TopicId(root) if root else None)

    async def _show(self, body: Body, kind: str, content: Body, key: str) -> Receipt:
        """Reply message, Send message: the same uuid shows one message within an hour."""
        message: Body = {
            "msg_type": kind,
            "content": json.dumps(content, ensure_ascii=False, separators=(",", ":")),
            "uuid": key,
        }
        root = body.get("reply")
        if root:
            uri = f"{_MESSAGES}/:message_id/reply"
            paths = {"message_id": root}
            reply = message | ({"reply_in_thread": True} if body.get("in_thread") else {})
            try:
                sent = await self._wire.call("POST", uri, paths=paths, body=reply, once=True)
                return self._receipt(sent)
            except Refused as refused:
                if refused.code not in _GONE:
                    raise  # else what it answers is gone, and it is said in the chat
        chat = str(body["chat"])
        query = {"receive_id_type": {"ou": "open_id", "on": "union_id"}.get(chat[:2], "chat_id")}
        message["receive_id"] = chat
        sent = await self._wire.call("POST", _MESSAGES, query=query, body=message, once=True)
        receipt = self._receipt(sent)
        there = word(sent, "chat_id")
        if there in ("", chat):
            return receipt
        return replace(receipt, chat=ChatId(there))

    def _receipt(self, data: Body) -> Receipt:
        message = word(data, "message_id")
        if not message:
            raise Ambiguous("Feishu: im/v1/messages: answered without message_id")
        self._own.said(message)
        chat = word(data, "chat_id")
        if chat:
            topic = ""
            if word(data, "thread_id"):
                topic = word(data, "root_id")
            self._own.place(message, chat, topic or None)
        try:
            at = moment(milliseconds(data, "create_time"))
        except Malformed:
            at = None
        return Receipt(MessageId(message), at)

    async def _edit(self, message: str, card: Body) -> Receipt:
        await self._streams.end(message)
        try:
            await self._patch(message, card)
        except Refused as refused:
            if refused.code not in BUSY:
                raise
            entity = await self._streams.end_of_earlier_life(message)
            if not entity:
                raise
            try:
                await self._patch(message, card)
            except Refused as again:
                if again.code not in BUSY:
                    raise
                await self._streams.replace(entity, card)
        return Receipt(MessageId(message))

    async def _patch(self, message: str, card: Body) -> None:
        """Update message card: 14 days, five times a second. Repeating it changes nothing."""
        content = json.dumps(card, ensure_ascii=False, separators=(",", ":"))
        await self._wire.call(
            "PATCH",
            f"{_MESSAGES}/:message_id",
            paths={"message_id": message},
            body={"content": content},
        )


def _body(part: Part) -> Body:
    return cast("Body", json.loads(part.payload))


def _handle(kind: str, name: str, key: str) -> str:
    if not key:
        raise NotReady(f"Feishu: upload: answered without {name}")
    return json.dumps({"type": kind, "content": {name: key}})
