"""Telegram as a channel: one bot, polled by ohmo itself so that nothing is confirmed before it is
stored."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from channels.competing_instance import CONFLICTS, CompetingInstance
from channels.contract import (
    Address,
    Answer,
    Arrival,
    Attachment,
    Capabilities,
    ChannelContext,
    ChatId,
    Cursor,
    Inbound,
    MessageId,
    Options,
    Outbound,
    Part,
    Receipt,
    Repeat,
    TopicId,
)
from channels.errors import NotReady, RateLimited, Rejected
from channels.payloads import Garbled, Quarantine
from channels.platform_calls import checked, downloaded, plain_name
from channels.record import Recent
from channels.telegram import Settings, inbound, render
from channels.telegram.client import Pace, Wire
from channels.telegram.updates import Malformed, Moved, TwoPollers, moved, number
from channels.text import MINUTES, wall

# Telegram Bot API, "Getting updates": updates are not kept longer than 24 hours
KEPT = timedelta(hours=24)
SEEN_EVERY = timedelta(hours=1)  # how exactly a gap after an absence can be told
ALBUMS = 100  # that are remembered, for parts that come later
TRIES = 3  # of one poll, before the connection counts as lost
# conflicts that make whoever came later leave: the other one, which saw as many, stays
CERTAIN = 2
_ADDRESS = re.compile(r"(-?\d{1,18}|@[A-Za-z]\w{3,31})(?:/(\d{1,18}))?")

log = logging.getLogger(__name__)

LARGEST_FETCHED = 20 << 20  # bytes; getFile: "bots can download files of up to 20MB in size"
# from a Bot API server of one's own, which has no bound; the same as on Slack and Feishu
LARGEST_FETCHED_THERE = 100 << 20
SILENCE = timedelta(seconds=60)  # each long poll is answered within half of it


class Telegram:
    """One bot. ``pace``: how long the wire waits."""

    def __init__(self, settings: Settings, options: Options, pace: Pace | None = None) -> None:
        self._wire = Wire(settings.token, settings.api_url, pace or Pace())
        self._options = options
        self._competing = CompetingInstance(options.state, options.clock, options.since)
        self._me = inbound.Me(int(settings.token.partition(":")[0]), "")
        self._moved: dict[int | str, int] = {}
        self._called = Recent[str | None, None](ALBUMS)  # albums whose words call us

    @property
    def capabilities(self) -> Capabilities:
        edits = self._options.streaming == "edits"
        return Capabilities(
            repeat=Repeat.RISK,
            repeat_window=timedelta(0),
            max_text=render.MAX_TEXT,
            # Bots FAQ, "My bot is hitting limits": one message a second in a chat, 20 a minute in a
            # group
            revise=timedelta(seconds=3) if edits else timedelta(seconds=1),
            preview=self._options.streaming in {None, "native", "preview"},
            choices=True,
            topics=True,
            typing=timedelta(seconds=5),  # sendChatAction: "5 seconds or less"
            silence=SILENCE,
            # Sending files: "50 MB max size for other files"; Using a Local Bot API Server: "up to
            # 2000 MB"
            max_file=(2000 if self._wire.own_server else 50) * 1024 * 1024,
        )

    @property
    def account(self) -> str:
        return str(self._me.id)

    @property
    def handle(self) -> str:
        return self._me.name

    @property
    def wary(self) -> bool:
        return self._competing.rested is not None

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        async with self._wire.open():
            number, name = await checked("Telegram", 2 * self._wire.pace.connect, self._wire.who())
            self._me = inbound.Me(number, name)
            yield

    async def receive(self, context: ChannelContext) -> None:
        """Polls for ever. An update is confirmed by the poll after the commit of its batch, and
        only by that one: a bot that heard nothing for a week gets new, lower numbers (Update,
        update_id), which an old offset would throw away."""
        oldest = self._options.clock() - context.catch_up[0]
        seen = await self._look_back(context)
        aside = Quarantine(context.state / "malformed", "telegram")
        doubles = Doubles(self._competing, self._wire.pace)
        await doubles.alone(lambda hold: self._poll(None, hold, aside, doubles))
        offset: int | None = None
        while True:
            batch = await self._poll(offset, self._wire.pace.poll, aside, doubles)
            doubles.heard()
            context.heard()
            now = self._options.clock()
            if not batch:
                offset = None
                if now - seen >= SEEN_EVERY:
                    seen = await self._remember(context, [], now)
                continue
            numbers = [update_id for raw in batch if (update_id := number(raw)) is not None]
            if not numbers:
                raise NotReady("Telegram: updates without update_id came; they cannot be confirmed")
            for raw in batch:
                move = moved(raw)
                if move is None:
                    continue
                # A group that became a supergroup has another number, which the owner may have
                # written down.
                old, new = move
                self._moved[old] = new
                await context.missed(
                    f"Telegram: the group {old} is a supergroup now, under the number"
                    f" {new}. What is meant for the old number goes there; where"
                    f" channels.telegram.allow.groups or a rule names {old}, write {new}."
                )
            arrivals = inbound.fenced(self._read(batch, aside, now), oldest)
            seen = await self._remember(context, arrivals, now)
            offset = max(numbers) + 1

    async def _poll(
        self, offset: int | None, hold: int, aside: Quarantine, doubles: Doubles
    ) -> list[object]:
        """One batch, waited for so many seconds. A poll that fails confirms nothing and is asked
        again, without waiting for news, so that an outage is known within a minute; sends go on
        meanwhile. After the last try what went wrong is raised, and the house connects anew."""
        pace = self._wire.pace
        failed = 0
        while True:
            asked = time.monotonic()
            try:
                return await self._wire.updates(offset, 0 if failed else hold)
            except TwoPollers as conflict:
                await doubles.conflict(str(conflict), time.monotonic() - asked)
            except (NotReady, RateLimited) as failure:
                if isinstance(failure, Garbled):
                    aside.keep(failure.body)
                failed += 1
                if failed == TRIES:
                    raise
                log.info("Telegram: a poll is asked again: %s", failure)
                # Drawn so that many bots do not come back at once; a wait that was asked for comes
                # first (ResponseParameters, retry_after).
                pause = random.uniform(0, pace.soon * 2 ** (failed - 1))  # noqa: S311 - no secret
                if isinstance(failure, RateLimited):
                    pause += failure.retry_after
                await asyncio.sleep(pause)

    def _read(self, batch: Sequence[object], aside: Quarantine, now: datetime) -> list[Arrival]:
        """The words of an album stand under one of its parts, and its parts may come in several
        batches: whom they call, all of it calls."""
        arrivals: list[Arrival] = []
        for raw in batch:
            try:
                arrivals += inbound.arrivals(raw, self._me, now)
            except Malformed as malformed:
                name = f"update-{number(raw)}"
                aside.pass_over(f"{name}: it {malformed}", raw, name)
        for arrival in arrivals:
            if isinstance(arrival, Inbound) and arrival.album is not None and arrival.addressed:
                self._called[arrival.album] = None
        for index, arrival in enumerate(arrivals):
            if isinstance(arrival, Inbound) and arrival.album in self._called:
                arrivals[index] = replace(arrival, addressed=True)
        return arrivals

    def _place(self, address: Address) -> int | str:
        chat = render.chat_of(address)
        return self._moved.get(chat, chat)

    async def _remember(
        self, context: ChannelContext, arrivals: Sequence[Arrival], now: datetime
    ) -> datetime:
        await context.publish(arrivals, Cursor("seen", now.isoformat()))
        return now

    async def _look_back(self, context: ChannelContext) -> datetime:
        """When this bot was last listened to; says so when Telegram may have thrown messages away
        since."""
        now = self._options.clock()
        value = await context.cursor("seen")
        try:
            seen = datetime.fromisoformat(value) if value is not None else now
        except ValueError:
            seen = now
        if now - seen > KEPT:
            await context.missed(
                "Telegram keeps messages for 24 hours only: messages between"
                f" {seen.astimezone(context.zone):{MINUTES}} and {wall(now - KEPT, context.zone)}"
                " may be missing."
            )
        if value is not None:
            return seen
        return now - SEEN_EVERY

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render.render(outbound)

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def upload(self, part: Part) -> str:  # the Bot API uploads and shows in one call
        return ""

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        payload: dict[str, Any] = json.loads(part.payload)  # the Bot API knows no keys
        stored: int | str = payload["chat_id"]
        chat = self._moved.get(stored, stored)
        payload["chat_id"] = chat
        try:
            match part.kind:
                case "edit":
                    await self._wire.edit(payload)
                case "delete":
                    await self._wire.delete(chat, render.number(part.target or MessageId("")))
                case "post":
                    return await self._wire.post(payload)
                case "file" if "album" in payload:
                    return await self._wire.post_album(payload)
                case "file":
                    return await self._wire.post_file(payload)
        except Moved as moved:  # nothing was shown; the same part finds its way the next time
            self._moved[stored] = moved.chat
            raise RateLimited(0.0) from moved
        assert part.target is not None
        return Receipt(part.target)

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        """Bots cannot read a chat's history: Repeat.RISK never asks."""
        raise NotReady("Telegram cannot look for a message")

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        made = render.newest(text)
        chat = self._place(address)
        if receipt is not None:
            await self._wire.edit(
                {
                    "chat_id": chat,
                    "message_id": render.number(receipt.message),
                    "text": made,
                    "parse_mode": "HTML",
                    "link_preview_options": {"is_disabled": True},
                }
            )
        elif isinstance(chat, int) and chat > 0:  # drafts exist in private chats only
            draft = zlib.crc32(repr((address.chat, address.topic)).encode()) % 0x7FFFFFFF + 1
            await self._wire.draft(chat, draft, made, render.topic_of(address))

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        path = into / f"{zlib.crc32(attachment.ref.encode()):08x}-{plain_name(attachment)}"
        limit = min(limit, LARGEST_FETCHED_THERE if self._wire.own_server else LARGEST_FETCHED)
        return await downloaded(
            "Telegram",
            attachment,
            path,
            limit,
            lambda path, most: self._wire.download(attachment.ref, path, most),
        )

    async def typing(self, address: Address, on: bool) -> None:
        """Telegram ends it by itself, with our next message or after five seconds."""
        if on:
            await self._wire.act(self._place(address), render.topic_of(address))

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """A press that is too old to be answered needs no answer any more."""
        try:
            await self._wire.answer(answer.token, text[:200])
        except Rejected as refused:
            if "query is too old" not in str(refused).lower():
                raise

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        """BotCommand takes [a-z0-9_]{1,32} and 1 to 256 characters, setMyCommands at most 100."""
        fitting = [
            (name, line[:256])
            for name, line in commands
            if re.fullmatch(r"[a-z0-9_]{1,32}", name) and line.strip()
        ]
        await self._wire.menu(fitting[:100])

    def parse_address(self, text: str) -> Address:
        """``-100123``, ``-100123/77`` (a topic), ``4711`` (a person), ``@name`` (a public
        group)."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is no Telegram address: say -100123, -100123/77 (a topic), 4711 (a"
                " person) or @name (a public group)"
            )
        chat, topic = match.groups()
        return Address(
            channel="telegram",
            account=self.account,
            chat=ChatId(chat),
            topic=TopicId(topic) if topic else None,
        )


class Doubles:
    """Of one connection: a second program on the same bot. Whoever polls ends the poll of the other
    one, and Telegram says so (409).

    Source: Telegram Bot API, "Getting updates"; getUpdates, ``offset``: what no later poll
    confirmed stays, for whoever asks. After a kill the platform may refuse a poll because it holds
    our former life's for a moment; a poll that it took and then ended was ended by somebody who
    lives."""

    def __init__(self, competing: CompetingInstance, pace: Pace) -> None:
        self._competing = competing
        self._pace = pace
        self._heard = False

    def heard(self) -> None:
        """A poll came to its end."""
        self._heard = True
        self._competing.calm()

    async def conflict(self, what: str, lasted: float) -> None:
        """After ``lasted`` seconds of a poll. Waits until it may be asked again. Raises InUse."""
        if self._heard:
            self._competing.conflict(what, again=CONFLICTS)
            await asyncio.sleep(self._pace.conflict)
        else:
            enough = CERTAIN if lasted >= self._pace.held else CONFLICTS
            self._competing.conflict(what, enough=enough, again=CERTAIN)
            await asyncio.sleep(self._pace.former)

    async def alone(self, poll: Callable[[int], Awaitable[list[object]]]) -> None:
        """After a stop, until it is clear whether the other one is gone. ``poll``, for so many
        seconds, takes nothing: what is there stays for the other one, and what it took meanwhile
        shows that it is there. Raises InUse, and what ``poll`` raises."""
        if self._competing.rested is None:
            return
        updates = await poll(self._pace.poll)
        if not updates:
            return
        await asyncio.sleep(self._pace.former)
        if number(updates[0]) not in {number(update) for update in await poll(0)}:
            self._competing.conflict("Telegram: somebody else takes what is said to this bot")
