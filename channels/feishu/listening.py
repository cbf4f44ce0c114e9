"""Hearing Feishu: events become stored arrivals and only then are answered; a chat's live events
wait behind its catch-up, and for no other chat."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, cast

from channels.cleaning import cleaned
from channels.contract import Address, Answer, Arrival, ChannelContext, ChatId, Clock, Inbound
from channels.errors import AuthFailed, ChannelError, NotReady, RateLimited, Rejected, Unavailable
from channels.feishu import inbound
from channels.feishu.client import Wire
from channels.feishu.client_line import Delivery, Feed, feed
from channels.feishu.enrich import Extras
from channels.feishu.fields import moment, word
from channels.feishu.history import Chat, History, Missed
from channels.feishu.inbound import Place, Spoken
from channels.feishu.memory import PRIVATE_NAME, Memory, Names, Own
from channels.feishu.presses import Presses
from channels.gaps import in_place, left_out
from channels.payloads import Body, Malformed, Quarantine, soft
from channels.task_groups import finish_all, main_error

_log = logging.getLogger(__name__)

READERS = 4  # chats whose history is read at the same time
# first contacts at the same time whose history is read before their words are stored; in a crowd it
# is read later
STRANGERS = 16
LOOK = 1.5  # seconds for that: Feishu waits three for its answer
# seconds nobody answers words that were stored before what was said earlier could be looked for
SETTLES = 6.0
PATIENCE = 2.0  # seconds for the question why a connection was lost
_NOT_STORED: Body = {
    "toast": {
        "type": "error",
        "content": "ohmo could not store this. Please press again in a moment.",
    }
}


class Listening:
    """One ``receive``: from the opening of the long connection until it is gone."""

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
        self._history = History(wire)
        self._extras = Extras(self._history, wire.app, bot, own)
        self._place = Place(
            wire.app,
            bot,
            names.known,
            self._memory.follows,
            own.is_ours,
            own.topic_of,
            self._extras.quoted,
            self._extras.inside,
        )
        self._listed = False  # until the chats are known every chat waits
        self._behind: dict[str, Chat] = {}  # chats whose catch-up is not done
        self._backlog: dict[
            str, list[tuple[Delivery, Body]]
        ] = {}  # live events by chat, neither stored nor answered
        self._busy: set[str] = set()  # chats whose backlog is being worked off
        self._readers = asyncio.Semaphore(READERS)
        self._strangers = 0
        self._aside = Quarantine(context.state / "malformed", "feishu")

    async def run(self, line: Feed | None) -> None:
        """``line``: one that is open already, closed here. Raises ChannelError, or Unavailable from
        ``publish``."""
        async with feed(self._wire) if line is None else line.lent() as opened:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._catch_up(group), name="feishu catch-up")
                    await self._live(opened, group)
            except BaseExceptionGroup as failed:
                failure = main_error(failed, AuthFailed)
                if isinstance(failure, NotReady):
                    await self._ask_why()
                raise failure from None

    async def _ask_why(self) -> None:
        """An app that was taken away is cut off without a word: AuthFailed is the truth then, and
        NotReady would only repeat the question."""
        with contextlib.suppress(NotReady, RateLimited, Rejected, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._wire.call("GET", "/open-apis/bot/v3/info")

    # live

    async def _live(self, line: Feed, group: asyncio.TaskGroup) -> None:
        while True:
            deliveries = await line.take()
            if line.heard:
                self._context.heard()
            for delivery in deliveries:
                payload = self._decoded(delivery)
                if payload is None:
                    await delivery.line.answer(
                        delivery, HTTPStatus.OK
                    )  # answering otherwise would bring it again and again
                elif (
                    chat := inbound.chat_of(payload) or self._extras.known_chat(payload)
                ) or not inbound.is_reaction(payload):
                    self._line_up(chat, delivery, payload, group)
                else:
                    group.create_task(self._seek(delivery, payload, group), name="feishu reaction")

    async def _seek(self, delivery: Delivery, payload: Body, group: asyncio.TaskGroup) -> None:
        """A reaction names its message only: one more question, for which nobody else waits."""
        self._line_up(await self._extras.chat_of(payload), delivery, payload, group)

    def _line_up(
        self, chat: str, delivery: Delivery, payload: Body, group: asyncio.TaskGroup
    ) -> None:
        self._backlog.setdefault(chat, []).append((delivery, payload))
        self._begin(chat, group)

    def _begin(self, chat: str, group: asyncio.TaskGroup) -> None:
        """Works off what was said in a chat, unless that has to wait for its catch-up. Events
        without a chat wait for nothing."""
        if (
            chat not in self._busy
            and chat in self._backlog
            and (not chat or (self._listed and chat not in self._behind))
        ):
            self._busy.add(chat)
            group.create_task(self._work_off(chat, group), name="feishu chat")

    async def _work_off(self, chat: str, group: asyncio.TaskGroup) -> None:
        while events := self._backlog.pop(chat, []):
            await self._deliver(chat, events, group)
        self._busy.discard(
            chat
        )  # nothing was awaited since the backlog was empty: no event can slip between

    def _decoded(self, delivery: Delivery) -> Body | None:
        if delivery.frame is None:
            self._aside.pass_over("a frame that is none of the protocol's", delivery.raw)
            return None
        try:
            payload: Any = json.loads(delivery.payload)
        except (ValueError, RecursionError):
            payload = None
        if isinstance(payload, dict):
            return cast("Body", payload)
        self._aside.pass_over("an event that is no JSON object", delivery.payload)
        return None

    async def _deliver(
        self, chat: str, events: list[tuple[Delivery, Body]], group: asyncio.TaskGroup
    ) -> None:
        """Store what the events say, then answer them. Unavailable answers 500: Feishu delivers
        again."""
        try:
            presses = await self._store(chat, [payload for _, payload in events], group)
        except (Unavailable, ChannelError):
            await _refuse(events)
            raise
        for delivery, payload in events:
            token = word(soft(payload, "header"), "event_id")
            if token in presses:
                group.create_task(self._answer_press(delivery, token), name="feishu press")
            else:
                await delivery.line.answer(delivery, HTTPStatus.OK)
        if self._memory.begins(chat):
            group.create_task(self._look_back(chat), name="feishu first contact")

    async def _answer_press(self, delivery: Delivery, token: str) -> None:
        """Card callback: an answer within three seconds; the house's own words when they come in
        time."""
        words = await self._presses.words(token, self._wire.pace.answer)
        result: Body = {"toast": {"type": "info", "content": words}} if words else {}
        await delivery.line.answer(delivery, HTTPStatus.OK, result)

    async def _store(self, chat: str, payloads: list[Body], group: asyncio.TaskGroup) -> set[str]:
        """The tokens of the presses among them. Raises Unavailable, and ChannelError."""
        told = [(payload, spoken) for payload in payloads for spoken in self._spoken(payload)]
        await self._prepare(chat, told, group)
        arrivals: dict[str, Arrival] = {}
        early = self._memory.heard(chat) > 0  # what was said before is not read yet
        for payload, spoken in told:
            try:
                for arrival in inbound.read(payload, self._place, spoken):
                    arrivals.setdefault(
                        arrival.key,
                        replace(arrival, settles=SETTLES)
                        if early and isinstance(arrival, Inbound)
                        else arrival,
                    )
                    self._follow(arrival, spoken)
            except Malformed as error:
                self._aside.pass_over(
                    f"an event of type {inbound.kind_of(payload) or 'nothing'}: {error}", payload
                )
        if not arrivals:
            return set()
        presses = {said.token for said in arrivals.values() if isinstance(said, Answer)}
        for token in presses:
            self._presses.expect(token)
        newest = max((spoken.ms for _, spoken in told if spoken is not None), default=0)
        batch = sorted(arrivals.values(), key=lambda arrival: arrival.order)
        await self._context.publish(
            batch, self._memory.cursor(chat, newest) if chat and newest else None
        )
        return presses

    def _spoken(self, payload: Body) -> list[Spoken | None]:
        """The message of an event, None for another event; nothing for one that cannot be read."""
        try:
            return [inbound.spoken_in(payload)]
        except Malformed as error:
            self._aside.pass_over(f"an event of type {inbound.MESSAGE}: {error}", payload)
            return []

    async def _prepare(
        self, chat: str, told: Sequence[tuple[Body, Spoken | None]], group: asyncio.TaskGroup
    ) -> None:
        """What must be known before words are read and stored. It is asked for side by side,
        because a burst waits for all of it."""
        works = self._unknown([spoken for _, spoken in told if spoken is not None], group)
        private = [
            spoken.ms
            for payload, spoken in told
            if spoken is not None and spoken.person and inbound.is_private(payload)
        ]
        if (chat and not self._memory.knows(chat)) or (private and not self._memory.has_met(chat)):
            works.append(self._open(chat, private, group))
        await finish_all(works)

    async def _open(self, chat: str, private: list[int], group: asyncio.TaskGroup) -> None:
        """How far a chat was read. ``private``: ms of one-to-one words in it."""
        if chat and not self._memory.knows(chat):
            self._memory.load(chat, await self._context.cursor(chat))
        if private:
            await self._meet(chat, min(private))
            if self._memory.unread(chat) and self._strangers < STRANGERS:
                await self._look_first(chat, group)

    async def _look_first(self, chat: str, group: asyncio.TaskGroup) -> None:
        """A one-to-one chat we never heard of: what was said there while nobody listened is
        answered before what is said now. A history that cannot be had in time is looked for
        later."""
        self._strangers += 1
        try:
            async with asyncio.timeout(LOOK):
                await self._read_one(Chat(chat, private=True), group)
        except (TimeoutError, NotReady, RateLimited, Rejected) as error:
            _log.info(
                "feishu: %s: what was said before is looked for later (%s)",
                chat,
                error or "no answer in time",
            )
        finally:
            self._strangers -= 1

    async def _meet(self, chat: str, at: int = 0) -> None:
        """Nobody lists one-to-one chats: who spoke to us there is remembered before what was said.
        ``at``: ms of words that are stored before what was said earlier, while nobody listened,
        could be looked for."""
        if (cursor := self._memory.meet(chat, at)) is not None:
            try:
                await self._context.publish((), cursor)
            except BaseException:
                self._memory.forget(chat)
                raise

    def _unknown(
        self, told: Sequence[Spoken], group: asyncio.TaskGroup
    ) -> list[Coroutine[Any, Any, None]]:
        """Notes what messages show beside their own words; what has to be asked for: names of new
        people, quoted and forwarded messages."""
        for spoken in told:
            for _, person, name in spoken.mentions:
                self._names.tell(person, name)
            self._own.place(spoken.id, spoken.chat, spoken.topic)
        people = [spoken for spoken in told if spoken.person]
        strangers = {spoken.sender for spoken in people if self._names.lacks(spoken.sender)}
        works: list[Coroutine[Any, Any, None]] = [
            self._names.learn(stranger, group) for stranger in strangers
        ]
        if lacking := [spoken for spoken in people if self._extras.lacks(spoken)]:
            works.append(self._extras.learn(lacking, self._place))
        return works

    def _follow(self, said: Arrival, spoken: Spoken | None) -> None:
        """A thread in which we were called stays ours to hear, also after a restart: it travels in
        the cursor."""
        if (
            isinstance(said, Inbound)
            and said.addressed
            and said.address.topic is not None
            and spoken is not None
            and not said.private
        ):
            self._memory.follow(said.address.chat, said.address.topic, spoken.thread)

    # catch-up

    async def _catch_up(self, group: asyncio.TaskGroup) -> None:
        self._memory.load_private(await self._context.cursor(PRIVATE_NAME))
        chats = [Chat(chat, private=True) for chat in self._memory.private]
        try:
            chats += await self._history.groups()
        except Rejected as refused:
            await self._context.missed(
                f"{refused}. What was said in Feishu groups while ohmo was away may be missing."
            )
        self._behind.update({chat.id: chat for chat in chats})
        self._listed = True
        for chat in tuple(self._backlog):
            self._begin(chat, group)
        todo = list(self._behind)
        await finish_all(self._read(todo, group) for _ in range(READERS))

    async def _read(self, todo: list[str], group: asyncio.TaskGroup) -> None:
        """One of the readers: chats in which somebody is speaking now come first."""
        while todo:
            chat = next((chat for chat in todo if chat in self._backlog), todo[0])
            todo.remove(chat)
            try:
                await self._read_one(self._behind[chat], group)
            except (Unavailable, ChannelError):
                await _refuse(self._backlog.pop(chat, []))
                raise
            del self._behind[chat]
            self._begin(chat, group)

    async def _look_back(self, chat: str) -> None:
        """What ``_look_first`` had no time for."""
        await asyncio.sleep(self._wire.pace.lull)
        async with self._readers, asyncio.TaskGroup() as group:
            await self._read_one(Chat(chat, private=True), group)

    async def _read_one(self, chat: Chat, group: asyncio.TaskGroup) -> None:
        age, most = self._context.catch_up
        self._memory.load(chat.id, await self._context.cursor(chat.id))
        since, heard, fence = (
            self._memory.since(chat.id),
            self._memory.heard(chat.id),
            self._clock() - age,
        )
        try:
            missed = await self._history.missed(
                chat, since, self._memory.threads(chat.id), fence, most, heard=heard
            )
        except Rejected as refused:
            _log.warning("feishu: %s: what was missed cannot be read: %s", chat.id, refused)
            self._memory.looked_back(chat.id)
            if not heard:  # of a first contact nothing need be missing
                await self._context.missed(
                    f"{refused}. What was said on Feishu while ohmo was away may be missing."
                )
            return
        for what, row in missed.unreadable:
            self._aside.pass_over(what, row)
        coming = {inbound.brought(payload) for _, payload in self._backlog.get(chat.id, ())}
        missed.left, missed.said = in_place(
            [(row.id, row) for row in missed.left], missed.said, coming
        )
        for row in missed.ours:
            self._own.said(row.id)
            self._own.place(row.id, chat.id, row.topic)
        arrivals = await self._arrivals(chat, missed, group)
        await self._confess(chat, missed)
        self._memory.looked_back(chat.id)
        if arrivals or missed.left or heard:
            newest = max((row.ms for row in missed.said + missed.left), default=0)
            try:
                await self._context.publish(arrivals, self._memory.cursor(chat.id, newest))
            except BaseException:  # _look_first's time is over in the middle of it, too
                self._memory.found_not_stored(chat.id, heard)
                raise

    async def _arrivals(
        self, chat: Chat, missed: Missed, group: asyncio.TaskGroup
    ) -> list[Arrival]:
        found: list[Arrival] = []
        people = [spoken for spoken in missed.said + missed.changed if spoken.person]
        await finish_all(self._unknown(people, group))
        for spoken in people:
            try:
                is_change = spoken in missed.changed
                said = (
                    inbound.edited(spoken, self._place)
                    if is_change
                    else inbound.message(spoken, self._place, private=chat.private)
                )
            except Malformed as error:
                self._aside.pass_over(
                    f"a row of the history of {chat.id}: {error}",
                    {"message_id": spoken.id, "content": spoken.content},
                )
                continue
            found.append(cleaned(said))
            self._follow(found[-1], spoken)
        return sorted(found, key=lambda arrival: arrival.order)

    async def _confess(self, chat: Chat, missed: Missed) -> None:
        """The fence is never silent: said where somebody may be waiting, else to the owner."""
        left = [row for row in missed.left if row.person]
        if not left and not missed.more:
            return
        called = any(person == self._place.bot for row in left for _, person, _ in row.mentions)
        here = chat.private or called or missed.more
        address = Address("feishu", self._wire.app, ChatId(chat.id)) if here else None
        times, where = (
            [moment(row.ms) for row in left],
            "here" if here else f"on Feishu in {chat.id}",
        )
        fence, zone = self._context.catch_up, self._context.zone
        text = left_out(
            times, fence, zone=zone, where=where, key="channels.feishu.catch_up", more=missed.more
        )
        await self._context.missed(text, address)


async def _refuse(events: Iterable[tuple[Delivery, Body]]) -> None:
    """Not stored: Feishu delivers again. Callbacks are not delivered again, so their person is
    told."""
    for delivery, payload in events:
        pressed = inbound.kind_of(payload) == inbound.PRESSED
        await delivery.line.answer(
            delivery,
            HTTPStatus.OK if pressed else HTTPStatus.INTERNAL_SERVER_ERROR,
            _NOT_STORED if pressed else None,
        )
