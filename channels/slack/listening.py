"""Hearing Slack: envelopes become stored arrivals and only then acknowledgements; a chat's live
events wait behind its catch-up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Any, cast

from channels.cleaning import cleaned
from channels.contract import Address, Arrival, ChannelContext, ChatId, Inbound, Options, TopicId
from channels.errors import AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.gaps import in_place, left_out
from channels.payloads import Body, Malformed, Quarantine
from channels.slack import inbound
from channels.slack.client import Feed, Frame, Wire
from channels.slack.courtesies import Courtesies
from channels.slack.doubles import Doubles
from channels.slack.history import Conversation, History, Missed
from channels.slack.inbound import Place, order
from channels.slack.memory import Memory, Names
from channels.slack.mrkdwn import escape
from channels.slack.slashes import Slashes
from channels.slack.streams import Streams
from channels.stale_typing import OpenIndicators
from channels.task_groups import finish_all, main_error

_log = logging.getLogger(__name__)

READERS = 4  # conversations that are caught up at the same time
PATIENCE = 2.0  # seconds for the question why a connection was lost
ROOT = 1.5  # seconds for showing a slash command's words; Slack wants it acknowledged within three
SHOWN = 3000  # characters of them


class Listening:
    """One ``receive``: from the first hello until the connection is gone."""

    def __init__(
        self,
        wire: Wire,
        context: ChannelContext,
        who: tuple[str, str, str],
        names: Names,
        options: Options,
        known: tuple[Slashes, Streams, Doubles],
    ) -> None:
        """``who``: our team's id, our bot's user id and its bot id."""
        self._wire = wire
        self._context = context
        self._clock = options.clock
        self._invited = options.invited
        self._names, (self._slashes, self._streams, self._doubles) = names, known
        self._courtesies = Courtesies(
            wire, options.about, OpenIndicators(context.state, "untitled.json")
        )
        self._memory = Memory()
        self._place = Place(
            who[0],
            who[1],
            options.clock,
            names.known,
            self._memory.follows,
            self._memory.topic_of,
            self._slashes.is_order,
            who[2],
        )
        self._history = History(wire, who[1], self._doubles.looks_back)
        self._listed = False  # until the conversations are known every chat waits
        self._behind: dict[str, Conversation | None] = {}  # chats whose catch-up is not done
        self._backlog: dict[str, list[Frame]] = {}  # their live envelopes, unacknowledged
        self._aside = Quarantine(context.state / "malformed", "slack")

    async def run(self) -> None:
        """Raises ChannelError, or Unavailable from ``publish``."""
        async with self._wire.feed() as feed:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._catch_up(), name="slack catch-up")
                    group.create_task(self._courtesies.run(), name="slack courtesies")
                    group.create_task(self._doubles.run(), name="slack doubles")
                    await self._live(feed)
            except BaseExceptionGroup as failed:
                failure = main_error(failed, AuthFailed)
                if isinstance(failure, NotReady):
                    await self._ask_why()
                raise failure from None

    async def _ask_why(self) -> None:
        """A revoked app is cut off without a word: AuthFailed is the truth then, and NotReady would
        only repeat the question."""
        with contextlib.suppress(NotReady, RateLimited, Rejected, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._wire.read("auth.test")

    # live

    async def _live(self, feed: Feed) -> None:
        while True:
            frames = await feed.take()
            if feed.heard:
                self._context.heard()
            ready: dict[str, list[Frame]] = {}
            for frame in frames:
                if frame.kind == "disconnect":
                    await self._disconnected(feed, frame)
                elif not frame.kind:
                    self._aside.pass_over("a frame that is no JSON object with a type", frame.raw)
                elif frame.envelope:
                    chat = inbound.chat_of(frame.kind, frame.payload or {})
                    # Presses and slash commands stand in no history, and whoever gave one sees a
                    # failure after three seconds.
                    waits = frame.kind == "events_api" and (
                        not self._listed or chat in self._behind
                    )
                    (self._backlog if waits and chat else ready).setdefault(chat, []).append(frame)
            if ready:
                await finish_all(self._deliver(chat, frames) for chat, frames in ready.items())

    async def _disconnected(self, feed: Feed, frame: Frame) -> None:
        """Using Socket Mode, "Disconnecting": Slack renews its containers and announces it; each
        reason has its own answer."""
        if frame.reason == "link_disabled":
            raise AuthFailed(
                "Slack: Socket Mode is switched off for this app: switch it on at"
                " api.slack.com/apps, Socket Mode"
            )
        if frame.reason == "too_many_websockets":
            raise NotReady(
                "Slack: the app has too many Socket Mode connections: is another process using the"
                " same app token?"
            )
        if feed.is_current(frame.line):
            await feed.renew()

    async def _deliver(self, chat: str, frames: list[Frame]) -> None:
        """Store what the envelopes say, then acknowledge them. Unavailable acknowledges nothing:
        Slack delivers again."""
        if chat and not self._memory.knows(chat):
            self._memory.load(chat, await self._context.cursor(chat))
        await self._names.learn(
            set[str]().union(
                *(inbound.people_of(frame.kind, frame.payload or {}) for frame in frames)
            )
        )
        arrivals: dict[str, Arrival] = {}
        newest = ""
        for frame in frames:
            try:
                if frame.payload is None:
                    raise Malformed("the envelope has no payload")
                newest = max(newest, self._note(frame), key=order)
                for arrival in inbound.read(frame.kind, frame.payload, self._place):
                    said = (
                        await self._rooted(arrival, frame.payload)
                        if frame.kind == "slash_commands"
                        else arrival
                    )
                    arrivals.setdefault(said.key, said)
                    self._follow(said)
            except Malformed as error:
                self._aside.pass_over(
                    f"an envelope of type {frame.kind}: {error}", frame.payload, frame.envelope
                )
        if arrivals:
            batch = sorted(arrivals.values(), key=lambda arrival: arrival.order)
            await self._context.publish(batch, self._memory.cursor(chat, newest) if chat else None)
        for frame in frames:
            await frame.line.acknowledge(frame.envelope)
            if frame.kind == "events_api":
                await self._courtesies.event(frame.payload or {})
        for said in arrivals.values():
            self._courtesies.heard(said)

    async def _rooted(self, said: Arrival, payload: Body) -> Arrival:
        """A slash command leaves no message behind. In a channel its words are shown, so that the
        answer has a thread to stand in; not those of somebody who is not heard there, and where we
        may not post the answer goes to its person alone."""
        if not isinstance(said, Inbound):
            return said
        self._slashes.note(
            said.address.chat, said.person.id, str(payload.get("response_url") or "")
        )
        heard = self._invited is None or self._invited(said.address, said.person, False)
        if said.private or said.text.startswith("/") or not heard:
            return said
        text = f"<@{said.person.id}>: {escape(said.text)}"
        body: Body = {
            "channel": said.address.chat,
            "text": text[:SHOWN],
            "unfurl_links": False,
            "unfurl_media": False,
        }
        try:
            async with asyncio.timeout(ROOT):
                sent = await self._wire.write("chat.postMessage", body, once=True)
        except AuthFailed:
            raise
        except (ChannelError, TimeoutError):
            return said
        ts = sent.get("ts")
        return (
            replace(said, address=replace(said.address, topic=TopicId(ts)))
            if isinstance(ts, str)
            else said
        )

    def _note(self, frame: Frame) -> str:
        """Learns where a message stands, also from our own posts, which come back; its ts, or
        ""."""
        event: Any = (frame.payload or {}).get("event")
        if frame.kind != "events_api" or not isinstance(event, dict):
            return ""
        row = cast("Body", event)
        if row.get("type") not in {"message", "app_mention"} or row.get("subtype") in {
            "message_changed",
            "message_deleted",
        }:
            return ""
        if self._place.user == row.get("user"):
            self._doubles.echo(str(row.get("channel", "")), row)
        return self._note_row(str(row.get("channel", "")), row)

    def _note_row(self, chat: str, row: Body) -> str:
        ts, thread = row.get("ts"), row.get("thread_ts")
        if not isinstance(ts, str):
            return ""
        if isinstance(thread, str) and thread != ts:
            self._memory.place(chat, ts, thread)
            if row.get("user") == self._place.user:
                self._memory.follow(chat, thread)
        return ts

    def _follow(self, said: Arrival) -> None:
        """A thread in which we were called stays ours to hear, also after a restart: it travels in
        the cursor."""
        if isinstance(said, Inbound) and said.addressed and said.address.topic is not None:
            self._memory.follow(said.address.chat, said.address.topic)
            self._streams.asked(said.address.chat, said.address.topic, said.person.id)

    # catch-up

    async def _catch_up(self) -> None:
        self._behind.update({chat.id: chat for chat in await self._history.conversations()})
        self._behind.update({chat: None for chat in self._backlog if chat not in self._behind})
        self._listed = True
        todo = list(self._behind)
        await finish_all(self._read(todo) for _ in range(READERS))

    async def _read(self, todo: list[str]) -> None:
        """One of the readers: chats in which somebody is speaking now come first."""
        while todo:
            chat = next((chat for chat in todo if chat in self._backlog), todo[0])
            todo.remove(chat)
            conversation = self._behind[chat]
            if conversation is not None:
                await self._read_one(conversation)
            while frames := self._backlog.pop(chat, []):
                await self._deliver(chat, frames)
            del self._behind[
                chat
            ]  # nothing was awaited since the backlog was empty: no event can slip between

    async def _read_one(self, chat: Conversation) -> None:
        age, most = self._context.catch_up
        self._memory.load(chat.id, await self._context.cursor(chat.id))
        since, fence = self._memory.since(chat.id), self._clock() - age
        try:
            missed = await self._history.missed(
                chat, since, self._memory.threads(chat.id), fence, most
            )
        except Rejected as refused:
            _log.warning("slack: %s: what was missed cannot be read: %s", chat.id, refused)
            await self._context.missed(
                f"{refused}. What was said on Slack while ohmo was away may be missing."
            )
            return
        coming = {inbound.said_at(frame.payload or {}) for frame in self._backlog.get(chat.id, ())}
        missed.left, missed.said = in_place(
            [(row["ts"], row) for row in missed.left], missed.said, coming
        )
        for row in missed.ours:
            self._note_row(chat.id, row)
            self._doubles.judge(row)
        await self._names.learn(
            set[str]().union(*(_people(row) for row in missed.said + missed.edited))
        )
        arrivals = self._arrivals(chat, missed)
        await self._confess(chat, missed)
        if arrivals or missed.left:
            newest = max((row["ts"] for row in missed.said + missed.left), key=order, default="")
            await self._context.publish(arrivals, self._memory.cursor(chat.id, newest))

    def _arrivals(self, chat: Conversation, missed: Missed) -> list[Arrival]:
        found: list[Arrival] = []
        for row in missed.said + missed.edited:
            try:
                self._note_row(chat.id, row)
                read = inbound.edited if row in missed.edited else inbound.message
                said = read(row, chat.id, self._place, private=chat.private)
            except Malformed as error:
                self._aside.pass_over(
                    f"a row of the history of {chat.id}: {error}", row, f"{chat.id}-{row['ts']}"
                )
                continue
            if said is not None:
                found.append(cleaned(said))
                self._follow(said)
        return sorted(found, key=lambda arrival: arrival.order)

    async def _confess(self, chat: Conversation, missed: Missed) -> None:
        """The fence is never silent: said where somebody may be waiting, else to the owner."""
        left = [
            row
            for row in missed.left
            if inbound.is_spoken(row, self._place) and not inbound.is_bots(row)
        ]
        if not left and not missed.more:
            return
        called = any(
            self._place.user in inbound.people_in(str(row.get("text", ""))) for row in left
        )
        address = (
            Address("slack", self._place.account, ChatId(chat.id))
            if chat.private or called or missed.more
            else None
        )
        await self._context.missed(
            left_out(
                [inbound.moment(row["ts"]) for row in left],
                self._context.catch_up,
                zone=self._context.zone,
                where="here" if address is not None else f"on Slack in {chat.id}",
                key="channels.slack.catch_up",
                more=missed.more,
            ),
            address,
        )


def _people(row: Body) -> set[str]:
    return inbound.people_of("events_api", {"event": row})
