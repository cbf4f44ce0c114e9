"""What was said while nobody listened: conversations, their history, the threads that grew; how far
each was read; and what the posts of a second ohmo on the same app tell of it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from channels.catch_up import Missed
from channels.competing_instance import CompetingInstance
from channels.contract import Cursor
from channels.errors import NotReady, RateLimited, Rejected
from channels.payloads import Body, soft
from channels.record import Recent, record
from channels.slack.client import Refused, Wire
from channels.slack.inbound import moment, order

_log = logging.getLogger(__name__)

# rows; Slack answers with 15 to apps that are distributed outside its Marketplace
# (conversations.history)
PAGE = 200
PAGES = 5  # of one conversation; what lies behind them is counted as cut
# Events API, "Retries": Slack delivers an unacknowledged event again for about five minutes; so
# long an older event may still be missing although a newer one was stored. Reading that much again
# costs nothing: keys are equal.
OVERLAP = timedelta(minutes=10)

FOLLOWED = 50  # threads per conversation; they travel in its cursor
# Messages whose thread is remembered, for reactions and deletions, which do not name it.
PLACED = 4000


@record
class Conversation:
    id: str
    private: bool


class History:
    """Reads, as slowly as Slack wants it: a rate limit is waited for, nothing is given up for
    it."""

    def __init__(self, wire: Wire, user: str, metadata: bool) -> None:
        """``metadata``: rows of ours show theirs."""
        self._wire = wire
        self._user = user
        self._more: dict[str, str | int | bool] = {"include_all_metadata": True} if metadata else {}

    async def conversations(self) -> list[Conversation]:
        """users.conversations: those we are a member of; direct messages first."""
        conversations: list[Conversation] = []
        for kinds in ("im", "mpim,private_channel,public_channel"):
            cursor = "first"
            while cursor:
                page = await self._ask(
                    "users.conversations",
                    types=kinds,
                    exclude_archived=True,
                    limit=PAGE,
                    cursor=_next(cursor),
                )
                for row in _rows(page, "channels"):
                    if "id" in row:
                        private = bool(row.get("is_im"))
                        conversations.append(Conversation(str(row["id"]), private))
                cursor = next_cursor(page)
        return conversations

    async def missed(
        self, chat: str, since: str, threads: Collection[str], fence: datetime, most: int
    ) -> tuple[Missed[Body], list[Body]]:
        """What people said after ``since`` (a ts; "" when this conversation was never read): the
        newest ``most`` after ``fence`` to be heard, the others to be counted; and our own posts.
        Without ``since`` everything before our own last word counts as read. Raises Refused when
        the conversation is not ours to read."""
        oldest = f"{fence.timestamp():.6f}"
        floor = oldest
        if since:
            floor = f"{max(0.0, float(since) - OVERLAP.total_seconds()):.6f}"
        missed = Missed[Body]()
        rows, more = await self._pages("conversations.history", chat, min(oldest, floor, key=order))
        # Newest first: when they reach back to what was read, those nobody fetched are older still.
        reaches = since != "" and bool(rows) and order(rows[-1]["ts"]) <= order(since)
        missed.more = more and not reaches
        ours = [row for row in rows if self._is_ours(row)]
        if since:
            said = _after(rows, floor)
            last = max(oldest, floor, key=order)
            before = [row for row in rows if order(row["ts"]) <= order(since)]
            for row in before:
                edited = soft(row, "edited").get("ts")
                if isinstance(edited, str) and order(edited) > order(last):
                    missed.changed.append(row)
        else:
            own_word = max((row["ts"] for row in ours), key=order, default=oldest)
            said = [
                row
                for row in _after(rows, own_word)
                if self._user not in (row.get("reply_users") or ())
            ]
        # Threads that grew, and those we follow whose root is older than what was read.
        roots = [str(row["ts"]) for row in rows]
        grown = [
            str(row["ts"])
            for row in rows
            if order(str(row.get("latest_reply") or "0")) > order(floor)
        ]
        for thread in grown + [thread for thread in threads if thread not in roots]:
            replies, more = await self._replies(chat, thread, floor)
            own_replies = [row for row in replies if self._is_ours(row)]
            ours += own_replies
            if not since:
                last = max((row["ts"] for row in own_replies), key=order, default=oldest)
                replies = _after(replies, last)
            said += _after(replies, floor)
            missed.more = missed.more or more
        unique = {row["ts"]: row for row in said if not self._is_ours(row)}
        rows = [unique[ts] for ts in sorted(unique, key=order)]
        recent = _after(rows, oldest)
        missed.fence(rows, len(rows) - len(recent), most)
        missed.left = _after(missed.left, since or "0")
        return missed, ours

    async def _replies(self, chat: str, thread: str, floor: str) -> tuple[list[Body], bool]:
        try:
            rows, more = await self._pages("conversations.replies", chat, floor, ts=thread)
        except Refused as refused:
            if refused.word in {"thread_not_found", "message_not_found"}:
                return [], False  # deleted meanwhile
            raise
        # The root comes with every page of its replies.
        return [row for row in rows if row["ts"] != thread], more

    async def _pages(
        self, method: str, chat: str, oldest: str, **more: str
    ) -> tuple[list[Body], bool]:
        """Up to PAGES pages; the second value says that older rows were left."""
        rows: list[Body] = []
        cursor = "first"
        for _ in range(PAGES):
            page = await self._ask(
                method,
                channel=chat,
                oldest=oldest,
                limit=PAGE,
                cursor=_next(cursor),
                **more,
                **self._more,
            )
            rows += [row for row in _rows(page, "messages") if isinstance(row.get("ts"), str)]
            cursor = next_cursor(page)
            if not cursor:
                return rows, False
        return rows, True

    async def _ask(self, method: str, **arguments: str | int | bool) -> Body:
        while True:
            try:
                return await self._wire.read(method, **arguments)
            except RateLimited as limited:
                _log.info(
                    "slack: catch-up waits %.0f s: %s is rate limited", limited.retry_after, method
                )
                await asyncio.sleep(limited.retry_after)

    def _is_ours(self, row: Body) -> bool:
        return row.get("user") == self._user


@dataclass(slots=True)
class _Chat:
    since: str = ""  # ts of the newest message that was published
    threads: Recent[str, None] = field(default_factory=lambda: Recent(FOLLOWED))


class Memory:
    """Conversations as their cursors tell them, and what was seen since."""

    def __init__(self) -> None:
        self._chats: dict[str, _Chat] = {}
        self._placed = Recent[tuple[str, str], str](PLACED)

    def knows(self, chat: str) -> bool:
        return chat in self._chats

    def load(self, chat: str, value: str | None) -> None:
        """From a cursor; one that cannot be read counts as none, which only fetches more than
        needed."""
        state = self._chats.setdefault(chat, _Chat())
        try:
            body: Any = json.loads(value or "{}")
        except ValueError:
            body = {}
        if isinstance(body, dict):
            fields = cast("Body", body)
            since = str(fields.get("since", ""))
            state.since = since if _TS.fullmatch(since) else ""
            for thread in fields.get("threads", ()):
                state.threads[str(thread)] = None

    def cursor(self, chat: str, newest: str) -> Cursor:
        """The conversation's cursor with everything up to ``newest`` read; never goes back."""
        state = self._chats.setdefault(chat, _Chat())
        if newest and order(newest) > order(state.since):
            state.since = newest
        return Cursor(chat, json.dumps({"since": state.since, "threads": list(state.threads)}))

    def since(self, chat: str) -> str:
        return self._chats.setdefault(chat, _Chat()).since

    def threads(self, chat: str) -> Collection[str]:
        return tuple(self._chats.setdefault(chat, _Chat()).threads)

    def follow(self, chat: str, thread: str) -> None:
        self._chats.setdefault(chat, _Chat()).threads[thread] = None

    def follows(self, chat: str, thread: str) -> bool:
        return chat in self._chats and thread in self._chats[chat].threads

    def place(self, chat: str, ts: str, thread: str) -> None:
        self._placed[chat, ts] = thread

    def topic_of(self, chat: str, ts: str) -> str | None:
        thread = self._placed.get((chat, ts))
        if thread is not None:
            return thread
        return ts if self.follows(chat, ts) else None


def _after(rows: list[Body], ts: str) -> list[Body]:
    return [row for row in rows if order(row["ts"]) > order(ts)]


def _rows(page: Body, name: str) -> list[Body]:
    rows = page.get(name)
    if not isinstance(rows, list):
        return []
    return [cast("Body", row) for row in cast("list[object]", rows) if isinstance(row, dict)]


def next_cursor(page: Body) -> str:
    """Pagination: an empty next_cursor is the end."""
    metadata = soft(page, "response_metadata")
    return str(metadata.get("next_cursor") or "")


def _next(cursor: str) -> str:
    return "" if cursor == "first" else cursor


WAITING = 20  # posts that are still to be looked at; the newest tell as much as the others
MOVE = 1e-6  # seconds between two messages, at least
_TS = re.compile(r"\d{1,11}\.\d{1,6}")
_WHAT = "Slack: another ohmo answers with this app"


def key_of(row: Body) -> object:
    """Under which a post of ours was sent; None: it carries none."""
    return _ours(row).get("key")


def _ours(row: Body) -> Body:
    metadata = soft(row, "metadata")
    return soft(metadata, "event_payload") if metadata.get("event_type") == "ohmo" else {}


class Doubles:
    """A second ohmo on the same app: each event goes to one of the app's connections only, so each
    hears a part and answers that; its posts tell of it.

    Of one connection. Events bring no metadata, so a post of our account that we do not know is
    asked for once.

    Source: Using Socket Mode, "Using multiple connections" (each payload may go to any of them);
    Message metadata. The ``num_connections`` of the hello frame is not asked: it counts connections
    that are dead for long (slackapi/python-slack-sdk, issue 1940)."""

    def __init__(self, wire: Wire, competing: CompetingInstance) -> None:
        self._wire = wire
        self._competing = competing
        # chat, ts -> thread, and when it came
        self._echoes = Recent[tuple[str, str], tuple[str, float]](WAITING)

    @property
    def looks_back(self) -> bool:
        """Whether history has to show the metadata: after a stop it tells of the other one before
        anything is stored."""
        return self._competing.rested is not None

    def metadata(self, key: str) -> Body:
        """Message metadata: invisible, kept through edits, and readable again by find()."""
        return {"event_type": "ohmo", "event_payload": {"key": key, "since": self._competing.since}}

    def sends(self, key: str) -> None:
        self._competing.send(key)

    def echo(self, chat: str, row: Body) -> None:
        """A post of our account came back; whoever of us sent it knows its ts by the time it is
        looked at."""
        ts = row.get("ts")
        if isinstance(ts, str) and _TS.fullmatch(ts) and not row.get("subtype"):
            self._echoes[chat, ts] = (str(row.get("thread_ts") or ""), time.monotonic())

    def shown(self, chat: str, ts: str) -> None:
        """We sent it."""
        self._echoes.pop((chat, ts), None)
        self._competing.send(f"{chat}/{ts}")

    async def run(self) -> None:
        """Looks, rarely, at posts nobody here sent. Raises InUse, AuthFailed."""
        while True:
            await asyncio.sleep(self._wire.pace.look)
            strange: list[tuple[str, str]] = []
            for post, (_, at) in list(self._echoes.items()):
                if time.monotonic() - at < self._wire.pace.echo:
                    continue
                if self._competing.sent("/".join(post)):
                    del self._echoes[post]
                else:
                    strange.append(post)
            if strange:
                chat, ts = strange[-1]
                thread, _ = self._echoes.pop((chat, ts))
                await self._look(chat, ts, thread)

    async def _look(self, chat: str, ts: str, thread: str) -> None:
        where: dict[str, str | int | bool] = {
            "channel": chat,
            "include_all_metadata": True,
            "inclusive": True,
            "limit": 5,
            "oldest": f"{float(ts) - MOVE:.6f}",
            "latest": f"{float(ts) + MOVE:.6f}",
        }
        method = "conversations.history"
        if thread:
            method = "conversations.replies"
            where["ts"] = thread
        try:
            page = await self._wire.read(method, **where)
        except RateLimited as limited:
            await asyncio.sleep(limited.retry_after)
        except (NotReady, Rejected) as error:
            _log.info("slack: whose post %s in %s is cannot be asked: %s", ts, chat, error)
        else:
            for row in _rows(page, "messages"):
                if row.get("ts") == ts:
                    self.judge(row)

    def judge(self, row: Body) -> None:
        """A post of our account, with its metadata. Raises InUse when it is another ohmo's, which
        was here before us."""
        key = key_of(row)
        since = _ours(row).get("since")
        ts = str(row.get("ts"))
        if not isinstance(since, int) or since >= self._competing.since or not _TS.fullmatch(ts):
            return
        if self._competing.said(key, moment(ts)):
            self._competing.conflict(_WHAT, str(key).partition(".")[0])
