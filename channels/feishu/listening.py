"""Hearing Feishu: events become stored arrivals and only then are answered."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, cast

from channels.catch_up import Backlog, CatchUp, Missed
from channels.contract import Address, Answer, Arrival, ChannelContext, ChatId, Clock, Inbound
from channels.errors import AuthFailed, NotReady, RateLimited, Rejected, finish_all, main_error
from channels.feishu import inbound
from channels.feishu.chats import PRIVATE_NAME, Extras, History, Memory, Own
from channels.feishu.client import Wire
from channels.feishu.client_line import Delivery, Feed, feed
from channels.feishu.content import moment, word
from channels.feishu.feedback import Presses
from channels.feishu.inbound import EventContext, Spoken
from channels.payloads import Body, Malformed, Quarantine, soft
from channels.platform_calls import Names, why_lost

_log = logging.getLogger(__name__)

READERS = 4  # first contacts whose history is read at the same time, later
# First contacts at the same time whose history is read before their words are stored; in a crowd
# it is read later.
STRANGERS = 16
LOOK = 1.5  # seconds for that: Feishu waits three for its answer
# Seconds nobody answers words that were stored before what was said earlier could be looked for.
SETTLES = 6.0
_NOT_STORED: Body = {
    "toast": {
        "type": "error",
        "content": "ohmo could not store this. Please press again in a moment.",
    }
}

Event = tuple[Delivery, Body]


class Listening:
    """One ``receive``: from the opening of the long connection until it is gone."""

    title = "Feishu"

    def __init__(
        self,
        wire: Wire,
        context: ChannelContext,
        bot: str,
        *,
        names: Names,
        own: Own,
        presses: Presses,
        clock: Clock,
    ) -> None:
        """``bot``: our bot's open_id."""
        self._wire = wire
        self._context = context
        self._clock = clock
        self._names = names
        self._own = own
        self._presses = presses
        self._memory = Memory()
        self._unreadable = Quarantine(context.state / "malformed", "feishu")
        self._history = History(wire, self._unreadable)
        self._extras = Extras(wire, own)
        self._event_context = EventContext(
            app=wire.app,
            bot=bot,
            names=names.known,
            follows=self._memory.follows,
            is_ours=own.is_ours,
            topic_of=own.topic_of,
            quoted=self._extras.quoted,
            inside=self._extras.inside,
        )
        self._group = asyncio.TaskGroup()
        self._catch_up = CatchUp(self, context, self._unreadable)
        self._backlog = Backlog[Event](self._deliver, self._catch_up.read, self._group)
        self._readers = asyncio.Semaphore(READERS)
        self._strangers = 0

    async def run(self, line: Feed | None) -> None:
        """``line``: one that is open already, closed here. Raises ChannelError, or Unavailable from
        ``publish``."""
        async with feed(self._wire) if line is None else line.lent() as opened:
            try:
                async with self._group as group:
                    group.create_task(self._find_chats(), name="feishu catch-up")
                    await self._live(opened)
            except BaseExceptionGroup as failed:
                # Not stored: Feishu delivers again. Callbacks are not delivered again, so their
                # person is told.
                for delivery, payload in self._backlog.not_stored():
                    if inbound.kind_of(payload) == inbound.PRESSED:
                        await delivery.line.answer(delivery, HTTPStatus.OK, _NOT_STORED)
                    else:
                        await delivery.line.answer(delivery, HTTPStatus.INTERNAL_SERVER_ERROR)
                failure = main_error(failed, AuthFailed)
                if isinstance(failure, NotReady):
                    await why_lost(self._wire.call("GET", "/open-apis/bot/v3/info"))
                raise failure from None

    # live

    async def _live(self, line: Feed) -> None:
        while True:
            deliveries = await self._backlog.next(line.take)
            if line.heard:
                self._context.heard()
            for delivery in deliveries:
                payload = self._decoded(delivery)
                if payload is None:
                    # Any other answer would bring it again and again.
                    await delivery.line.answer(delivery, HTTPStatus.OK)
                    continue
                chat = inbound.chat_of(payload) or self._extras.known_chat(payload)
                if chat or not inbound.is_reaction(payload):
                    self._backlog.line_up(chat, (delivery, payload))
                else:
                    self._group.create_task(self._seek(delivery, payload), name="feishu reaction")

    async def _seek(self, delivery: Delivery, payload: Body) -> None:
        """A reaction names its message only: one more question, for which nobody else waits."""
        self._backlog.line_up(await self._extras.chat_of(payload), (delivery, payload))

    def _decoded(self, delivery: Delivery) -> Body | None:
        if delivery.frame is None:
            self._unreadable.pass_over("a frame that is none of the protocol's", delivery.raw)
            return None
        try:
            payload: Any = json.loads(delivery.payload)
        except (ValueError, RecursionError):
            payload = None
        if isinstance(payload, dict):
            return cast("Body", payload)
        self._unreadable.pass_over("an event that is no JSON object", delivery.payload)
        return None

    async def _deliver(self, chat: str, events: list[Event]) -> None:
        """Store what the events say, then answer them. Raises Unavailable, and ChannelError."""
        messages: list[tuple[Body, Spoken | None]] = []  # None: another event
        for _, payload in events:
            try:
                messages.append((payload, inbound.spoken_in(payload)))
            except Malformed as error:
                what = f"an event of type {inbound.MESSAGE}: {error}"
                self._unreadable.pass_over(what, payload)
        await self._prepare(chat, messages)
        arrivals: dict[str, Arrival] = {}
        early = self._memory.heard(chat) > 0  # what was said before is not read yet
        for payload, spoken in messages:
            try:
                for event in inbound.read(payload, self._event_context, spoken):
                    waits = early and isinstance(event, Inbound)
                    arrival = replace(event, settles=SETTLES) if waits else event
                    arrivals.setdefault(arrival.key, arrival)
                    self._follow(arrival, spoken)
            except Malformed as error:
                kind = inbound.kind_of(payload) or "nothing"
                self._unreadable.pass_over(f"an event of type {kind}: {error}", payload)
        tokens = {arrival.token for arrival in arrivals.values() if isinstance(arrival, Answer)}
        for token in tokens:
            self._presses.expect(token)
        if arrivals:
            newest = max((spoken.ms for _, spoken in messages if spoken is not None), default=0)
            batch = sorted(arrivals.values(), key=lambda arrival: arrival.order)
            cursor = self._memory.cursor(chat, newest) if chat and newest else None
            await self._context.publish(batch, cursor)
        for delivery, payload in events:
            token = word(soft(payload, "header"), "event_id")
            if token in tokens:
                self._group.create_task(self._answer_press(delivery, token), name="feishu press")
            else:
                await delivery.line.answer(delivery, HTTPStatus.OK)
        if self._memory.begins(chat):
            self._group.create_task(self._look_back(chat), name="feishu first contact")

    async def _answer_press(self, delivery: Delivery, token: str) -> None:
        """Card callback: an answer within three seconds; the house's own words when they come in
        time."""
        words = await self._presses.words(token, self._wire.pace.answer)
        result: Body = {}
        if words:
            result = {"toast": {"type": "info", "content": words}}
        await delivery.line.answer(delivery, HTTPStatus.OK, result)

    async def _prepare(self, chat: str, messages: Sequence[tuple[Body, Spoken | None]]) -> None:
        """What must be known before words are read and stored. It is asked for side by side,
        because a burst waits for all of it."""
        works = self._unknown([spoken for _, spoken in messages if spoken is not None])
        private = [
            spoken.ms
            for payload, spoken in messages
            if spoken is not None and spoken.person and inbound.is_private(payload)
        ]
        is_new = chat != "" and not self._memory.knows(chat)
        if is_new or (private and not self._memory.has_met(chat)):
            works.append(self._open(chat, private))
        await finish_all(works)

    async def _open(self, chat: str, private: list[int]) -> None:
        """How far a chat was read. ``private``: ms of one-to-one words in it."""
        if chat and not self._memory.knows(chat):
            self._memory.load(chat, await self._context.cursor(chat))
        if not private:
            return
        # Nobody lists one-to-one chats: who spoke to us there is remembered before what was said,
        # which is stored before what was said earlier could be looked for.
        cursor = self._memory.meet(chat, min(private))
        if cursor is not None:
            try:
                await self._context.publish((), cursor)
            except BaseException:
                self._memory.forget(chat)
                raise
        if not self._memory.unread(chat) or self._strangers >= STRANGERS:
            return
        # We never heard of it: what was said there while nobody listened is answered before what is
        # said now. A history that cannot be had in time is looked for later.
        self._strangers += 1
        try:
            async with asyncio.timeout(LOOK):
                await self._catch_up.read(chat)
        except (TimeoutError, NotReady, RateLimited, Rejected) as error:
            why = error or "no answer in time"
            _log.info("feishu: %s: what was said before is looked for later (%s)", chat, why)
        finally:
            self._strangers -= 1

    async def _look_back(self, chat: str) -> None:
        """What ``_open`` had no time for."""
        await asyncio.sleep(self._wire.pace.lull)
        async with self._readers:
            await self._catch_up.read(chat)

    def _unknown(self, messages: Sequence[Spoken]) -> list[Coroutine[Any, Any, None]]:
        """Notes what messages show beside their own words; what has to be asked for: names of new
        people, quoted and forwarded messages."""
        for spoken in messages:
            for _, person, name in spoken.mentions:
                self._names.tell(person, name)
            self._own.place(spoken.id, spoken.chat, spoken.topic)
        people = [spoken for spoken in messages if spoken.person]
        senders = {spoken.sender for spoken in people}
        works: list[Coroutine[Any, Any, None]] = [self._names.learn(senders, self._group)]
        lacking = [spoken for spoken in people if self._extras.lacks(spoken)]
        if lacking:
            works.append(self._extras.learn(lacking, self._event_context))
        return works

    def _follow(self, arrival: Arrival, spoken: Spoken | None) -> None:
        """A thread in which we were called stays ours to hear, also after a restart: it travels in
        the cursor."""
        if not isinstance(arrival, Inbound) or spoken is None or arrival.private:
            return
        address = arrival.address
        if arrival.addressed and address.topic is not None:
            self._memory.follow(address.chat, address.topic, spoken.thread)

    # catch-up (channels.catch_up.History)

    async def _find_chats(self) -> None:
        self._memory.load_private(await self._context.cursor(PRIVATE_NAME))
        chats = list(self._memory.private)
        try:
            chats += await self._history.groups()
        except Rejected as refused:
            await self._context.missed(
                f"{refused}. What was said in Feishu groups while ohmo was away may be missing."
            )
        self._backlog.catch_up(chats)

    def name(self, chat: str) -> str:
        return chat

    async def missed(self, chat: str) -> Missed[Spoken] | None:
        age, most = self._context.catch_up
        self._memory.load(chat, await self._context.cursor(chat))
        since = self._memory.since(chat)
        heard = self._memory.heard(chat)
        threads = self._memory.threads(chat)
        fence = self._clock() - age
        try:
            missed, ours = await self._history.missed(
                chat, since, threads, fence, most, heard=heard
            )
        except Rejected as refused:
            self._memory.looked_back(chat)
            if not heard:
                raise
            _log.info("feishu: %s: what was said before cannot be read: %s", chat, refused)
            return None  # of a first contact nothing need be missing
        coming = {inbound.message_id(payload) for _, payload in self._backlog.waiting(chat)}
        missed.take_back(coming, lambda row: row.id)
        for row in ours:
            self._own.said(row.id)
            self._own.place(row.id, chat, row.topic)
        people = [row for row in missed.said + missed.changed if row.person]
        await finish_all(self._unknown(people))
        return missed

    def arrival(self, chat: str, row: Spoken, *, changed: bool) -> Arrival | None:
        if not row.person:
            return None
        if changed:
            return inbound.edited(row, self._event_context)
        message = inbound.message(row, self._event_context, private=self._memory.has_met(chat))
        self._follow(message, row)
        return message

    def said_at(self, row: Spoken) -> datetime | None:
        if row.person:
            return moment(row.ms)
        return None

    def notice_to(self, chat: str, missed: Missed[Spoken]) -> Address | None:
        mentioned = {person for row in missed.left if row.person for _, person, _ in row.mentions}
        called = self._event_context.bot in mentioned
        if not (self._memory.has_met(chat) or called or missed.more):
            return None
        return Address("feishu", self._wire.app, ChatId(chat))

    async def store(self, chat: str, missed: Missed[Spoken], arrivals: Sequence[Arrival]) -> None:
        heard = self._memory.heard(chat)
        self._memory.looked_back(chat)
        if not arrivals and not missed.left and not heard:
            return
        newest = max((row.ms for row in missed.said + missed.left), default=0)
        try:
            await self._context.publish(arrivals, self._memory.cursor(chat, newest))
        except BaseException:  # the time of _open is over in the middle of it, too
            self._memory.found_not_stored(chat, heard)
            raise
