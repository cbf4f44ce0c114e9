"""A browser in memory: control speaks into it for the person, the adapter speaks out of it for the
house; and its files, up and down, under random names in the channel's private folder."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shutil
from collections import deque
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from channels.contract import (
    Address,
    Answer,
    Arrival,
    Attachment,
    ChannelContext,
    ChatId,
    Clock,
    Edited,
    Inbound,
    MessageId,
    Person,
    PersonId,
)
from channels.durable import settle, take_place
from channels.errors import Rejected, Unavailable
from channels.record import record
from channels.web.render import Shown

ACCOUNT = "local"
OWNER = Person(PersonId("owner"), "you")  # whoever is logged in
KEY = re.compile(r"[0-9a-z]{8,40}")  # what a page names its messages with
CHAT = re.compile(r"[0-9A-Za-z:_-]{1,64}")
_FEED = 1024  # what one page may lag behind
_FILE_NAME = re.compile(r"[0-9a-f]{32}")
_BLOCK = 1 << 20  # bytes


@record
class Preview:
    """The text of a turn so far; empty: there is none (any more)."""

    text: str


@record
class Typing:
    on: bool


@record
class Noticed:
    """A short word for whoever pressed a button."""

    text: str


@record
class Posted:
    """Something durable changed in the chat. ``shown`` None: the person said something. Folded by
    ``message``: a repeated send is the same."""

    message: MessageId
    shown: Shown | None


@record
class Revised:
    """A newer text of a draft that was posted; its final text comes as a post."""

    message: MessageId
    text: str


Live = Preview | Typing | Noticed | Posted | Revised


class Feed:
    """What one open page has not seen yet; the oldest is dropped when a page lags too far, because
    the history has what counts."""

    def __init__(self, bell: asyncio.Event) -> None:
        self._bell = bell
        self._items: deque[Live] = deque(maxlen=_FEED)

    def put(self, item: Live) -> None:
        if isinstance(item, Preview) and self._items and isinstance(self._items[-1], Preview):
            self._items.pop()  # only the newest preview counts
        self._items.append(item)
        self._bell.set()

    def take(self) -> list[Live]:
        """Everything that waits."""
        items = list(self._items)
        self._items.clear()
        return items


@dataclass(slots=True)
class _Chat:
    preview: str = ""
    typing: bool = False
    feeds: list[Feed] = field(default_factory=list[Feed])

    def idle(self) -> bool:
        return not self.feeds and not self.preview and not self.typing


class Browser:
    """Shared by the web adapter (``receiving``, ``show``, ``preview``, ``typing``) and by control
    (``say``, ``answer``, ``edit``, ``upload``, ``watch``).

    Keeps nothing that must survive: what was said is in the store before ``say`` returns, what is
    shown is the store's history."""

    def __init__(self, clock: Clock, *, max_file: int) -> None:
        self._clock = clock
        self.max_file = max_file
        self._context: ChannelContext | None = None
        self._shelf: Shelf | None = None
        self._chats: dict[str, _Chat] = {}
        self._last_order = 0
        self.commands: tuple[tuple[str, str], ...] = ()

    # for the adapter

    @contextmanager
    def receiving(self, context: ChannelContext) -> Generator[None]:
        """Inside it people can speak."""
        self._shelf = Shelf(context.state / "files")
        self._context = context
        try:
            yield
        finally:
            self._context = None

    def show(self, message: MessageId, shown: Shown) -> None:
        """A post, an edit or a deletion. It ends the preview: what was previewed is durable now.
        Test browsers fail here."""
        if shown.text is not None:
            self.preview(shown.chat, "")
        self._tell(shown.chat, Posted(message, shown))

    def preview(self, chat: str, text: str) -> None:
        state = self._chats.setdefault(chat, _Chat())
        if state.preview != text:
            state.preview = text
            self._tell(chat, Preview(text))
        self._forget(chat)

    def typing(self, chat: str, on: bool) -> None:
        state = self._chats.setdefault(chat, _Chat())
        if state.typing != on:
            state.typing = on
            self._tell(chat, Typing(on))
        self._forget(chat)

    def revise(self, chat: str, message: MessageId, text: str) -> None:
        self._tell(chat, Revised(message, text))

    def notice(self, chat: str, text: str) -> None:
        self._tell(chat, Noticed(text))

    # for control

    async def say(
        self,
        chat: str,
        text: str,
        key: str,
        *,
        attachments: Sequence[Attachment] = (),
        person: Person = OWNER,
    ) -> None:
        """Returns when it is stored; saying it again under the same key changes nothing. Raises
        Unavailable: keep it and say it again later; Rejected: it will never be accepted."""
        message = MessageId(key)
        _check(chat, key)
        for attachment in attachments:
            if self.file(attachment.ref) is None:
                raise Rejected(f"the file {attachment.name} is not here any more; attach it again")
        at, order = self._next()
        await self._publish(
            Inbound(
                key=f"m:{key}",
                address=place(chat),
                person=person,
                at=at,
                order=order,
                message=message,
                text=text,
                private=True,
                addressed=True,
                attachments=tuple(attachments),
            )
        )
        self._tell(chat, Posted(message, None))

    async def edit(
        self, chat: str, message: str, text: str | None, key: str, *, person: Person = OWNER
    ) -> None:
        """The person changed (None: took back) what was said. Raises as ``say``."""
        _check(chat, key)
        at, order = self._next()
        await self._publish(
            Edited(
                key=f"e:{key}",
                address=place(chat),
                person=person,
                at=at,
                order=order,
                message=MessageId(message),
                text=text,
            )
        )
        self._tell(chat, Posted(MessageId(message), None))

    async def answer(
        self, chat: str, message: str, choice: str, key: str, *, person: Person = OWNER
    ) -> None:
        """The person pressed a choice of ``message``. Raises as ``say``."""
        _check(chat, key)
        at, order = self._next()
        await self._publish(
            Answer(
                key=f"a:{key}",
                address=place(chat),
                person=person,
                at=at,
                order=order,
                message=MessageId(message),
                choice=choice,
                token=key,
            )
        )
        self._tell(chat, Posted(MessageId(message), None))

    async def upload(self, name: str, media_type: str, blocks: AsyncIterator[bytes]) -> Attachment:
        """A file for a message that will be said. Raises Unavailable, Rejected (too large)."""
        ref, size = await self.shelf().receive(blocks, self.max_file)
        return Attachment(ref, plain_name(name), media_type, size)

    @contextmanager
    def watch(self, chat: str, bell: asyncio.Event) -> Generator[Feed]:
        """What happens in a chat from now on; begins with its present preview and typing state.
        ``bell`` is rung with every item."""
        feed = Feed(bell)
        state = self._chats.setdefault(chat, _Chat())
        state.feeds.append(feed)
        feed.put(Preview(state.preview))
        feed.put(Typing(state.typing))
        try:
            yield feed
        finally:
            state.feeds.remove(feed)
            self._forget(chat)

    # for both

    def shelf(self) -> Shelf:
        """Raises Unavailable before the house has given us a folder."""
        if self._shelf is None:
            raise Unavailable("the browser chat is not ready yet")
        return self._shelf

    def file(self, ref: str) -> Path | None:
        """Where the file lies; None when it is not here. Raises Unavailable."""
        return self.shelf().path(ref)

    def _next(self) -> tuple[datetime, str]:
        """The time, and a number that grows with every message, also when the clock stands
        still."""
        at = self._clock()
        self._last_order = max(self._last_order + 1, int(at.timestamp() * 1_000_000))
        return at, f"{self._last_order:020d}"

    async def _publish(self, arrival: Arrival) -> None:
        if self._context is None:
            raise Unavailable("the browser chat is not ready yet")
        context = self._context
        await context.publish([arrival])
        context.heard()

    def _tell(self, chat: str, item: Live) -> None:
        for feed in self._chats.get(chat, _Chat()).feeds:
            feed.put(item)

    def _forget(self, chat: str) -> None:
        state = self._chats.get(chat)
        if state is not None and state.idle():
            del self._chats[chat]


def place(chat: str) -> Address:
    """The address of a chat of the browser."""
    return Address("web", ACCOUNT, ChatId(chat))


def _check(chat: str, key: str) -> None:
    if not CHAT.fullmatch(chat):
        raise Rejected("chat: 1 to 64 characters of A-Z a-z 0-9 : _ - are wanted")
    if not KEY.fullmatch(key):
        raise Rejected("key: 8 to 40 characters of 0-9 a-z are wanted")


class Shelf:
    """One folder of files; names are ours, so that nobody can reach outside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, name: str) -> Path | None:
        """The file under this name; None when there is none."""
        if not _FILE_NAME.fullmatch(name):
            return None
        path = self._folder / name
        return path if path.is_file() else None

    async def receive(self, blocks: AsyncIterator[bytes], limit: int) -> tuple[str, int]:
        """Write what comes; returns its name and size. Raises Rejected past ``limit`` bytes; an
        unfinished file is never seen."""
        name = secrets.token_hex(16)
        size = 0
        unfinished = self._folder / f".{name}"
        try:
            with await asyncio.to_thread(unfinished.open, "xb") as file:
                async for block in blocks:
                    size += len(block)
                    if size > limit:
                        raise Rejected(f"the file is larger than {limit} bytes; send a smaller one")
                    await asyncio.to_thread(file.write, block)
                await asyncio.to_thread(settle, file)
            await asyncio.to_thread(take_place, unfinished, self._folder / name)
        finally:
            unfinished.unlink(missing_ok=True)
        return name, size

    async def keep(self, source: Path, limit: int) -> str:
        """A copy of a local file under the hash of its bytes: keeping it again changes nothing.
        Raises Rejected."""
        return await asyncio.to_thread(self._keep, source, limit)

    def _keep(self, source: Path, limit: int) -> str:
        unfinished = self._folder / f".{secrets.token_hex(16)}"
        try:
            with source.open("rb") as original, unfinished.open("xb") as copy:
                if os.fstat(original.fileno()).st_size > limit:
                    raise Rejected(
                        f"{source.name} is larger than {limit} bytes (channels.web.max_file)"
                    )
                digest = hashlib.sha256()
                while block := original.read(_BLOCK):
                    digest.update(block)
                    copy.write(block)
                settle(copy)
            name = digest.hexdigest()[:32]
            take_place(unfinished, self._folder / name)
        except OSError as error:
            raise Rejected(f"{source.name} cannot be sent: {error.strerror or error}") from error
        finally:
            unfinished.unlink(missing_ok=True)
        return name

    async def copy_out(self, name: str, target: Path, limit: int) -> None:
        """Raises Rejected when the file is gone or larger than ``limit`` bytes."""
        path = self.path(name)
        if path is None:
            raise Rejected(f"the file {target.name} is not here any more; send it again")
        if path.stat().st_size > limit:
            raise Rejected(f"{target.name} is larger than {limit} bytes")
        await asyncio.to_thread(shutil.copyfile, path, target)


def plain_name(name: str) -> str:
    """A file name without folders, control characters or leading dots; never empty."""
    last = re.split(r"[\\/]", name)[-1]
    return "".join(c for c in last if c.isprintable()).strip().lstrip(".")[:120] or "file"
