"""What Feishu does not say again: how far each chat was read, which threads are ours to follow,
whose message is whose."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from channels.contract import Cursor
from channels.payloads import soft
from channels.record import Recent

FOLLOWED = 50  # threads per chat; they travel in its cursor
KEPT = 4000  # messages whose place, and own messages whose id, are remembered
PRIVATE = 1000  # one-to-one chats; "Obtain groups where the bot is in" lists none of them
PRIVATE_NAME = "p2p"  # of their cursor
PATIENCE = 1.5  # seconds for a quoted message before an answer to it goes on without


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
        places = reversed(self._placed.items())
        return next(
            (
                message
                for message, place in places
                if place == (chat, topic) and message not in self._ours
            ),
            None,
        )


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

    def knows(self, chat: str) -> bool:
        return chat in self._chats

    def load(self, chat: str, value: str | None) -> None:
        """From a cursor; one that cannot be read counts as none, which only fetches more than
        needed."""
        known, body = self._chats.setdefault(chat, _Chat()), _decoded(value)
        since, threads = body.get("since"), soft(body, "threads")
        if isinstance(since, int) and since >= 0:
            known.since = max(known.since, since)
        if isinstance(heard := body.get("heard"), int) and heard > 0:
            known.heard = heard
        known.threads.update(
            {root: thread for root, thread in threads.items() if isinstance(thread, str)}
        )

    def cursor(self, chat: str, newest: int) -> Cursor:
        """The chat's cursor with everything up to ``newest`` read; never goes back."""
        known = self._chats.setdefault(chat, _Chat())
        known.since = max(known.since, newest)
        heard = {"heard": known.heard} if known.heard else {}
        return Cursor(
            chat, json.dumps({"since": known.since, **heard, "threads": dict(known.threads)})
        )

    def since(self, chat: str) -> int:
        return self._chats.setdefault(chat, _Chat()).since

    def heard(self, chat: str) -> int:
        """ms of the first message of a chat that was stored before its history was read; 0: it is
        read, or never was heard of."""
        return self._chats.setdefault(chat, _Chat()).heard

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
        known = self._chats.get(chat)
        return known is not None and known.heard > 0 and not known.looking

    def looked_back(self, chat: str) -> None:
        self._chats.setdefault(chat, _Chat()).heard = 0

    def found_not_stored(self, chat: str, heard: int) -> None:
        """After ``looked_back``: what was found could not be kept, and is to be looked for again.
        ``heard``: as it stood before."""
        self._chats.setdefault(chat, _Chat()).heard = heard

    def threads(self, chat: str) -> Mapping[str, str]:
        return dict(self._chats.setdefault(chat, _Chat()).threads)

    def follow(self, chat: str, root: str, thread: str) -> None:
        self._chats.setdefault(chat, _Chat()).threads[root] = thread

    def follows(self, root: str) -> bool:
        return any(root in chat.threads for chat in self._chats.values())

    def load_private(self, value: str | None) -> None:
        chats = _decoded(value).get("chats")
        for chat in cast("list[object]", chats) if isinstance(chats, list) else []:
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
        known = self._chats.setdefault(chat, _Chat())
        if not known.since:
            known.heard = at
        return Cursor(PRIVATE_NAME, json.dumps({"chats": list(self._private)}))

    def forget(self, chat: str) -> None:
        """It could not be stored that we met."""
        self._private.pop(chat, None)
        self._chats.setdefault(chat, _Chat()).heard = 0

    @property
    def private(self) -> Collection[str]:
        return tuple(self._private)


def _decoded(value: str | None) -> dict[str, Any]:
    try:
        body: Any = json.loads(value or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}
