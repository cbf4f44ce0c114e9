"""A complete channel over FakePlatform, with whatever capabilities a test wants."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from channels.contract import (
    Address,
    Answer,
    Attachment,
    Capabilities,
    ChannelContext,
    ChatId,
    Cursor,
    Outbound,
    Part,
    Receipt,
    Repeat,
    TopicId,
)
from channels.errors import NotReady, Rejected
from ohmo_testing.channels.platform import Call, FakePlatform, Shown

EVERYTHING = Capabilities(
    repeat=Repeat.SAFE,
    repeat_window=timedelta(days=1),
    max_text=4000,
    revise=timedelta(0),
    preview=True,
    choices=True,
    topics=True,
    typing=timedelta(seconds=5),
    max_file=1 << 20,
)
MARK = "may be a duplicate"


class FakeChannel:
    """A Channel in memory. ``capabilities.repeat`` decides what a second send under one key does:
    SAFE is folded by the platform, LOOK and RISK show twice (``find`` answers for LOOK). Faults,
    outages and what people do: on the FakePlatform."""

    def __init__(self, platform: FakePlatform, capabilities: Capabilities = EVERYTHING) -> None:
        self.platform = platform
        self.capabilities = capabilities
        self._account: str | None = None

    @property
    def account(self) -> str:
        assert self._account is not None, "account is known inside connect()"
        return self._account

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        async with self.platform.called(Call("connect")):
            self._account = "bot"
        self.platform.connections += 1
        try:
            yield
        finally:
            self.platform.connections -= 1
            self._account = None

    async def receive(self, context: ChannelContext) -> None:
        async with self.platform.called(Call("receive")):
            context.heard()
        position = await self._missed(context)
        while True:
            end = await self.platform.after(position)
            context.heard()
            await context.publish(self.platform.events[position:end], Cursor("events", str(end)))
            position = end

    def _called(self, call: Call) -> AbstractAsyncContextManager[None]:
        if self._account is None:
            raise NotReady(f"{self.platform.name}: not connected")
        return self.platform.called(call)

    async def _missed(self, context: ChannelContext) -> int:
        """What was said since the cursor, within the fence of ``context.catch_up``; the position
        behind it."""
        since, end = int(await context.cursor("events") or 0), len(self.platform.events)
        oldest, most = context.catch_up
        missed = [
            event
            for event in self.platform.events[since:end]
            if event.at >= self.platform.clock() - oldest
        ]
        read = missed[-most:] if most else []
        if end > since:
            await context.publish(read, Cursor("events", str(end)))
        unread = [event for event in self.platform.events[since:end] if event not in read]
        for place in dict.fromkeys(event.address for event in unread):
            count = sum(event.address == place for event in unread)
            await context.missed(
                f"Not read: {count} messages said here while nobody was there.", place
            )
        return end

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        pieces = _pieces(outbound.text, self.capabilities.max_text)
        if not outbound.text and outbound.files:
            pieces = []
        contents = [self._content(outbound, piece) for piece in pieces]
        if contents and self.capabilities.choices:
            contents[-1]["choices"] = [choice.value for choice in outbound.choices]
        old = [receipt.message for receipt in outbound.replaces]
        parts = [
            Part("edit", json.dumps(content), target)
            for content, target in zip(contents, old, strict=False)
        ]
        parts += [Part("post", json.dumps(content)) for content in contents[len(old) :]]
        parts += [
            Part("delete", json.dumps(self._content(outbound, "")), target)
            for target in old[len(contents) :]
        ]
        parts += [
            Part("file", json.dumps(self._content(outbound, "") | {"path": str(path)}))
            for path in outbound.files
        ]
        return tuple(parts)

    @staticmethod
    def _content(outbound: Outbound, text: str) -> dict[str, Any]:
        address = outbound.address
        return {
            "chat": address.chat,
            "topic": address.topic,
            "text": text,
            "reply_to": outbound.reply_to,
            "plain": outbound.plain,
        }

    async def upload(self, part: Part) -> str:
        path = Path(json.loads(part.payload)["path"])
        async with self._called(Call("upload", text=path.name)):
            if not path.is_file():  # noqa: ASYNC240 - a fake for tests
                raise Rejected(f"{self.platform.name}: {path} is not a file")
            handle = f"upload-{len(self.platform.uploads)}"
            self.platform.uploads[handle] = path.name
        return handle

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        content = json.loads(part.payload)
        async with self._called(Call("send", key, content["text"])):
            address = self._address(content)
            if part.target is not None:
                text = None if part.kind == "delete" else content["text"]
                return self.platform.change(
                    address, part.target, text, tuple(content.get("choices", ()))
                )
            files = (self.platform.uploads[handle],) if handle else ()
            shown = Shown(
                id="",
                text=content["text"],
                by_bot=True,
                choices=tuple(content.get("choices", ())),
                files=files,
            )
            return self.platform.post(
                address, shown, key, fold=self.capabilities.repeat is Repeat.SAFE
            )

    def mark(self, part: Part) -> Part:
        content = json.loads(part.payload)
        return replace(
            part, payload=json.dumps(content | {"text": f"{content['text']} ({MARK})".strip()})
        )

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        async with self._called(Call("find", key)):
            return self.platform.sent.get(key)

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        async with self._called(Call("revise", text=text)):
            if receipt is None:
                self.platform.previews.append(text)
            else:
                self.platform.change(address, receipt.message, text)

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        async with self._called(Call("fetch", text=attachment.name)):
            content = bytes.fromhex(attachment.ref)
            if len(content) > limit:
                raise Rejected(
                    f"{self.platform.name}: {attachment.name} has {len(content)} bytes, more than"
                    f" {limit}"
                )
            path = into / Path(attachment.name).name
            path.write_bytes(content)
        return path

    async def typing(self, address: Address, on: bool) -> None:
        async with self._called(Call("typing")):
            self.platform.typing.append((address, on))

    async def acknowledge(self, answer: Answer, text: str) -> None:
        async with self._called(Call("acknowledge", text=text)):
            self.platform.acknowledged.append((answer.token, text))

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        self.platform.menu = tuple(commands)

    def parse_address(self, text: str) -> Address:
        chat, _, topic = text.partition("/")
        return Address(self.platform.name, "bot", ChatId(chat), TopicId(topic) if topic else None)

    def _address(self, content: dict[str, Any]) -> Address:
        topic = content["topic"]
        return Address(
            self.platform.name,
            "bot",
            ChatId(content["chat"]),
            None if topic is None else TopicId(topic),
        )


def _pieces(text: str, most: int) -> list[str]:
    """``text`` cut into pieces of at most ``most`` characters, at a space where there is one;
    joined again they are the text."""
    pieces: list[str] = []
    while len(text) > most:
        at = text.rfind(" ", 0, most) + 1 or most
        pieces.append(text[:at])
        text = text[at:]
    return [*pieces, text]
