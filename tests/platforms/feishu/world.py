"""One tenant: chats, messages, files, reactions, card entities; it keeps the documented rules and
announces what happens."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.platforms.feishu import cards
from tests.platforms.feishu.rules import Refusal, Rules

Row = dict[str, Any]
APP, SECRET, BOT, TENANT = "cli_loopback", "loopback-secret", "ou_ohmo", "tenant-1"
PEOPLE = {"ada": "ou_ada", "bob": "ou_bob"}
CHATS = {"dm:ada": "oc_dmada", "dm:bob": "oc_dmbob", "group": "oc_group"}
EMOJI = {"Typing", "THUMBSUP", "OK", "HEART", "SMILE", "DONE"}
DAY = 86_400_000


@dataclass
class World:
    clock: Callable[[], float] = time.time
    rules: Rules = field(default_factory=Rules)
    names: dict[str, str] = field(
        default_factory=lambda: {person: name.title() for name, person in PEOPLE.items()}
    )
    private: dict[str, str] = field(default_factory=dict)  # chat -> person
    rows: dict[str, list[Row]] = field(default_factory=dict)  # by chat, in their order
    # key -> type, name, bytes
    files: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)
    # card_id -> {card, message, sequence, streaming}
    entities: dict[str, Row] = field(default_factory=dict)
    reactions: dict[str, Row] = field(default_factory=dict)
    emit: Callable[[str, Row], None] = lambda kind, event: None
    called_all: int = 0
    # (message, text) of every streamed text
    writes: list[tuple[str, str]] = field(default_factory=list)
    _last: int = 0
    _number: int = 0
    _uuids: dict[str, tuple[float, str]] = field(default_factory=dict)
    _paces: dict[str, deque[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, chat in CHATS.items():
            self.rows[chat] = []
            if name.startswith("dm:"):
                self.private[chat] = PEOPLE[name.removeprefix("dm:")]

    def ms(self) -> int:
        self._last = max(self._last + 1, int(self.clock() * 1000))
        return self._last

    def number(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number:08d}"

    def chat(self, name: str) -> str:
        """By its name in tests; ``dm:NUMBER`` is somebody new."""
        if name.startswith("dm:") and name not in CHATS:
            person = f"ou_{name.removeprefix('dm:')}"
            chat = f"oc_{name.removeprefix('dm:')}"
            self.rows.setdefault(chat, [])
            self.private[chat] = person
            return chat
        return CHATS.get(name, name)

    def person(self, chat: str, name: str) -> str:
        return self.private.get(chat, PEOPLE.get(name, name))

    def find(self, message: object) -> Row:
        for rows in self.rows.values():
            for row in rows:
                if row["message_id"] == message:
                    return row
        raise Refusal(230001, "param is invalid: message_id")

    # people

    def says(
        self,
        chat: str,
        person: str,
        text: str,
        root: str | None = None,
        *,
        mention: bool = False,
        **more: Any,
    ) -> Row:
        content = {"text": f"@_user_1 {text}" if mention else text}
        mentions = (
            [
                {
                    "key": "@_user_1",
                    "id": BOT,
                    "id_type": "open_id",
                    "name": "ohmo",
                    "tenant_key": TENANT,
                }
            ]
            if mention
            else []
        )
        return self.add(
            chat,
            {"id": person, "id_type": "open_id", "sender_type": "user"},
            "text",
            content,
            root,
            mentions=mentions,
            **more,
        )

    def sends(self, chat: str, person: str, kind: str, content: Row, **more: Any) -> Row:
        return self.add(
            chat,
            {"id": person, "id_type": "open_id", "sender_type": "user"},
            kind,
            content,
            None,
            **more,
        )

    def add(
        self, chat: str, sender: Row, kind: str, content: Row, root: str | None, **more: Any
    ) -> Row:
        at = str(self.ms())
        row: Row = {
            "message_id": self.number("om_"),
            "msg_type": kind,
            "create_time": at,
            "update_time": at,
            "deleted": False,
            "updated": False,
            "chat_id": chat,
            "sender": {**sender, "tenant_key": TENANT},
            "body": {"content": json.dumps(content, ensure_ascii=False)},
            "mentions": [],
            **more,
        }
        if root is not None:
            self._into_thread(row, root)
        self.rows[chat].append(row)
        if row["sender"]["sender_type"] == "user":
            self.announce(row)
        return row

    def _into_thread(self, row: Row, root: str) -> None:
        """ "Thread overview": the root belongs to the thread, too."""
        first = self.find(root)
        first.setdefault("thread_id", self.number("omt_"))
        row |= {
            "root_id": first["message_id"],
            "parent_id": row.get("parent_id") or root,
            "thread_id": first["thread_id"],
        }

    def announce(self, row: Row) -> None:
        """ "Receive message" (im.message.receive_v1): of people; a bot does not hear itself."""
        message = {
            "message_id": row["message_id"],
            "create_time": row["create_time"],
            "update_time": row["update_time"],
            "chat_id": row["chat_id"],
            "chat_type": "p2p" if row["chat_id"] in self.private else "group",
            "message_type": row["msg_type"],
            "content": row["body"]["content"],
            **{name: row[name] for name in ("root_id", "parent_id", "thread_id") if name in row},
        }
        if row["mentions"]:
            message["mentions"] = [
                {
                    "key": mention["key"],
                    "id": {"open_id": mention["id"], "union_id": "", "user_id": ""},
                    "name": mention["name"],
                    "tenant_key": TENANT,
                }
                for mention in row["mentions"]
            ]
        sender = {
            "sender_id": {"open_id": row["sender"]["id"], "union_id": "", "user_id": ""},
            "sender_type": "user",
            "tenant_key": TENANT,
        }
        self.emit("im.message.receive_v1", {"sender": sender, "message": message})

    def changes(self, message: str, text: str) -> None:
        """A person edits: there is no event for it, the history shows it."""
        row = self.find(message)
        row |= {
            "body": {"content": json.dumps({"text": text})},
            "updated": True,
            "update_time": str(self.ms()),
        }

    def recalls(self, message: str) -> None:
        row = self.find(message)
        row |= {
            "deleted": True,
            "update_time": str(self.ms()),
            "body": {"content": "This message was recalled"},
        }
        event = {
            "message_id": message,
            "chat_id": row["chat_id"],
            "recall_time": row["update_time"],
            "recall_type": "message_owner",
        }
        self.emit("im.message.recalled_v1", event)

    def reacts(
        self, message: str, person: str, emoji: str, *, added: bool = True, operator: str = "user"
    ) -> None:
        kind = "im.message.reaction.created_v1" if added else "im.message.reaction.deleted_v1"
        user = {"open_id": person, "union_id": "", "user_id": ""}
        event = {
            "message_id": message,
            "reaction_type": {"emoji_type": emoji},
            "operator_type": operator,
            "user_id": user,
        }
        self.emit(kind, {**event, "action_time": str(self.ms())})

    # the bot

    def post(
        self,
        chat: str,
        kind: str,
        content: str,
        uuid: str,
        root: str | None = None,
        *,
        thread: bool = False,
    ) -> Row:
        """Send message, Reply message."""
        folded = self._uuids.get(uuid) if uuid else None
        if folded is not None and self.clock() - folded[0] < self.rules.uuid_seconds:
            return self.find(folded[1])
        if len(uuid) > 50:
            raise Refusal(230001, "uuid: the max len is 50")
        if chat not in self.rows:
            raise Refusal(230002, "Bot/User can NOT be out of the chat.")
        body = self._content(kind, content)
        self._pace(f"post {chat}", self.rules.posts_a_second)
        more: Row = {}
        if root is not None:
            first = self.find(root)
            if first["deleted"]:
                raise Refusal(230011, "The message was withdrawn.")
            in_thread = thread or "thread_id" in first
            more = {} if in_thread else {"root_id": first.get("root_id", root), "parent_id": root}
            root = (first.get("root_id") or root) if in_thread else None
        row = self.add(
            chat,
            {"id": APP, "id_type": "app_id", "sender_type": "app"},
            kind,
            body,
            root,
            edits=0,
            **more,
        )
        self.called_all += cards.calls_all(content)
        if kind == "interactive":
            self._attach(row, body)
        if uuid:
            self._uuids[uuid] = (self.clock(), row["message_id"])
        return row

    def _content(self, kind: str, content: str) -> Row:
        try:
            body = json.loads(content)
        except ValueError:
            raise Refusal(230001, "content is not a string in json format.") from None
        most = self.rules.card_bytes if kind in {"interactive", "post"} else self.rules.text_bytes
        if len(content.encode()) > most:
            raise Refusal(230025, "The length of the message content reaches its limit.")
        match kind:
            case "interactive" if body.get("type") == "card":
                entity = self.entities.get(body.get("data", {}).get("card_id", ""))
                if entity is None or (entity["message"] and self.rules.entity_once):
                    raise Refusal(
                        230099,
                        "Failed to create card content, ext=ErrCode: 11310; ErrMsg: cardid is"
                        " invalid or was sent",
                    )
            case "interactive":
                cards.check(body, self.rules)
            case "image" | "file":
                if self.files.get(body.get(f"{kind}_key", ""), ("",))[0] != kind:
                    raise Refusal(230001, f"invalid {kind}_key")
            case "text" if isinstance(body.get("text"), str):
                pass
            case _:
                raise Refusal(230001, f"invalid msg_type {kind}")
        return body

    def _attach(self, row: Row, body: Row) -> None:
        """Every card has an entity; an inline one is made with its message."""
        card_id = body["data"]["card_id"] if body.get("type") == "card" else self.entity(body)
        self.entities[card_id]["message"] = row["message_id"]
        row["card_id"] = card_id

    def card(self, row: Row) -> Row:
        return self.entities[row["card_id"]]["card"]

    def patch(self, message: str, content: str) -> None:
        """Update message card."""
        row = self.find(message)
        body = self._content("interactive", content)
        if self.rules.own_cards_only:
            if row["sender"]["id"] != APP or row["msg_type"] != "interactive":
                raise Refusal(230001, "This message is NOT a card of this app.")
            if row["deleted"]:
                raise Refusal(230011, "The message was withdrawn.")
            if self.clock() * 1000 - int(row["create_time"]) > 14 * DAY:
                raise Refusal(230031, "The message is sent more than 14 days ago.")
        entity = self.entities[row["card_id"]]
        multi = (card.get("config", {}).get("update_multi") for card in (entity["card"], body))
        if self.rules.update_multi and not all(multi):
            raise Refusal(
                230099,
                "Failed to create card content, ext=ErrCode: 300302; ErrMsg: update_multi is not"
                " true",
            )
        if self.rules.streaming_locks and entity["streaming"]:
            raise Refusal(200810, "The card is in streaming mode.")
        if self.rules.entities_apart:
            raise Refusal(200810, "The card is an entity.")
        self._pace(f"patch {message}", self.rules.patches_a_second)
        entity |= {"card": body, "streaming": False}
        row["edits"] += 1
        self.called_all += cards.calls_all(content)

    def recall(self, message: str) -> None:
        """Recall message: one's own."""
        row = self.find(message)
        if row["sender"]["id"] != APP:
            raise Refusal(230026, "No permission to recall this message.")
        if row["deleted"]:
            raise Refusal(230011, "The message was withdrawn.")
        row["deleted"] = True

    def _pace(self, what: str, most: int) -> None:
        now, times = self.clock(), self._paces.setdefault(what, deque())
        while times and now - times[0] >= 1.0:
            times.popleft()
        if len(times) >= most:
            raise Refusal(
                230020,
                "This operation triggers the frequency limit.",
                reset=max(0.1, round(1.0 - (now - times[0]), 2)),
            )
        times.append(now)

    # card entities

    def entity(self, card: Row) -> str:
        """Create card entity."""
        cards.check(card, self.rules)
        card_id = self.number("7")
        self.entities[card_id] = {
            "card": card,
            "message": "",
            "sequence": 0,
            "streaming": bool(card.get("config", {}).get("streaming_mode")),
        }
        return card_id

    def stream(self, card_id: str, element: str, text: str, sequence: int) -> None:
        """Stream updates of text: the whole text, every time."""
        entity = self._entity(card_id, sequence)
        if self.rules.streaming_needed and not entity["streaming"]:
            raise Refusal(300309, "streaming mode is closed")
        found = next(
            (
                one
                for one in cards.elements(entity["card"]["body"])
                if one.get("element_id") == element
            ),
            None,
        )
        if found is None:
            raise Refusal(300313, "element not exist")
        fresh = json.loads(json.dumps(entity["card"]))
        next(one for one in cards.elements(fresh["body"]) if one.get("element_id") == element)[
            "content"
        ] = text
        cards.check(fresh, self.rules)
        if len(json.dumps(fresh, ensure_ascii=False).encode()) > self.rules.card_bytes:
            raise Refusal(200860, "card over max size")
        entity["card"] = fresh
        self.writes.append((entity["message"], text))
        self.called_all += bool(cards.CALLS_ALL.search(text))
        if entity["message"]:
            self.find(entity["message"])["edits"] += 1

    def settings(self, card_id: str, settings: str, sequence: int) -> None:
        """Update card settings."""
        entity = self._entity(card_id, sequence)
        config = json.loads(settings)["config"]
        entity["streaming"] = bool(config.get("streaming_mode", entity["streaming"]))

    def update(self, card_id: str, data: str, sequence: object) -> None:
        """Update card entity."""
        entity = self._entity(card_id, sequence)
        card = self._content("interactive", data)
        entity |= {"card": card, "streaming": bool(card["config"].get("streaming_mode"))}

    def _entity(self, card_id: str, sequence: object) -> Row:
        entity = self.entities.get(card_id)
        if entity is None:
            raise Refusal(200740, "card not exist")
        if not isinstance(sequence, int) or not 0 < sequence < 2**31:
            raise Refusal(10002, "sequence")
        if self.rules.sequences and sequence <= entity["sequence"]:
            raise Refusal(300317, "sequence number compare failed")
        entity["sequence"] = sequence
        return entity

    # reading

    def history(self, kind: str, container: str, query: Row) -> Row:
        """Get chat history."""
        if kind == "thread":
            if query.get("start_time"):
                raise Refusal(230001, "start_time is not supported for threads")
            rows = [
                row
                for rows in self.rows.values()
                for row in rows
                if row.get("thread_id") == container
            ]
        else:
            if container not in self.rows:
                raise Refusal(230002, "Bot/User can NOT be out of the chat.")
            rows = [
                row
                for row in self.rows[container]
                if not self.rules.thread_apart or not row.get("thread_id") or not row.get("root_id")
            ]
        start, end = (
            int(query.get("start_time") or 0) * 1000,
            int(query.get("end_time") or 10**12) * 1000,
        )
        rows = [row for row in rows if start <= int(row["create_time"]) <= end]
        if query.get("sort_type") == "ByCreateTimeDesc":
            rows = rows[::-1]
        size = int(query.get("page_size") or 20)
        if not 0 < size <= self.rules.page:
            raise Refusal(230001, "page_size")
        at = int(query.get("page_token") or 0)
        more = at + size < len(rows)
        return {
            "items": [self.shown(row) for row in rows[at : at + size]],
            "has_more": more,
            "page_token": str(at + size) if more else "",
        }

    def shown(self, row: Row) -> Row:
        return {name: value for name, value in row.items() if name not in {"edits", "card_id"}}

    def resource(self, message: str, key: str, kind: str) -> tuple[str, bytes]:
        """Get resource files of a message."""
        row = self.find(message)
        if self.rules.resources:
            if key not in row["body"]["content"] or row["msg_type"] == "sticker":
                raise Refusal(234003, "File not in message")
            if (self.files.get(key, ("",))[0] == "image") != (kind == "image"):
                raise Refusal(234001, "Invalid request param: type")
        if key not in self.files:
            raise Refusal(234003, "File not in message")
        return self.files[key][1], self.files[key][2]

    def keep(self, kind: str, name: str, content: bytes) -> str:
        """Upload image, Upload file."""
        most = (10 << 20) if kind == "image" else (30 << 20)
        if self.rules.file_sizes and not 0 < len(content) <= most:
            raise Refusal(
                234006 if content else 234010, "The file size exceed the max value, or is 0"
            )
        key = self.number("img_" if kind == "image" else "file_")
        self.files[key] = (kind, name, content)
        return key

    def react(self, message: str, emoji: object) -> str:
        """Add message reaction."""
        self.find(message)
        if self.rules.emoji and emoji not in EMOJI:
            raise Refusal(231001, "reaction type is invalid.")
        reaction = self.number("ZCaCIjUBVVWSrm5L-")
        self.reactions[reaction] = {"message_id": message, "emoji_type": emoji}
        self.reacts(message, "", str(emoji), operator="app")
        return reaction
