"""What is known of chats: what was said there while nobody listened, how far each was read, which
messages are ours, and what an event left out and one more question tells."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from channels.catch_up import Missed
from channels.contract import Cursor
from channels.errors import AuthFailed, ChannelError, NotReady, RateLimited
from channels.feishu import inbound
from channels.feishu.client import Refused, Wire
from channels.feishu.content import rows_of, word
from channels.feishu.inbound import EventContext, Spoken, spoken_row
from channels.payloads import Body, Malformed, Quarantine, soft
from channels.record import Recent

_log = logging.getLogger(__name__)

PAGE = 50  # rows; the most that "Get chat history" gives
PAGES = 10  # of one chat; what lies behind them is counted as cut
THREADS = 50  # of one chat that are read again
TRIES = 3  # of one question that gets no answer
# Feishu pushes an unanswered event again after 15 s and 5 min: so long an older one may still be
# missing although a newer one was stored. Reading that much again costs nothing: keys are equal.
OVERLAP = 10 * 60 * 1000  # ms
FOLLOWED = 50  # threads per chat; they travel in its cursor
KEPT = 4000  # messages whose place, and own messages whose id, are remembered
PRIVATE = 1000  # one-to-one chats; "Obtain groups where the bot is in" lists none of them
PRIVATE_NAME = "p2p"  # of their cursor
PATIENCE = 1.5  # seconds for a quoted message before an answer to it goes on without
EXTRAS = 500  # quoted messages, and forwarded ones, that are kept
QUOTE = 2000  # characters of a quoted message
INSIDE = 20_000  # characters of forwarded messages
FORWARDED = 100  # of them
_MESSAGE = "/open-apis/im/v1/messages/:message_id"


class History:
    """Reads as slowly as Feishu wants it: a rate limit is waited for, nothing is given up for
    it."""

    def __init__(self, wire: Wire, unreadable: Quarantine) -> None:
        self._wire = wire
        self._unreadable = unreadable

    async def groups(self) -> list[str]:
        """Obtain groups where the user or bot is in; one-to-one chats are not among them."""
        chats: list[str] = []
        query: dict[str, str | int] = {"page_size": 100}
        while True:
            page = await self._ask("/open-apis/im/v1/chats", query)
            chats += filter(None, (word(row, "chat_id") for row in rows_of(page, "items")))
            token = word(page, "page_token") if page.get("has_more") else ""
            if not token:
                return chats
            query["page_token"] = token

    async def missed(
        self,
        chat: str,
        since: int,
        threads: Mapping[str, str],
        fence: datetime,
        most: int,
        *,
        heard: int = 0,
    ) -> tuple[Missed[Spoken], list[Spoken]]:
        """What people said after ``since`` (ms; 0 when this chat was never read): the newest
        ``most`` after ``fence`` to be heard, the others to be counted; and our own messages.
        Without ``since`` everything before our own last word counts as read. ``heard``: ms of the
        first message that was stored although what was said before it was never read; our own
        words since then may be its answer. Raises Refused when the chat is not ours to read."""
        oldest = int(fence.timestamp() * 1000)
        read = 0 if heard else since
        floor = max(0, read - OVERLAP) if read else oldest
        result = Missed[Spoken]()
        rows, more = await self._pages("chat", chat, min(oldest, floor))
        # Newest first: when they reach back to what was read, those nobody fetched are older still.
        result.more = more and not (read and rows and rows[-1].ms <= read)
        ours = [row for row in rows if self._is_ours(row)]
        last = floor
        if not read:
            answers = [row.ms for row in ours if not 0 < heard <= row.ms]
            last = max(answers, default=oldest)
        said = [row for row in rows if row.ms > last and not row.deleted]
        stored = [row for row in rows if row.person and heard <= row.ms <= since]
        result.changed = [row for row in stored if row.deleted or row.changed > floor]
        grown = {row.id: row.thread for row in rows if row.thread and not row.root}
        # Threads are a container of their own; the chat's history shows their roots only, and takes
        # no times for them.
        for root, thread in list({**threads, **grown}.items())[-THREADS:]:
            if not thread:
                continue
            try:
                rows, more = await self._pages("thread", thread, floor)
            except Refused as refused:  # deleted meanwhile
                _log.info("feishu: thread %s of %s cannot be read: %s", root, chat, refused)
                continue
            replies = [row for row in rows if row.id != root and not row.deleted]
            ours_there = [row for row in replies if self._is_ours(row)]
            ours += ours_there
            last = floor if read else max((row.ms for row in ours_there), default=oldest)
            said += [row for row in replies if row.ms > last]
            result.more = result.more or more
        unique = {row.id: row for row in said if not self._is_ours(row)}
        rows = sorted(unique.values(), key=lambda row: row.ms)
        result.fence(rows, sum(row.ms <= oldest for row in rows), most)
        result.left = [row for row in result.left if row.ms > since or row.ms < heard]
        return result, ours

    async def _pages(self, kind: str, container: str, oldest: int) -> tuple[list[Spoken], bool]:
        """Newest first, down to ``oldest``; the second value says that older rows were left."""
        query: dict[str, str | int] = {
            "container_id_type": kind,
            "container_id": container,
            "sort_type": "ByCreateTimeDesc",
            "page_size": PAGE,
        }
        if kind == "chat":
            query["start_time"] = oldest // 1000
        rows: list[Spoken] = []
        for _ in range(PAGES):
            page = await self._ask("/open-apis/im/v1/messages", query)
            for row in rows_of(page, "items"):
                try:
                    rows.append(spoken_row({"chat_id": container} | row if kind == "chat" else row))
                except Malformed as error:
                    self._unreadable.pass_over(f"a row of the history of {container}: {error}", row)
            token = word(page, "page_token") if page.get("has_more") else ""
            if not token or (rows and rows[-1].ms < oldest):
                return [row for row in rows if row.ms >= oldest], False
            query["page_token"] = token
        return rows, True

    async def _ask(self, uri: str, query: Mapping[str, str | int]) -> Body:
        """One answer that got lost costs one more question, not the connection and everything that
        was read over it."""
        tries = 0
        while True:
            try:
                return await self._wire.call("GET", uri, query=query)
            except RateLimited as limited:
                wait = limited.retry_after
                _log.info("feishu: catch-up waits %.0f s: %s is rate limited", wait, uri)
                await asyncio.sleep(wait)
            except NotReady:
                tries += 1
                if tries == TRIES:
                    raise
                await asyncio.sleep(random.uniform(0, 0.25 * 2**tries))  # noqa: S311 - full jitter, not a secret

    def _is_ours(self, row: Spoken) -> bool:
        return not row.person and row.sender == self._wire.app


class Own:
    """What was sent and seen since this adapter was made; lives as long as it."""

    def __init__(self) -> None:
        self._ours = Recent[str, None](KEPT)
        self._placed = Recent[str, tuple[str, str | None]](KEPT)

    def said(self, message: str) -> None:
        self._ours[message] = None

    def is_ours(self, message: str) -> bool:
        return message in self._ours

    def place(self, message: str, chat: str, topic: str | None) -> None:
        self._placed[message] = (chat, topic)

    def placed(self, message: str) -> tuple[str, str | None] | None:
        return self._placed.get(message)

    def topic_of(self, message: str) -> str | None:
        return self._placed.get(message, ("", None))[1]

    def newest_in(self, chat: str, topic: str | None) -> str | None:
        """The last message of a person there."""
        for message, place in reversed(self._placed.items()):
            if place == (chat, topic) and message not in self._ours:
                return message
        return None


@dataclass(slots=True)
class _Chat:
    since: int = 0  # ms of the newest message that was published
    # ms of the first message we heard of it, while what was said before was not looked for yet; 0:
    # it was
    heard: int = 0
    looking: bool = False  # this life looks for it
    # root message -> the thread's id
    threads: Recent[str, str] = field(default_factory=lambda: Recent(FOLLOWED))


class Memory:
    """Chats as their cursors tell them."""

    def __init__(self) -> None:
        self._chats: dict[str, _Chat] = {}
        self._private = Recent[str, None](PRIVATE)

    def _chat(self, chat: str) -> _Chat:
        return self._chats.setdefault(chat, _Chat())

    def knows(self, chat: str) -> bool:
        return chat in self._chats

    def load(self, chat: str, value: str | None) -> None:
        """From a cursor; one that cannot be read counts as none, which only fetches more than
        needed."""
        state = self._chat(chat)
        body = _decoded(value)
        since = body.get("since")
        if isinstance(since, int) and since >= 0:
            state.since = max(state.since, since)
        heard = body.get("heard")
        if isinstance(heard, int) and heard > 0:
            state.heard = heard
        for root, thread in soft(body, "threads").items():
            if isinstance(thread, str):
                state.threads[root] = thread

    def cursor(self, chat: str, newest: int) -> Cursor:
        """The chat's cursor with everything up to ``newest`` read; never goes back."""
        state = self._chat(chat)
        state.since = max(state.since, newest)
        value: dict[str, object] = {"since": state.since}
        if state.heard:
            value["heard"] = state.heard
        return Cursor(chat, json.dumps(value | {"threads": state.threads}))

    def since(self, chat: str) -> int:
        return self._chat(chat).since

    def heard(self, chat: str) -> int:
        """ms of the first message of a chat that was stored before its history was read; 0: it is
        read, or never was heard of."""
        return self._chat(chat).heard

    def begins(self, chat: str) -> bool:
        """Once for a chat of which we just heard for the first time: what was said there before is
        to be looked for."""
        if not self.unread(chat):
            return False
        self._chats[chat].looking = True
        return True

    def unread(self, chat: str) -> bool:
        """We heard of it for the first time, and nobody looks yet for what was said there
        before."""
        state = self._chats.get(chat)
        return state is not None and state.heard > 0 and not state.looking

    def looked_back(self, chat: str) -> None:
        self._chat(chat).heard = 0

    def found_not_stored(self, chat: str, heard: int) -> None:
        """After ``looked_back``: what was found could not be kept, and is to be looked for again.
        ``heard``: as it stood before."""
        self._chat(chat).heard = heard

    def threads(self, chat: str) -> Mapping[str, str]:
        return dict(self._chat(chat).threads)

    def follow(self, chat: str, root: str, thread: str) -> None:
        self._chat(chat).threads[root] = thread

    def follows(self, root: str) -> bool:
        return any(root in chat.threads for chat in self._chats.values())

    def load_private(self, value: str | None) -> None:
        chats = _decoded(value).get("chats")
        if isinstance(chats, list):
            for chat in cast("list[object]", chats):
                if isinstance(chat, str):
                    self._private[chat] = None

    def has_met(self, chat: str) -> bool:
        """A one-to-one chat in which somebody spoke to us before."""
        return chat in self._private

    def meet(self, chat: str, at: int) -> Cursor | None:
        """The list of one-to-one chats with a new one in it; None when it was there. ``at``: ms of
        what was said first."""
        if chat in self._private:
            return None
        self._private[chat] = None
        state = self._chat(chat)
        if not state.since:
            state.heard = at
        return Cursor(PRIVATE_NAME, json.dumps({"chats": list(self._private)}))

    def forget(self, chat: str) -> None:
        """It could not be stored that we met."""
        self._private.pop(chat, None)
        self._chat(chat).heard = 0

    @property
    def private(self) -> Collection[str]:
        return tuple(self._private)


def _decoded(value: str | None) -> dict[str, Any]:
    try:
        body: Any = json.loads(value or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


class Extras:
    """Asked within PATIENCE; what cannot be had is left out, and the message goes on."""

    def __init__(self, wire: Wire, own: Own) -> None:
        self._wire = wire
        self._own = own
        self.quoted = Recent[str, str](EXTRAS)  # by message
        self.inside = Recent[str, str](EXTRAS)

    def known_chat(self, payload: Body) -> str:
        """Of a reaction, which names its message only; the chat is written into the event. "" when
        it is not known."""
        event = soft(payload, "event")
        where = self._own.placed(word(event, "message_id"))
        if where is None:
            return ""
        event["chat_id"] = where[0]
        return where[0]

    async def chat_of(self, payload: Body) -> str:
        """The same, asked for. "" when it cannot be found out."""
        event = soft(payload, "event")
        message = word(event, "message_id")
        if message and word(event, "operator_type") != "app":
            await self._rows(message)
        return self.known_chat(payload)

    def lacks(self, spoken: Spoken) -> bool:
        """Whether it answers to something nobody knows yet, or forwards something."""
        return spoken.kind == "merge_forward" or self._answered(spoken) is not None

    async def learn(self, messages: Sequence[Spoken], context: EventContext) -> None:
        """One question after the other. Raises AuthFailed."""
        for spoken in messages:
            parent = self._answered(spoken)
            if parent is not None and (rows := await self._rows(parent)):
                self.quoted[parent] = _summary(rows[0], context)[:QUOTE]
            if spoken.kind == "merge_forward":
                rows = await self._rows(spoken.id)
                lines = ["[forwarded messages]"]
                for row in rows[:FORWARDED]:
                    if row.id != spoken.id:
                        sender = context.names.get(row.sender) or row.sender or "somebody"
                        lines.append(f"{sender}: {_summary(row, context)}")
                if len(lines) > 1:
                    self.inside[spoken.id] = "\n".join(lines)[:INSIDE]

    def _answered(self, spoken: Spoken) -> str | None:
        parent = spoken.parent
        return parent if parent and parent != spoken.topic and parent not in self.quoted else None

    async def _rows(self, message: str) -> list[Spoken]:
        try:
            async with asyncio.timeout(PATIENCE):
                # Get the content of a specified message: itself, and below it what it forwards.
                answer = await self._wire.call("GET", _MESSAGE, paths={"message_id": message})
        except AuthFailed:
            raise
        except (ChannelError, TimeoutError) as error:
            _log.info("feishu: %s cannot be read: %s", message, error)
            return []
        rows: list[Spoken] = []
        for body in rows_of(answer, "items"):
            try:
                row = spoken_row(body)
            except Malformed:
                continue
            rows.append(row)
            if row.chat and not word(body, "upper_message_id"):
                self._own.place(row.id, row.chat, row.topic)
                if not row.person and row.sender == self._wire.app:
                    self._own.said(row.id)
        return rows


def _summary(row: Spoken, context: EventContext) -> str:
    try:
        return inbound.summary(row, context)
    except Malformed:
        return "[a message that cannot be read]"
