"""A Slack workspace in memory: people, conversations, messages, files, and the rules of the Web API
about them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
TEAM, APP, BOT, BOT_ID = "T0HOUSE", "A0OHMO", "U0OHMO", "B0OHMO"
BOT_TOKEN, APP_TOKEN = "xoxb-loopback-bot", "xapp-loopback-app"
PEOPLE = {"ada": "U0ADA", "bob": "U0BOB"}
CHATS = {"dm:ada": "D0ADA", "dm:bob": "D0BOB", "group": "C0GROUP"}


class SlackError(Exception):
    """``ok: false`` with Slack's word for it."""

    def __init__(self, word: str, **more: Any) -> None:
        super().__init__(word)
        self.word = word
        self.more = more


@dataclass
class Rules:
    """Every rule the server keeps; a mutation test switches one off and expects a test to
    notice."""

    tickets_once: bool = True  # Using Socket Mode: a WebSocket URL serves one connection
    ticket_seconds: float = 30.0
    ack_seconds: float = 3.0  # Using Socket Mode, "Acknowledge events"
    retry_after: tuple[float, ...] = (0.0, 60.0, 300.0)  # Events API, "Retries"
    retries: bool = True
    twins: bool = True  # app_mention: comes beside the message event, with another event_id
    echo: bool = True  # Events API: the bot's own messages come back as events
    authorised_files: bool = (
        True  # Working with files: url_private wants the bearer token, else a sign-in page
    )
    metadata_on_request: bool = True  # conversations.history: include_all_metadata
    replies_apart: bool = True  # conversations.history: replies are only in conversations.replies
    long_texts: bool = True  # chat.postMessage 40 000, chat.update 4 000 characters: msg_too_long
    blocks: bool = True  # Block Kit limits: invalid_blocks
    json_for_writers: bool = True  # Web API: reading methods take form arguments only
    page: int = (
        999  # conversations.history: largest page; 15 for apps distributed outside the Marketplace
    )
    per_channel: float = 1.0  # Rate limits: posts per second and channel ...
    burst: int = 10  # ... "short bursts" above it


@dataclass
class Workspace:
    clock: Callable[[], float] = time.time
    rules: Rules = field(default_factory=Rules)
    users: dict[str, str] = field(
        default_factory=lambda: {**{user: name for name, user in PEOPLE.items()}, BOT: "ohmo"}
    )
    chats: dict[str, Row] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)  # by conversation, in ts order
    files: dict[str, Row] = field(default_factory=dict)
    bytes: dict[str, bytes] = field(default_factory=dict)
    emit: Callable[[Row], None] = lambda event: None
    _last: int = 0
    _number: int = 0
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, chat in CHATS.items():
            self.add_chat(chat, name.removeprefix("dm:"), user=PEOPLE.get(name.removeprefix("dm:")))

    def add_chat(
        self, chat: str, name: str, *, user: str | None = None, member: bool = True
    ) -> None:
        self.chats[chat] = {
            "id": chat,
            "name": name,
            "is_im": user is not None,
            "is_member": member,
            "is_archived": False,
        }
        if user is not None:
            self.chats[chat]["user"] = user
        self.rows[chat] = []

    def place(self, name: str) -> str:
        """A conversation by its name in tests; ``dm:N`` is somebody new, ``group:N`` a new
        channel."""
        if name in CHATS:
            return CHATS[name]
        kind, _, number = name.partition(":")
        chat = f"{'D' if kind == 'dm' else 'C'}{number}"
        if chat not in self.chats:
            person = f"U{number}" if kind == "dm" else None
            if person is not None:
                self.users[person] = f"person{number}"
            self.add_chat(chat, name, user=person)
        return chat

    def ts(self) -> str:
        """Message ts: unique inside the workspace here, and growing."""
        self._last = max(self._last + 100, int(self.clock() * 1_000_000))
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def number(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number:08d}"

    # finding

    def chat(self, chat: object) -> Row:
        """conversations.*: channel_not_found."""
        if not isinstance(chat, str) or chat not in self.chats:
            raise SlackError("channel_not_found")
        return self.chats[chat]

    def row(self, chat: str, ts: object) -> Row:
        for row in self.rows[chat]:
            if row["ts"] == ts:
                return row
        raise SlackError("message_not_found")

    # people

    def says(
        self,
        chat: str,
        user: str,
        text: str,
        thread: str | None = None,
        files: list[Row] | None = None,
        **more: Any,
    ) -> Row:
        row: Row = {
            "type": "message",
            "user": user,
            "text": text,
            "ts": self.ts(),
            "team": TEAM,
            **more,
        }
        row.setdefault("client_msg_id", self.number("client-"))
        if files:
            row |= {"files": files, "subtype": "file_share", "upload": False}
        return self.add(chat, row, thread)

    def add(self, chat: str, row: Row, thread: str | None) -> Row:
        """A reply changes its root: reply_count, reply_users, latest_reply (Retrieving messages,
        "Threads")."""
        if thread and thread != row["ts"]:
            row["thread_ts"] = thread
            root = next((old for old in self.rows[chat] if old["ts"] == thread), None)
            if root is not None:
                row["parent_user_id"] = root["user"]
                root["thread_ts"] = thread
                root["reply_count"] = root.get("reply_count", 0) + 1
                root["reply_users"] = sorted({*root.get("reply_users", ()), row["user"]})
                root["latest_reply"] = row["ts"]
        self.rows[chat].append(row)
        self.announce(chat, row)
        return row

    def announce(self, chat: str, row: Row) -> None:
        """message event; and app_mention, with the same ts, when our bot is named in a channel."""
        if row.get("user") == BOT and not self.rules.echo:
            return
        private = self.chats[chat]["is_im"]
        event = {
            **row,
            "channel": chat,
            "event_ts": row["ts"],
            "channel_type": "im" if private else "channel",
        }
        event.pop("metadata", None)
        twin = (
            f"<@{BOT}>" in row["text"]
            and not private
            and not row.get("bot_id")
            and self.rules.twins
        )
        if twin:
            self.emit(
                {
                    **{k: v for k, v in event.items() if k not in {"channel_type", "subtype"}},
                    "type": "app_mention",
                }
            )
        self.emit(event)

    def changes(self, chat: str, ts: str, text: str, *, user: str | None = None) -> None:
        row = self.row(chat, ts)
        before = dict(row)
        row["text"] = text
        row["edited"] = {"user": user or row["user"], "ts": self.ts()}
        row["edits"] = row.get("edits", 0) + 1
        self._changed(chat, row, before)

    def unfurls(self, chat: str, ts: str) -> None:
        """message_changed without a new text: Slack adds what is behind a link."""
        row = self.row(chat, ts)
        self._changed(
            chat, {**row, "attachments": [{"from_url": "https://example.org"}]}, dict(row)
        )

    def _changed(self, chat: str, row: Row, before: Row) -> None:
        shown = {k: v for k, v in row.items() if k not in {"edits", "metadata"}}
        kind = "im" if self.chats[chat]["is_im"] else "channel"
        self.emit(
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "channel": chat,
                "channel_type": kind,
                "message": shown,
                "previous_message": before,
                "ts": self.ts(),
                "event_ts": self.ts(),
            }
        )

    def deletes(self, chat: str, ts: str) -> None:
        row = self.row(chat, ts)
        self.rows[chat].remove(row)
        kind = "im" if self.chats[chat]["is_im"] else "channel"
        self.emit(
            {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "channel": chat,
                "channel_type": kind,
                "deleted_ts": ts,
                "previous_message": row,
                "ts": self.ts(),
                "event_ts": self.ts(),
            }
        )

    def reacts(self, chat: str, ts: str, user: str, emoji: str, *, added: bool = True) -> None:
        item = {"type": "message", "channel": chat, "ts": ts}
        author = self.row(chat, ts)["user"]
        kind = "reaction_added" if added else "reaction_removed"
        self.emit(
            {
                "type": kind,
                "user": user,
                "reaction": emoji,
                "item": item,
                "item_user": author,
                "event_ts": self.ts(),
            }
        )

    # the Web API

    def post(self, chat: str, args: Row) -> Row:
        """chat.postMessage: text or blocks, 40 000 characters, one a second and channel."""
        if not self.chat(chat)["is_member"]:
            raise SlackError("not_in_channel")
        self._pace(chat)
        self._check(args, 40_000)
        row: Row = {
            "type": "message",
            "user": BOT,
            "bot_id": BOT_ID,
            "app_id": APP,
            "team": TEAM,
            "ts": self.ts(),
            "text": args.get("text", ""),
        }
        for name in ("blocks", "metadata", "mrkdwn"):
            if name in args:
                row[name] = args[name]
        return self.add(chat, row, args.get("thread_ts"))

    def update(self, chat: str, ts: object, args: Row) -> Row:
        """chat.update: our own messages only, 4 000 characters, counted in bytes; blocks that are
        not named stay, an empty list takes them away."""
        row = self._own(chat, ts, "cant_update_message")
        self._check(args, 4_000)
        if self.rules.long_texts and len(args.get("text", "").encode()) > 4_000:
            raise SlackError("msg_too_long")
        before = dict(row)
        row["text"] = args.get("text", row["text"])
        if args.get("blocks"):
            row["blocks"] = args["blocks"]
        elif "blocks" in args:
            row.pop("blocks", None)
        if "metadata" in args:
            row["metadata"] = args["metadata"]
        row["edited"], row["edits"] = {"user": BOT, "ts": self.ts()}, row.get("edits", 0) + 1
        self._changed(chat, row, before)
        return row

    def remove(self, chat: str, ts: object) -> None:
        """chat.delete: our own messages only."""
        self._own(chat, ts, "cant_delete_message")
        self.deletes(chat, str(ts))

    def _own(self, chat: str, ts: object, refusal: str) -> Row:
        self.chat(chat)
        row = self.row(chat, ts)
        if row["user"] != BOT:
            raise SlackError(refusal)
        return row

    def _pace(self, chat: str) -> None:
        """Rate limits, "Posting messages"."""
        now = self.clock()
        left, at = self._buckets.get(chat, (float(self.rules.burst), now))
        left = min(float(self.rules.burst), left + (now - at) * self.rules.per_channel)
        if left < 1:
            raise SlackError(
                "ratelimited", retry_after=max(1, round((1 - left) / self.rules.per_channel))
            )
        self._buckets[chat] = (left - 1, now)

    def _check(self, args: Row, most: int) -> None:
        text, blocks = args.get("text", ""), args.get("blocks") or []
        if not text and not blocks:
            raise SlackError("no_text")
        if self.rules.long_texts and len(text) > most:
            raise SlackError("msg_too_long")
        metadata = args.get("metadata")
        if metadata is not None and not (
            isinstance(metadata.get("event_type"), str)
            and isinstance(metadata.get("event_payload"), dict)
        ):
            raise SlackError("invalid_metadata_format")
        if self.rules.blocks:
            check_blocks(blocks)

    def history(self, chat: str, args: Row) -> Row:
        """conversations.history: newest first; oldest and latest exclude themselves."""
        self.chat(chat)
        rows = [
            row
            for row in self.rows[chat]
            if not self.rules.replies_apart
            or row.get("thread_ts") in {None, row["ts"]}
            or _broadcast(row)
        ]
        return self._page(rows[::-1], args)

    def replies(self, chat: str, args: Row) -> Row:
        """conversations.replies: the root first, whatever ``oldest`` says, then replies oldest
        first."""
        self.chat(chat)
        root = next((row for row in self.rows[chat] if row["ts"] == args.get("ts")), None)
        if root is None:
            raise SlackError("thread_not_found")
        rows = [
            row for row in self.rows[chat] if row.get("thread_ts") == root["ts"] and row is not root
        ]
        page = self._page(rows, args)
        page["messages"].insert(0, self._shown(root, args))
        return page

    def _page(self, rows: list[Row], args: Row) -> Row:
        oldest, latest = float(args.get("oldest") or 0), float(args.get("latest") or 1e12)
        # "Include messages with oldest or latest timestamps in results"
        both = str(args.get("inclusive", "0")).lower() in {"1", "true"}
        rows = [
            row
            for row in rows
            if oldest < (ts := float(row["ts"])) < latest or (both and ts in (oldest, latest))
        ]
        start = int(base64.b64decode(args["cursor"]).decode()) if args.get("cursor") else 0
        end = start + min(int(args.get("limit") or 100), self.rules.page)
        more = end < len(rows)
        cursor = base64.b64encode(str(end).encode()).decode() if more else ""
        shown = [self._shown(row, args) for row in rows[start:end]]
        return {"messages": shown, "has_more": more, "response_metadata": {"next_cursor": cursor}}

    def _shown(self, row: Row, args: Row) -> Row:
        with_metadata = (
            str(args.get("include_all_metadata", "0")).lower() in {"1", "true"}
            or not self.rules.metadata_on_request
        )
        return {k: v for k, v in row.items() if k != "edits" and (k != "metadata" or with_metadata)}

    # files

    def announce_upload(self, name: str, length: int) -> Row:
        """files.getUploadURLExternal."""
        if not name or length <= 0:
            raise SlackError("invalid_arguments")
        file = {
            "id": self.number("F"),
            "name": name,
            "title": name,
            "size": length,
            "mimetype": "application/octet-stream",
            "shares": {},
        }
        self.files[file["id"]] = file
        return file

    def complete(self, file: str, title: str, chat: str, thread: str | None) -> Row:
        """files.completeUploadExternal: shows an upload in a conversation."""
        if file not in self.bytes:
            raise SlackError("file_not_found")
        found = self.files[file]
        found["title"] = title
        row = {
            "type": "message",
            "subtype": "file_share",
            "user": BOT,
            "bot_id": BOT_ID,
            "text": "",
            "ts": self.ts(),
            "files": [found],
        }
        self.add(chat, row, thread)
        found["shares"].setdefault("private", {}).setdefault(chat, []).append({"ts": row["ts"]})
        return found

    def forget_file(self, file: str) -> None:
        """files.delete."""
        if self.files.pop(file, None) is None:
            raise SlackError("file_not_found")
        for rows in self.rows.values():
            rows[:] = [
                row for row in rows if not any(one["id"] == file for one in row.get("files", ()))
            ]


def _broadcast(row: Row) -> bool:
    return row.get("subtype") == "thread_broadcast"


def check_blocks(blocks: list[Row]) -> None:
    """Block Kit reference: 50 blocks; section text 3 000; actions 25 elements; button text 75,
    value 2 000, unique action_ids."""
    if len(blocks) > 50:
        raise SlackError("invalid_blocks")
    tables = [block for block in blocks if block.get("type") == "table"]
    if len(tables) > 1:
        raise SlackError("invalid_attachments", errors=["only_one_table_allowed"])
    for table in tables:
        check_table(table)
    for block in blocks:
        text = block.get("text", {})
        if block.get("type") == "section" and not 0 < len(text.get("text", "")) <= 3000:
            raise SlackError("invalid_blocks")
        if block.get("type") == "actions":
            buttons = block.get("elements", [])
            ids = [button.get("action_id") for button in buttons]
            sizes = all(
                0 < len(button["text"]["text"]) <= 75 and len(button.get("value", "")) <= 2000
                for button in buttons
            )
            if not 0 < len(buttons) <= 25 or len(set(ids)) != len(ids) or not sizes:
                raise SlackError("invalid_blocks")


def check_table(table: Row) -> None:
    """Table block: 100 rows of 20 cells, raw_text or rich_text, 20 column_settings; 10 000
    characters in all cells together."""
    rows = table.get("rows") or []
    cells = [cell for row in rows for cell in row]
    sound = (
        0 < len(rows) <= 100
        and all(0 < len(row) <= 20 for row in rows)
        and len(table.get("column_settings", ())) <= 20
    )
    sound = sound and all(cell.get("type") in {"raw_text", "rich_text"} for cell in cells)
    sound = sound and all(cell.get("text") for cell in cells if cell["type"] == "raw_text")
    sound = sound and all(
        column.get("align", "left") in {"left", "center", "right"}
        for column in table.get("column_settings", ())
    )
    if not sound or sum(len(cell.get("text", "")) for cell in cells) > 10_000:
        raise SlackError("invalid_blocks")


def decoded(value: Any) -> Any:
    """Form arguments carry objects as JSON."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
