"""Hearing Slack: envelopes become stored arrivals and only then acknowledgements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from channels.catch_up import Backlog, CatchUp, Missed
from channels.contract import Address, Arrival, ChannelContext, ChatId, Inbound, Options, TopicId
from channels.errors import AuthFailed, ChannelError, NotReady, main_error
from channels.payloads import Body, Malformed, Quarantine, soft
from channels.platform_calls import Names, why_lost
from channels.record import record
from channels.slack import inbound
from channels.slack.client import Feed, Wire
from channels.slack.client_socket import Frame
from channels.slack.history import Conversation, Doubles, History, Memory
from channels.slack.inbound import Place, order
from channels.slack.mrkdwn import escape
from channels.slack.surfaces import Courtesies, Slashes, Streams
from channels.stale_typing import OpenIndicators

_log = logging.getLogger(__name__)

ROOT = 1.5  # seconds for showing a slash command's words; Slack wants it acknowledged within three
SHOWN = 3000  # characters of them


@record
class Identity:
    """Our bot in one workspace."""

    team: str
    user: str  # its id as a user
    bot: str  # its id as a bot


class Listening:
    """One ``receive``: from the first hello until the connection is gone."""

    title = "Slack"

    def __init__(
        self,
        wire: Wire,
        context: ChannelContext,
        names: Names,
        options: Options,
        identity: Identity,
        *,
        slashes: Slashes,
        streams: Streams,
        doubles: Doubles,
    ) -> None:
        self._wire = wire
        self._context = context
        self._clock = options.clock
        self._invited = options.invited
        self._names = names
        self._slashes = slashes
        self._streams = streams
        self._doubles = doubles
        self._courtesies = Courtesies(
            wire, options.about, OpenIndicators(context.state, "untitled.json")
        )
        self._memory = Memory()
        self._place = Place(
            account=identity.team,
            user=identity.user,
            bot=identity.bot,
            now=options.clock,
            names=names.known,
            follows=self._memory.follows,
            topic_of=self._memory.topic_of,
            is_order=slashes.is_order,
        )
        self._history = History(wire, identity.user, doubles.looks_back)
        self._conversations: dict[str, Conversation] = {}
        self._unreadable = Quarantine(context.state / "malformed", "slack")
        self._group = asyncio.TaskGroup()
        catch_up = CatchUp(self, context, self._unreadable)
        self._backlog = Backlog(self._deliver, catch_up.read, self._group)

    async def run(self) -> None:
        """Raises ChannelError, or Unavailable from ``publish``."""
        async with self._wire.feed() as feed:
            try:
                async with self._group as group:
                    group.create_task(self._catch_up(), name="slack catch-up")
                    group.create_task(self._courtesies.run(), name="slack courtesies")
                    group.create_task(self._doubles.run(), name="slack doubles")
                    await self._live(feed)
            except BaseExceptionGroup as failed:
                failure = main_error(failed, AuthFailed)
                if isinstance(failure, NotReady):
                    await why_lost(self._wire.read("auth.test"))
                raise failure from None

    # live

    async def _live(self, feed: Feed) -> None:
        while True:
            frames = await self._backlog.next(feed.take)
            if feed.heard:
                self._context.heard()
            for frame in frames:
                if frame.kind == "disconnect":
                    # Using Socket Mode, "Disconnecting": Slack renews its containers and announces
                    # it; each reason has its own answer.
                    if frame.reason == "link_disabled":
                        raise AuthFailed(
                            "Slack: Socket Mode is switched off for this app: "
                            "switch it on at api.slack.com/apps, Socket Mode"
                        )
                    if frame.reason == "too_many_websockets":
                        raise NotReady(
                            "Slack: the app has too many Socket Mode connections: "
                            "is another process using the same app token?"
                        )
                    if feed.is_current(frame.line):
                        await feed.renew()
                elif not frame.kind:
                    self._unreadable.pass_over(
                        "a frame that is no JSON object with a type", frame.raw
                    )
                elif frame.envelope:
                    chat = inbound.chat_of(frame.kind, frame.payload or {})
                    # Presses and slash commands stand in no history, and whoever gave one sees a
                    # failure after three seconds.
                    self._backlog.line_up(chat, frame, waits=frame.kind == "events_api")

    async def _deliver(self, chat: str, frames: list[Frame]) -> None:
        """Store what the envelopes say, then acknowledge them. Unavailable acknowledges nothing:
        Slack delivers again."""
        if chat and not self._memory.knows(chat):
            self._memory.load(chat, await self._context.cursor(chat))
        people = [inbound.people_of(frame.kind, frame.payload or {}) for frame in frames]
        await self._names.learn(set[str]().union(*people), self._group)
        arrivals: dict[str, Arrival] = {}
        newest = ""
        for frame in frames:
            try:
                if frame.payload is None:
                    raise Malformed("the envelope has no payload")
                newest = max(newest, self._note(frame), key=order)
                for message in inbound.read(frame.kind, frame.payload, self._place):
                    is_command = frame.kind == "slash_commands"
                    arrival = await self._rooted(message, frame.payload) if is_command else message
                    arrivals.setdefault(arrival.key, arrival)
                    self._follow(arrival)
            except Malformed as error:
                self._unreadable.pass_over(
                    f"an envelope of type {frame.kind}: {error}", frame.payload, frame.envelope
                )
        if arrivals:
            batch = sorted(arrivals.values(), key=lambda arrival: arrival.order)
            cursor = self._memory.cursor(chat, newest) if chat else None
            await self._context.publish(batch, cursor)
        for frame in frames:
            await frame.line.acknowledge(frame.envelope)
            if frame.kind == "events_api":
                await self._courtesies.event(frame.payload or {})
        for arrival in arrivals.values():
            self._courtesies.heard(arrival)

    async def _rooted(self, message: Arrival, payload: Body) -> Arrival:
        """A slash command leaves no message behind. In a channel its words are shown, so that the
        answer has a thread to stand in; not those of somebody who is not heard there, and where we
        may not post the answer goes to its person alone."""
        if not isinstance(message, Inbound):
            return message
        url = str(payload.get("response_url") or "")
        self._slashes.note(message.address.chat, message.person.id, url)
        heard = self._invited is None or self._invited(message.address, message.person, False)
        if message.private or message.text.startswith("/") or not heard:
            return message
        text = f"<@{message.person.id}>: {escape(message.text)}"
        body: Body = {"channel": message.address.chat, "text": text[:SHOWN]}
        body |= {"unfurl_links": False, "unfurl_media": False}
        try:
            async with asyncio.timeout(ROOT):
                sent = await self._wire.write("chat.postMessage", body, once=True)
        except AuthFailed:
            raise
        except (ChannelError, TimeoutError):
            return message
        ts = sent.get("ts")
        if not isinstance(ts, str):
            return message
        return replace(message, address=replace(message.address, topic=TopicId(ts)))

    def _note(self, frame: Frame) -> str:
        """Learns where a message stands, also from our own posts, which come back; its ts, or
        ""."""
        row = soft(frame.payload or {}, "event")
        if frame.kind != "events_api" or row.get("type") not in {"message", "app_mention"}:
            return ""
        if row.get("subtype") in {"message_changed", "message_deleted"}:
            return ""
        chat = str(row.get("channel", ""))
        if self._place.user == row.get("user"):
            self._doubles.echo(chat, row)
        return self._note_row(chat, row)

    def _note_row(self, chat: str, row: Body) -> str:
        ts = row.get("ts")
        thread = row.get("thread_ts")
        if not isinstance(ts, str):
            return ""
        if isinstance(thread, str) and thread != ts:
            self._memory.place(chat, ts, thread)
            if row.get("user") == self._place.user:
                self._memory.follow(chat, thread)
        return ts

    def _follow(self, arrival: Arrival) -> None:
        """A thread in which we were called stays ours to hear, also after a restart: it travels in
        the cursor."""
        if isinstance(arrival, Inbound) and arrival.addressed and arrival.address.topic is not None:
            self._memory.follow(arrival.address.chat, arrival.address.topic)
            self._streams.asked(arrival.address.chat, arrival.address.topic, arrival.person.id)

    # catch-up (channels.catch_up.History)

    async def _catch_up(self) -> None:
        for conversation in await self._history.conversations():
            self._conversations[conversation.id] = conversation
        self._backlog.catch_up(self._conversations)

    def name(self, chat: str) -> str:
        return chat

    async def missed(self, chat: str) -> Missed[Body]:
        age, most = self._context.catch_up
        self._memory.load(chat, await self._context.cursor(chat))
        since = self._memory.since(chat)
        threads = self._memory.threads(chat)
        missed, ours = await self._history.missed(chat, since, threads, self._clock() - age, most)
        waiting = self._backlog.waiting(chat)
        coming = {inbound.said_at(frame.payload or {}) for frame in waiting}
        missed.take_back(coming, lambda row: row["ts"])
        for row in ours:
            self._note_row(chat, row)
            self._doubles.judge(row)
        events = [{"event": row} for row in missed.said + missed.changed]
        people = [inbound.people_of("events_api", event) for event in events]
        await self._names.learn(set[str]().union(*people), self._group)
        return missed

    def arrival(self, chat: str, row: Body, *, changed: bool) -> Arrival | None:
        self._note_row(chat, row)
        read = inbound.edited if changed else inbound.message
        arrival = read(row, chat, self._place, private=self._conversations[chat].private)
        if arrival is not None:
            self._follow(arrival)
        return arrival

    def said_at(self, row: Body) -> datetime | None:
        if not inbound.is_spoken(row, self._place) or inbound.is_bots(row):
            return None
        return inbound.moment(row["ts"])

    def notice_to(self, chat: str, missed: Missed[Body]) -> Address | None:
        texts = [str(row.get("text", "")) for row in missed.left if self.said_at(row)]
        called = any(self._place.user in inbound.people_in(text) for text in texts)
        if not (self._conversations[chat].private or called or missed.more):
            return None
        return Address("slack", self._place.account, ChatId(chat))

    async def store(self, chat: str, missed: Missed[Body], arrivals: Sequence[Arrival]) -> None:
        if arrivals or missed.left:
            rows = missed.said + missed.left
            newest = max((row["ts"] for row in rows), key=order, default="")
            await self._context.publish(arrivals, self._memory.cursor(chat, newest))
