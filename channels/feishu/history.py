"""What was said while nobody listened: chats, their history, their threads, and single messages
somebody answered to."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from datetime import datetime

from channels.catch_up import Missed
from channels.errors import NotReady, RateLimited
from channels.feishu.client import Refused, Wire
from channels.feishu.fields import rows_of, word
from channels.feishu.inbound import Spoken, spoken_row
from channels.payloads import Body, Malformed, Quarantine

_log = logging.getLogger(__name__)

PAGE = 50  # rows; the most that "Get chat history" gives
PAGES = 10  # of one chat; what lies behind them is counted as cut
THREADS = 50  # of one chat that are read again
TRIES = 3  # of one question that gets no answer
# Feishu pushes an unanswered event again after 15 s and 5 min: so long an older one may still be
# missing although a newer one was stored. Reading that much again costs nothing: keys are equal.
OVERLAP = 10 * 60 * 1000  # ms


class History:
    """Reads as slowly as Feishu wants it: a rate limit is waited for, nothing is given up for
    it."""

    def __init__(self, wire: Wire, unreadable: Quarantine) -> None:
        self._wire = wire
        self._unreadable = unreadable

    async def groups(self) -> list[str]:
        """Obtain groups where the user or bot is in; one-to-one chats are not among them."""
        found: list[str] = []
        query: dict[str, str | int] = {"page_size": 100}
        while True:
            page = await self._ask("/open-apis/im/v1/chats", query)
            names = [word(row, "chat_id") for row in rows_of(page, "items")]
            found += [name for name in names if name]
            token = word(page, "page_token") if page.get("has_more") else ""
            if not token:
                return found
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
        found = Missed[Spoken]()
        rows, more = await self._pages("chat", chat, min(oldest, floor))
        # Newest first: when they reach back to what was read, those nobody fetched are older still.
        found.more = more and not (read and rows and rows[-1].ms <= read)
        ours = [row for row in rows if self._is_ours(row)]
        last = floor
        if not read:
            answers = [row.ms for row in ours if not 0 < heard <= row.ms]
            last = max(answers, default=oldest)
        said = [row for row in rows if row.ms > last and not row.deleted]
        stored = [row for row in rows if row.person and heard <= row.ms <= since]
        found.changed = [row for row in stored if row.deleted or row.changed > floor]
        grown = {row.id: row.thread for row in rows if row.thread and not row.root}
        for root, thread in list({**threads, **grown}.items())[-THREADS:]:
            replies, more = await self._replies(chat, root, thread, floor)
            ours_there = [row for row in replies if self._is_ours(row)]
            ours += ours_there
            last = floor if read else max((row.ms for row in ours_there), default=oldest)
            said += [row for row in replies if row.ms > last]
            found.more = found.more or more
        unique = {row.id: row for row in said if not self._is_ours(row)}
        rows = sorted(unique.values(), key=lambda row: row.ms)
        found.fence(rows, sum(row.ms <= oldest for row in rows), most)
        found.left = [row for row in found.left if row.ms > since or row.ms < heard]
        return found, ours

    async def message(self, message: str) -> list[Body]:
        """Get the content of a specified message: itself, and below it what it forwards."""
        found = await self._wire.call(
            "GET", "/open-apis/im/v1/messages/:message_id", paths={"message_id": message}
        )
        return rows_of(found, "items")

    async def _replies(
        self, chat: str, root: str, thread: str, floor: int
    ) -> tuple[list[Spoken], bool]:
        """Threads are a container of their own; the chat's history shows their roots only, and
        takes no times for them."""
        if not thread:
            return [], False
        try:
            rows, more = await self._pages("thread", thread, floor)
        except Refused as refused:
            _log.info("feishu: thread %s of %s cannot be read: %s", root, chat, refused)
            return [], False  # deleted meanwhile
        return [row for row in rows if row.id != root and not row.deleted], more

    async def _pages(self, kind: str, container: str, oldest: int) -> tuple[list[Spoken], bool]:
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
