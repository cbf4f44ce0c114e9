"""Chats, messages and the queue of updates behind the loopback Bot API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.platforms.telegram.rules import Refusal, Rules, bad

Body = dict[str, Any]
BOT = {"id": 7000001, "is_bot": True, "first_name": "ohmo", "username": "ohmo_test_bot"}
TOKEN = f"{BOT['id']}:AAtest-token-of-the-loopback-server"
PEOPLE = {"ada": 1001, "bob": 1002}
GROUP = -1002000
DAY = 24 * 3600
# reactions come only when asked for
DEFAULT = ("message", "edited_message", "callback_query", "my_chat_member", "channel_post")


@dataclass(slots=True)
class Chat:
    id: int
    body: Body
    messages: dict[int, Body] = field(default_factory=dict)
    edits: dict[int, int] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    topics: set[int] = field(default_factory=set)
    draft: Body | None = None
    drafts: list[Body] = field(default_factory=list)
    typing: list[float] = field(default_factory=list)
    counter: int = 0
    tokens: float = 0.0
    refilled: float = 0.0
    minute: list[float] = field(default_factory=list)
    blocked: bool = False
    moved_to: int | None = None

    @property
    def private(self) -> bool:
        return self.id > 0


class World:
    """Everything Telegram knows. Message ids count per chat, so that two chats have equal ones."""

    def __init__(self, rules: Rules, clock: Callable[[], float] = time.time) -> None:
        self.rules = rules
        self.clock = clock
        self.chats: dict[int, Chat] = {}
        self.queue: list[tuple[float, Body]] = []  # unconfirmed updates
        self.next_update = 500_000_001
        self.wanted: tuple[str, ...] = DEFAULT
        self.arrived = asyncio.Event()
        self.presses: dict[str, str | None] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.commands: list[Body] = []
        self._numbers = 0
        for name, number in PEOPLE.items():
            self.chats[number] = Chat(
                number, {"id": number, "type": "private", "first_name": name.title()}
            )
        self.chats[GROUP] = Chat(
            GROUP, {"id": GROUP, "type": "supergroup", "title": "The group", "is_forum": True}
        )

    # chats

    def chat(self, name: str | int) -> Chat:
        """ "dm:ada", "group", or a number: a person's for a private chat, created when it is
        new."""
        if isinstance(name, str) and name.startswith("dm:") and name[3:] in PEOPLE:
            return self.chats[PEOPLE[name[3:]]]
        if name == "group":
            return self.chats[GROUP]
        number = int(str(name).removeprefix("dm:"))
        if number not in self.chats:
            body = {"id": number, "type": "private", "first_name": f"Person {number}"}
            self.chats[number] = Chat(
                number,
                body
                if number > 0
                else {"id": number, "type": "supergroup", "title": f"Group {number}"},
            )
        return self.chats[number]

    def known(self, number: object) -> Chat:
        """The chat of a call."""
        try:
            chat = self.chats[int(str(number))]
        except (KeyError, ValueError):
            raise bad("chat not found") from None
        if chat.moved_to is not None:
            raise Refusal(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=chat.moved_to,
            )
        if chat.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        return chat

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    # updates

    def enqueue(self, kind: str, body: Body) -> int | None:
        """One update; kinds that getUpdates did not ask for are never created (getUpdates,
        allowed_updates)."""
        if kind not in self.wanted:
            return None
        return self.enqueue_raw({kind: body})

    def enqueue_raw(self, update: Body) -> int:
        number = self.next_update
        self.next_update += 1
        self.queue.append((self.clock(), {"update_id": number, **update}))
        self.arrived.set()
        return number

    def pending(self, offset: int | None, limit: int) -> list[Body]:
        """What a poll with this offset gets; confirms what is below it."""
        if self.rules.retention:
            self.queue = [(at, update) for at, update in self.queue if self.clock() - at <= DAY]
        if offset is not None and offset < 0:
            self.queue = self.queue[offset:]
        elif offset is not None and self.rules.confirmation:
            self.queue = [
                (at, update) for at, update in self.queue if update["update_id"] >= offset
            ]
        return [update for _, update in self.queue[:limit]]

    # what people do

    def person(self, name: str | int) -> Body:
        number = PEOPLE.get(str(name)) or int(name)
        shown = name.title() if isinstance(name, str) and name in PEOPLE else f"Person {number}"
        return {"id": number, "is_bot": False, "first_name": shown}

    def upgrade(self, old: int, new: int) -> None:
        """A group becomes a supergroup: both say so (Message, migrate_to_chat_id and
        migrate_from_chat_id)."""
        before, after = self.chat(old), self.chat(new)
        before.body["type"] = "group"
        self.enqueue("message", self.add(before, self.person("ada"), {"migrate_to_chat_id": new}))
        self.enqueue("message", self.add(after, self.person("ada"), {"migrate_from_chat_id": old}))
        before.moved_to = new

    def add(self, chat: Chat, sender: Body, fields: Body) -> Body:
        chat.counter += 1
        message = {
            "message_id": chat.counter,
            "from": sender,
            "chat": chat.body,
            "date": int(self.clock()),
            **fields,
        }
        chat.messages[chat.counter] = message
        return message

    def says(
        self,
        text: str,
        chat: str | int,
        person: str | int | None = None,
        topic: int | None = None,
        mention: bool = True,
        **more: Any,
    ) -> Body:
        place = self.chat(chat)
        sender = self.person(person if person is not None else place.id)
        fields: Body = dict(more)
        if not place.private and mention:
            name = f"@{BOT['username']}"
            text = f"{name} {text}"
            fields["entities"] = [{"type": "mention", "offset": 0, "length": len(name)}]
        elif text.startswith("/"):
            fields["entities"] = [
                {"type": "bot_command", "offset": 0, "length": len(text.split()[0])}
            ]
        if text:
            fields["text"] = text
        if topic is not None:
            place.topics.add(topic)
            fields |= {"message_thread_id": topic, "is_topic_message": True}
        message = self.add(place, sender, fields)
        self.enqueue("message", message)
        return message

    def edits(self, message: int, text: str, chat: str | int) -> None:
        place = self.chat(chat)
        body = place.messages[message]
        body |= {"text": text, "edit_date": int(self.clock())}
        body.pop("entities", None)
        place.edits[message] = place.edits.get(message, 0) + 1
        self.enqueue("edited_message", dict(body))

    def press(self, message: int, choice: str, chat: str | int, person: str | int) -> str:
        body = self.chat(chat).messages[message]
        rows = body.get("reply_markup", {}).get("inline_keyboard", [])
        if choice not in [button.get("callback_data") for row in rows for button in row]:
            raise LookupError(f"message {message} has no button {choice!r}")
        number = f"{self.number():018d}"
        self.presses[number] = None
        self.enqueue(
            "callback_query",
            {
                "id": number,
                "from": self.person(person),
                "message": body,
                "chat_instance": "1",
                "data": choice,
            },
        )
        return number

    def react(
        self, message: int, emoji: str, chat: str | int, person: str | int, *, added: bool = True
    ) -> None:
        one = [{"type": "emoji", "emoji": emoji}]
        body = {
            "chat": self.chat(chat).body,
            "message_id": message,
            "user": self.person(person),
            "date": int(self.clock()),
        }
        self.enqueue(
            "message_reaction",
            {**body, "old_reaction": [] if added else one, "new_reaction": one if added else []},
        )

    def redeliver(self, message: int, chat: str | int) -> None:
        self.enqueue("message", dict(self.chat(chat).messages[message]))

    def store(self, name: str, content: bytes) -> Body:
        number = self.number()
        file = f"file-{number}"
        self.files[file] = (f"documents/{number}/{name}", content)
        return {"file_id": file, "file_unique_id": f"u{number}", "file_size": len(content)}

    # pace

    def check_pace(self, chat: Chat) -> None:
        if not self.rules.pace:
            return
        now = self.clock()
        chat.tokens = (
            min(self.rules.burst, chat.tokens + now - chat.refilled)
            if chat.refilled
            else self.rules.burst
        )
        chat.refilled = now
        if chat.tokens < 1:
            raise too_many(max(1, round(1 - chat.tokens)))
        chat.minute = [at for at in chat.minute if now - at < 60]
        if not chat.private and len(chat.minute) >= 20:
            raise too_many(max(1, int(60 - (now - chat.minute[0])) + 1))
        chat.tokens -= 1
        chat.minute.append(now)


def too_many(seconds: float) -> Refusal:
    """ "ResponseParameters", retry_after."""
    return Refusal(429, f"Too Many Requests: retry after {seconds:g}", retry_after=seconds)
