"""What was said while nobody listened: chats, their history, their threads, and single messages
somebody answered to."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from channels.errors import NotReady, RateLimited
from channels.feishu.client import Refused, Wire
from channels.feishu.fields import rows_of, word
from channels.feishu.inbound import Spoken, spoken_row
from channels.payloads import Body, Malformed
from channels.record import record

_log = logging.getLogger(__name__)

PAGE = 50  # rows; the most that "Get chat history" gives
PAGES = 10  # of one chat; what lies behind them is counted as cut
THREADS = 50  # of one chat that are read again
TRIES = 3  # of one question that gets no answer
# Feishu pushes an unanswered event again after 15 s and 5 min: so long an older one may still be
# missing although a newer one was stored. Reading that much again costs nothing: keys are equal.
OVERLAP = 10 * 60 * 1000  # ms


@record
class Chat:
    id: str
    private: bool


@dataclass(slots=True)
class Missed:
    """Messages oldest first. ``left``: what the fence leaves out, by age or number; ``more``:
    others exist that nobody counted."""

    said: list[Spoken] = field(default_factory=list[Spoken])
    changed: list[Spoken] = field(default_factory=list[Spoken])
    ours: list[Spoken] = field(default_factory=list[Spoken])
    left: list[Spoken] = field(default_factory=list[Spoken])
    unreadable: list[tuple[str, Body]] = field(default_factory=list[tuple[str, Body]])
    more: bool = False


class History:
    """Reads as slowly as Feishu wants it: a rate limit is waited for, nothing is given up for
    it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def groups(self) -> list[Chat]:
        """Obtain groups where the user or bot is in; one-to-one chats are not among them."""
        found: list[Chat] = []
        token = ""
        while True:
            query: dict[str, str | int] = {"page_size": 100} | (
                {"page_token": token} if token else {}
            )
            page = await self._ask("/open-apis/im/v1/chats", query)
            found += [
                Chat(chat, private=False)
                for row in rows_of(page, "items")
                if (chat := word(row, "chat_id"))
            ]
            token = word(page, "page_token") if page.get("has_more") else ""
            if not token:
                return found

    async def missed(
        self,
        chat: Chat,
        since: int,
        threads: Mapping[str, str],
        fence: datetime,
        most: int,
        *,
        heard: int = 0,
    ) -> Missed:
        """What people said after ``since`` (ms; 0 when this chat was never read): the newest
        ``most`` after ``fence`` to be heard, the others to be counted. Without ``since`` everything
        before our own last word counts as read. ``heard``: ms of the first message that was stored
        although what was said before it was never read; our own words since then may be its answer.
        Raises Refused when the chat is not ours to read."""
        oldest, read = int(fence.timestamp() * 1000), 0 if heard else since
        floor = max(0, read - OVERLAP) if read else oldest
        found = Missed()
        rows, more = await self._pages("chat", chat.id, min(oldest, floor), found)
        found.more = more and not (
            read and rows and rows[-1].ms <= read
        )  # newest first: what was left is older still
        words = [row.ms for row in rows if self._is_ours(row) and not 0 < heard <= row.ms]
        main_floor = floor if read else max(words, default=oldest)
        found.said = [row for row in rows if row.ms > main_floor and not row.deleted]
        stored = [row for row in rows if row.person and heard <= row.ms <= since]
        found.changed = [row for row in stored if row.deleted or row.changed > floor]
        found.ours = [row for row in rows if self._is_ours(row)]
        grown = {row.id: row.thread for row in rows if row.thread and not row.root}
        for root, thread in [*{**dict(threads), **grown}.items()][-THREADS:]:
            await self._thread(chat, root, thread, floor if read else 0, oldest, found)
        unique = {row.id: row for row in found.said if not self._is_ours(row)}
        said = sorted(unique.values(), key=lambda row: row.ms)
        old = sum(row.ms <= oldest for row in said)
        first = max(old, len(said) - most)
        found.said = said[first:]
        found.left = [row for row in said[:first] if row.ms > since or row.ms < heard]
        return found

    async def message(self, message: str) -> list[Body]:
        """Get the content of a specified message: itself, and below it what it forwards."""
        found = await self._wire.call(
            "GET", "/open-apis/im/v1/messages/:message_id", paths={"message_id": message}
        )
        return rows_of(found, "items")

    async def _thread(
        self, chat: Chat, root: str, thread: str, floor: int, oldest: int, found: Missed
    ) -> None:
        """Threads are a container of their own; the chat's history shows their roots only, and
        takes no times for them."""
        if not thread:
            return
        try:
            rows, more = await self._pages("thread", thread, floor or oldest, found)
        except Refused as refused:
            _log.info("feishu: thread %s of %s cannot be read: %s", root, chat.id, refused)
            return  # deleted meanwhile
        rows = [row for row in rows if row.id != root and not row.deleted]
        ours = [row for row in rows if self._is_ours(row)]
        floor = floor or max((row.ms for row in ours), default=oldest)
        found.said += [row for row in rows if row.ms > floor]
        found.ours += ours
        found.more = found.more or more

    async def _pages(
        self, kind: str, container: str, oldest: int, found: Missed
    ) -> tuple[list[Spoken], bool]:
        """Newest first, down to ``oldest``; the second value says that older rows were left."""
        query: dict[str, str | int] = {
            "container_id_type": kind,
            "container_id": container,
            "sort_type": "ByCreateTimeDesc",
        }
        query |= {"page_size": PAGE} | ({"start_time": oldest // 1000} if kind == "chat" else {})
        rows: list[Spoken] = []
        for _ in range(PAGES):
            page = await self._ask("/open-apis/im/v1/messages", query)
            for row in rows_of(page, "items"):
                try:
                    rows.append(spoken_row({"chat_id": container} | row if kind == "chat" else row))
                except Malformed as error:
                    found.unreadable.append((f"a row of the history of {container}: {error}", row))
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
                _log.info(
                    "feishu: catch-up waits %.0f s: %s is rate limited", limited.retry_after, uri
                )
                await asyncio.sleep(limited.retry_after)
            except NotReady:
                tries += 1
                if tries == TRIES:
                    raise
                await asyncio.sleep(random.uniform(0, 0.25 * 2**tries))  # noqa: S311 - full jitter, not a secret

    def _is_ours(self, row: Spoken) -> bool:
        return not row.person and row.sender == self._wire.app
