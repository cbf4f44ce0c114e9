"""What the adapter remembers of a workspace: how far each conversation was read, the threads it
takes part in, people's names."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

from channels.contract import Cursor
from channels.recent import Recent
from channels.slack.inbound import order

FOLLOWED = 50  # threads per conversation; they travel in its cursor
PLACED = (
    4000  # messages whose thread is remembered, for reactions and deletions, which do not name it
)
NAMED = 5000
PATIENCE = 1.5  # seconds for names before a message goes on with ids


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
        known = self._chats.setdefault(chat, _Chat())
        try:
            body: Any = json.loads(value or "{}")
        except ValueError:
            body = {}
        if isinstance(body, dict):
            since = str(cast("dict[str, Any]", body).get("since", ""))
            known.since = since if re.fullmatch(r"\d{1,11}\.\d{1,6}", since) else ""
            known.threads.update(
                dict.fromkeys(
                    str(thread) for thread in cast("dict[str, Any]", body).get("threads", ())
                )
            )

    def cursor(self, chat: str, newest: str) -> Cursor:
        """The conversation's cursor with everything up to ``newest`` read; never goes back."""
        known = self._chats.setdefault(chat, _Chat())
        if newest and order(newest) > order(known.since):
            known.since = newest
        return Cursor(chat, json.dumps({"since": known.since, "threads": list(known.threads)}))

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
        if (thread := self._placed.get((chat, ts))) is not None:
            return thread
        return ts if self.follows(chat, ts) else None
