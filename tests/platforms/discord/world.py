"""Guilds, channels, messages and gateway sessions behind the loopback Discord."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.platforms.discord.rules import Rules

Body = dict[str, Any]
EPOCH = 1_420_070_400_000
TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAwMQ.loop.back-test-token"
BOT: Body = {
    "id": "1000000000000000001",
    "username": "ohmo",
    "global_name": None,
    "discriminator": "0000",
    "bot": True,
    "avatar": None,
}
APPLICATION = "1000000000000000002"
GUILD, GROUP, FORUM, OWN_ROLE = (
    "2000000000000000001 2000000000000000011 2000000000000000012 2000000000000000021".split()
)
PEOPLE = {"ada": "3000000000000000001", "bob": "3000000000000000002"}
DIRECT = {"dm:ada": "4000000000000000001", "dm:bob": "4000000000000000002"}
CONTENT = 1 << 15  # Gateway intents: MESSAGE_CONTENT
_INTENTS = {
    "guild": 1 << 9,
    "direct": 1 << 12,
    "guild reaction": 1 << 10,
    "direct reaction": 1 << 13,
}


@dataclass(slots=True)
class Channel:
    id: str
    type: int  # 0 text, 1 direct, 11 thread, 15 forum
    name: str = ""
    parent: str | None = None
    person: str = ""  # of a direct one
    asleep: bool = False
    hidden: bool = False
    messages: dict[str, Body] = field(default_factory=dict[str, Body])
    edits: dict[str, int] = field(default_factory=dict[str, int])
    typing: list[float] = field(default_factory=list[float])
    last: str | None = None


@dataclass(slots=True)
class Session:
    id: str
    intents: int
    log: list[tuple[int, str, Body]] = field(default_factory=list[tuple[int, str, Body]])
    number: int = 0
    send: Callable[[Body], None] | None = None  # while it is connected


@dataclass(slots=True)
class Interaction:
    body: Body
    at: float
    answers: list[Body] = field(default_factory=list[Body])
    followups: list[Body] = field(default_factory=list[Body])


class World:
    """Everything Discord knows."""

    def __init__(self, rules: Rules, clock: Callable[[], float] = time.time) -> None:
        self.rules = rules
        self.clock = clock
        self.base = ""  # of attachments' addresses
        self.channels: dict[str, Channel] = {
            GROUP: Channel(GROUP, 0, "general"),
            FORUM: Channel(FORUM, 15, "questions"),
            **{
                number: Channel(number, 1, person=PEOPLE[name[3:]])
                for name, number in DIRECT.items()
            },
        }
        self.sessions: dict[str, Session] = {}
        self.nonces: dict[tuple[str, str], tuple[float, str]] = {}
        self.interactions: dict[str, Interaction] = {}
        self.commands: list[Body] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.stale: set[str] = set()  # attachments whose first address has expired
        self.content_allowed = True
        self.pings: list[str] = []  # who heard a bell
        self._last = 0
        self._tokens = itertools.count(1)

    # names

    def snowflake(self) -> str:
        self._last = max(self._last + 1, int(self.clock() * 1000 - EPOCH) << 22)
        return str(self._last)

    def place(self, name: str, topic: str | None = None) -> Channel:
        """ "dm:ada", "group", a channel's number, or "dm:N": a new person's direct conversation."""
        number = topic or DIRECT.get(name) or (GROUP if name == "group" else name)
        if number.startswith("dm:"):
            person = f"50000000000000{number[3:]:0>5}"
            number = f"60000000000000{number[3:]:0>5}"
            self.channels.setdefault(number, Channel(number, 1, person=person))
        return self.channels[number]

    def person(self, name: str) -> Body:
        number = PEOPLE.get(name, name)
        return {
            "id": number,
            "username": name,
            "global_name": name.title(),
            "discriminator": "0",
            "avatar": None,
        }

    def object(self, channel: Channel) -> Body:
        body: Body = {"id": channel.id, "type": channel.type, "last_message_id": channel.last}
        if channel.type == 1:
            return body | {"recipients": [self.person(channel.person)]}
        body |= {
            "guild_id": GUILD,
            "name": channel.name,
            "permission_overwrites": [],
            "position": 0,
            "parent_id": channel.parent,
        }
        if channel.type == 11:
            body["thread_metadata"] = {
                "archived": channel.asleep,
                "auto_archive_duration": 1440,
                "locked": False,
            }
            body |= {
                "owner_id": PEOPLE["ada"],
                "message_count": len(channel.messages),
                "member_count": 1,
            }
        return body

    def guild(self) -> Body:
        there = [channel for channel in self.channels.values() if channel.type in (0, 15)]
        threads = [one for one in self.channels.values() if one.type == 11 and not one.asleep]
        member = {
            "user": BOT,
            "roles": [OWN_ROLE],
            "joined_at": "2020-01-01T00:00:00+00:00",
            "deaf": False,
            "mute": False,
            "flags": 0,
        }
        roles = [
            {"id": GUILD, "name": "@everyone", "position": 0, "permissions": "0"},
            {
                "id": OWN_ROLE,
                "name": "ohmo",
                "position": 1,
                "permissions": "0",
                "managed": True,
                "tags": {"bot_id": BOT["id"]},
            },
        ]
        return {
            "id": GUILD,
            "name": "The guild",
            "joined_at": "2020-01-01T00:00:00+00:00",
            "large": False,
            "unavailable": False,
            "member_count": 3,
            "channels": [self.object(one) for one in there],
            "threads": [self.object(thread) for thread in threads],
            "roles": roles,
            "members": [member],
            "emojis": [],
            "stickers": [],
            "features": [],
            "presences": [],
            "voice_states": [],
            "owner_id": PEOPLE["ada"],
        }

    # events

    def dispatch(self, event: str, data: Body, kind: str = "") -> None:
        """To every session that asked for it (Gateway intents); kept for those that come back."""
        for session in self.sessions.values():
            if not kind or session.intents & _INTENTS[kind] or not self.rules.intents:
                self.tell(session, event, data)

    def tell(self, session: Session, event: str, data: Body) -> None:
        session.number += 1
        if event.startswith("MESSAGE_") and self.rules.intents and not session.intents & CONTENT:
            data = self._without_content(data)
        session.log.append((session.number, event, data))
        if session.send is not None:
            session.send({"op": 0, "t": event, "s": session.number, "d": data})

    def _without_content(self, data: Body) -> Body:
        free = not data.get("guild_id") or BOT["id"] in [
            one["id"] for one in data.get("mentions", [])
        ]
        return (
            data
            if free or "content" not in data
            else data | {"content": "", "attachments": [], "embeds": [], "components": []}
        )

    def _kind(self, channel: Channel, reaction: str = "") -> str:
        return ("direct" if channel.type == 1 else "guild") + reaction

    def event(self, message: Body) -> Body:
        """As the gateway tells it: with guild and member, which history leaves out."""
        channel = self.channels[message["channel_id"]]
        if channel.type == 1:
            return dict(message)
        member = {
            "nick": None,
            "roles": [],
            "joined_at": "2020-01-01T00:00:00+00:00",
            "deaf": False,
            "mute": False,
            "flags": 0,
        }
        return message | {"guild_id": GUILD, "member": member}

    # what is said

    def add(self, channel: Channel, author: Body, content: str, **more: Any) -> Body:
        """``nonce`` appears in the event and is not kept (Create Message)."""
        number, told = (
            more.pop("id", None) or self.snowflake(),
            {"nonce": more.pop("nonce")} if "nonce" in more else {},
        )
        message: Body = {
            "id": number,
            "channel_id": channel.id,
            "author": author,
            "content": content,
            "timestamp": _iso(self.clock()),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            "components": [],
            **more,
        }
        if channel.asleep:  # a message wakes a thread
            channel.asleep = False
            self.dispatch("THREAD_UPDATE", self.object(channel), "guild")
        channel.messages[number], channel.last = message, number
        self.dispatch("MESSAGE_CREATE", self.event(message) | told, self._kind(channel))
        return message

    def says(
        self,
        text: str,
        chat: str,
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
        **more: Any,
    ) -> Body:
        channel = self.place(chat, topic)
        who = (
            channel.person
            if channel.type == 1 and person == "ada" and channel.person not in PEOPLE.values()
            else person
        )
        mentions = list(more.pop("mentions", []))
        if mention and channel.type != 1:
            text, mentions = f"<@{BOT['id']}> {text}", [*mentions, BOT]
        return self.add(channel, self.person(who), text, mentions=mentions, **more)

    def edits(self, message: str, text: str, chat: str) -> None:
        channel = self._holds(message, chat)
        row = channel.messages[message]
        row |= {"content": text, "edited_timestamp": _iso(self.clock())}
        channel.edits[message] = channel.edits.get(message, 0) + 1
        self.dispatch("MESSAGE_UPDATE", self.event(row), self._kind(channel))

    def deletes(self, messages: list[str], chat: str) -> None:
        channel = self._holds(messages[0], chat)
        for message in messages:
            del channel.messages[message]
        where: Body = {"channel_id": channel.id} | (
            {"guild_id": GUILD} if channel.type != 1 else {}
        )
        if len(messages) > 1:
            self.dispatch("MESSAGE_DELETE_BULK", where | {"ids": messages}, self._kind(channel))
        else:
            self.dispatch("MESSAGE_DELETE", where | {"id": messages[0]}, self._kind(channel))

    def reacts(
        self, message: str, emoji: str, chat: str, person: str = "ada", *, added: bool = True
    ) -> None:
        channel = self._holds(message, chat)
        data: Body = {
            "user_id": PEOPLE[person],
            "channel_id": channel.id,
            "message_id": message,
            "emoji": {"id": None, "name": emoji},
        }
        if channel.type != 1:
            data |= {
                "guild_id": GUILD,
                "member": {"user": self.person(person), "nick": None, "roles": []},
            }
        self.dispatch(
            "MESSAGE_REACTION_ADD" if added else "MESSAGE_REACTION_REMOVE",
            data,
            self._kind(channel, " reaction"),
        )

    def redeliver(self, message: str, chat: str) -> None:
        channel = self._holds(message, chat)
        self.dispatch("MESSAGE_CREATE", self.event(channel.messages[message]), self._kind(channel))

    def thread(
        self, name: str = "a thread", parent: str = GROUP, *, first: str | None = None
    ) -> str:
        """A new thread; ``first``: of a forum's post, whose first message has the thread's own
        id."""
        number = self.snowflake()
        thread = self.channels[number] = Channel(number, 11, name, parent)
        if self.channels[parent].type == 15:
            self.channels[parent].last = number
        self.dispatch("THREAD_CREATE", self.object(thread) | {"newly_created": True}, "guild")
        if first is not None:
            self.add(thread, self.person("ada"), first, id=number)
        elif self.channels[parent].type == 0:
            reference = {"channel_id": number, "guild_id": GUILD}
            self.add(
                self.channels[parent],
                self.person("ada"),
                name,
                type=18,
                message_reference=reference,
            )
        return number

    def interacts(
        self, chat: str, person: str, topic: str | None = None, **more: Any
    ) -> Interaction:
        channel = self.place(chat, topic)
        number, token = self.snowflake(), f"token-{next(self._tokens)}"
        body: Body = {
            "id": number,
            "application_id": APPLICATION,
            "token": token,
            "version": 1,
            "channel_id": channel.id,
            "channel": self.object(channel),
            "locale": "en-US",
            "entitlements": [],
            **more,
        }
        user = self.person(person)
        body |= (
            {"user": user}
            if channel.type == 1
            else {"guild_id": GUILD, "member": {"user": user, "nick": None, "roles": []}}
        )
        made = self.interactions[number] = Interaction(body, self.clock())
        self.dispatch("INTERACTION_CREATE", body)
        return made

    def presses(self, message: str, choice: str, chat: str, person: str = "ada") -> Interaction:
        channel = self._holds(message, chat)
        row = channel.messages[message]
        if choice not in choices(row):
            raise LookupError(f"message {message} has no button {choice!r}")
        data = {"component_type": 2, "custom_id": choice}
        return self.interacts(channel.id, person, type=3, data=data, message=self.event(row))

    def store(self, name: str, content: bytes) -> Body:
        number = self.snowflake()
        self.files[number] = (name, content)
        return {
            "id": number,
            "filename": name,
            "size": len(content),
            "url": self.address(number),
            "proxy_url": self.address(number),
        }

    def address(self, number: str) -> str:
        signed = "fresh" if number in self.stale else "first"
        return f"{self.base}/attachments/{number}/{self.files[number][0]}?ex={signed}"

    def _holds(self, message: str, chat: str) -> Channel:
        place = self.place(chat)
        return next(one for one in [place, *self.channels.values()] if message in one.messages)


def choices(message: Body) -> list[str]:
    return [
        button["custom_id"]
        for row in message["components"]
        for button in row["components"]
        if not button.get("disabled")
    ]


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
