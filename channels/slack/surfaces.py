"""What Slack has beside messages: the Home tab, assistant threads, text streams, slash commands and
files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from channels.contract import About, Arrival, Attachment, Inbound, MessageId, Receipt
from channels.errors import AuthFailed, ChannelError, Rejected
from channels.payloads import Body, soft
from channels.platform_calls import downloaded, plain_name
from channels.record import Recent
from channels.slack.client import Refused, Wire, need
from channels.slack.mrkdwn import escape
from channels.slack.render import streamed
from channels.stale_typing import OpenIndicators

_log = logging.getLogger(__name__)

WAITING = 100  # courtesies that wait; more are dropped
_TITLE = "assistant.threads.setTitle"
REMEMBERED = 1_000  # people and threads
TITLE = 60  # characters of a thread's first words that name it
# setSuggestedPrompts takes at most four.
PROMPTS = (
    ("What can you do?", "What can you do for me here?"),
    ("Status", "/status"),
    ("Help", "/help"),
)


class Courtesies:
    """The Home tab, an assistant thread's first prompts and its title. One that fails costs nothing
    else.

    ``about``: what may be told of the house, asked anew each time. ``untitled``: assistant
    threads nobody has spoken in yet, as ``TS CHAT``; they outlive a restart, because people may
    take their time."""

    def __init__(self, wire: Wire, about: Callable[[], About], untitled: OpenIndicators) -> None:
        self._wire = wire
        self._about = about
        self._calls: asyncio.Queue[tuple[str, Body]] = asyncio.Queue(WAITING)
        # person -> digest of the Home tab they have
        self._published = Recent[str, str](REMEMBERED)
        # those whose title is on its way
        self._untitled = untitled
        self._named = set[str]()
        untitled.keep()

    async def run(self) -> None:
        """Until cancelled. Raises AuthFailed."""
        while True:
            method, body = await self._calls.get()
            try:
                await self._wire.write(method, body, once=False)
            except AuthFailed:
                raise
            except ChannelError as error:
                _log.warning("slack: %s", error)
                self._published.pop(str(body.get("user_id", "")), None)
            if method == _TITLE:
                await self._untitled.off(f"{body['thread_ts']} {body['channel_id']}")

    async def event(self, payload: Body) -> None:
        """One event that was acknowledged; most need no courtesy."""
        event = soft(payload, "event")
        if event.get("type") == "app_home_opened" and event.get("tab") == "home":
            self._home(event)
        elif event.get("type") == "assistant_thread_started":
            await self._thread(event)

    def heard(self, arrival: Arrival) -> None:
        """The first words of an assistant thread are its title."""
        if not isinstance(arrival, Inbound) or arrival.address.topic is None:
            return
        thread = f"{arrival.address.topic} {arrival.address.chat}"
        if thread not in self._untitled or thread in self._named:
            return
        self._named.add(thread)
        words = " ".join(arrival.text.split())
        title = words if len(words) <= TITLE else words[: TITLE - 1] + "…"
        if title:
            self._put(
                _TITLE,
                {
                    "channel_id": arrival.address.chat,
                    "thread_ts": arrival.address.topic,
                    "title": title,
                },
            )

    def _home(self, event: Body) -> None:
        """app_home_opened brings the view that stands there, so that an unchanged one is not
        published again, also after a restart."""
        person = event.get("user")
        if not isinstance(person, str):
            return
        view = home(self._about())
        digest = str(view["private_metadata"])
        shown = self._published.get(person)
        if isinstance(event.get("view"), dict):
            shown = soft(event, "view").get("private_metadata")
        if shown == digest:
            return
        self._published[person] = digest
        self._put("views.publish", {"user_id": person, "view": view})

    async def _thread(self, event: Body) -> None:
        thread = soft(event, "assistant_thread")
        chat = thread.get("channel_id")
        ts = thread.get("thread_ts")
        if not isinstance(chat, str) or not isinstance(ts, str) or f"{ts} {chat}" in self._untitled:
            return
        await self._untitled.on(f"{ts} {chat}")
        oldest = self._untitled.oldest()
        if len(self._untitled) > REMEMBERED and oldest is not None:
            await self._untitled.off(oldest)
        prompts = [{"title": title, "message": message} for title, message in PROMPTS]
        self._put(
            "assistant.threads.setSuggestedPrompts",
            {"channel_id": chat, "thread_ts": ts, "prompts": prompts},
        )

    def _put(self, method: str, body: Body) -> None:
        try:
            self._calls.put_nowait((method, body))
        except asyncio.QueueFull:
            _log.warning("slack: too much to do at once: %s was left out", method)


def home(about: About) -> Body:
    """The Home tab (Home tab views): how to talk to us, whose we are, which model answers. Its
    digest travels as ``private_metadata``."""
    owners = ", ".join(f"<@{owner}>" for owner in about.owners)
    owners = owners or "not named yet (`owner` in config.yaml)"
    lines = (
        (
            "*How to talk to me*\n• write in *Messages*, or any direct message: each thread is a"
            " conversation of its own\n• in a channel: `/invite` me, then mention me; I answer in a"
            " thread and hear its replies without another mention\n• `/ohmo status`, `/ohmo stop`,"
            " `/ohmo new`, `/ohmo help` work everywhere"
        ),
        (
            f"*Owner*\n{owners}. I answer people the owner let in; write me a direct message to ask"
            " for that."
        ),
        f"*Model*\n{escape(about.model) or 'none is configured'}",
    )
    blocks: list[Body] = [
        {"type": "header", "text": {"type": "plain_text", "text": "ohmo", "emoji": False}}
    ]
    blocks += [
        {"type": "section", "text": {"type": "mrkdwn", "text": line[:3000], "verbatim": True}}
        for line in lines
    ]
    digest = hashlib.sha256(json.dumps(blocks, sort_keys=True).encode()).hexdigest()[:16]
    return {"type": "home", "blocks": blocks, "private_metadata": digest}


OPEN = 500  # streams and askers that are remembered


class Streams:
    """Slack's native text streams (chat.startStream, appendStream, stopStream): asked for with
    ``streaming: native``, given up for edits whenever Slack refuses.

    The streams of one connection. After a restart none is known: their messages are edited, and
    Slack closes them by itself."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._open = Recent[str, str](OPEN)  # ts -> what was said last in one go
        self._askers = Recent[tuple[str, str], str](OPEN)  # thread -> who is answered there

    def asked(self, chat: str, thread: str, person: str) -> None:
        self._askers[chat, thread] = person

    def __contains__(self, ts: object) -> bool:
        return ts in self._open

    async def start(self, team: str, body: Body) -> Body | None:
        """Slack's answer; None: no stream can be here, say it as a message. Raises ChannelError but
        Rejected."""
        call: Body = {"channel": body["channel"], "markdown_text": body["markdown_text"]}
        thread = body.get("thread_ts")
        if thread:
            call["thread_ts"] = thread
        chat = str(body["channel"])
        if not chat.startswith("D"):
            # Outside of direct messages Slack wants to know who is answered.
            person = self._askers.get((chat, str(thread)))
            if person is None:
                return None
            call |= {"recipient_team_id": team, "recipient_user_id": person}
        try:
            sent = await self._wire.write("chat.startStream", call, once=True)
        except Refused:
            return None
        ts = sent.get("ts")
        if isinstance(ts, str):
            self._open[ts] = str(body["markdown_text"])
        return sent

    async def grow(self, chat: str, receipt: Receipt, text: str) -> None:
        """What is new in ``text`` is appended; another text begins a paragraph. Raises ChannelError
        but Rejected."""
        shown = self._open[receipt.message]
        text = streamed(text)
        more = text[len(shown) :] if text.startswith(shown) else f"\n\n{text}"
        if not more:
            return
        try:
            await self._wire.write(
                "chat.appendStream",
                {"channel": chat, "ts": receipt.message, "markdown_text": more},
                once=False,
            )
        except Refused:  # closed by Slack after some minutes: edits go on
            self._open.pop(receipt.message, None)
            return
        self._open[receipt.message] = text

    async def stop(self, chat: str, ts: str) -> None:
        """Whatever Slack says to it: what follows is an edit. Raises AuthFailed."""
        self._open.pop(ts, None)
        try:
            await self._wire.write("chat.stopStream", {"channel": chat, "ts": ts}, once=False)
        except AuthFailed:
            raise
        except ChannelError:
            return

    async def update(self, body: Body, ts: str) -> Body:
        """chat.update of a message that may still be a stream, which Slack does not edit. Raises
        ChannelError."""
        if ts in self._open:
            await self.stop(str(body["channel"]), ts)
        call = body | {"ts": ts}
        try:
            return await self._wire.write("chat.update", call, once=False)
        except Refused as refused:
            if "stream" not in refused.word:
                raise
        await self.stop(str(body["channel"]), ts)
        return await self._wire.write("chat.update", call, once=False)

    async def delete(self, chat: str, ts: str) -> None:
        """chat.delete of a message that may still be a stream. Raises ChannelError."""
        if ts in self._open:
            await self.stop(chat, ts)
        await self._wire.write("chat.delete", {"channel": chat, "ts": ts}, once=False)


LASTS = 29 * 60.0  # seconds; Slack takes answers for 30 minutes ...
USES = 5  # ... and five of them (Handling user interaction, "response_url")
KEPT = 1_000


@dataclass(slots=True)
class _Door:
    url: str
    opened: float  # monotonic seconds
    used: int = 0


class Slashes:
    """Which slash commands are orders of the house, and where an answer may go that the
    conversation itself does not take.

    Lives as long as the adapter. The addresses are secrets of a kind and are kept in memory
    only: after a restart they would be too old soon."""

    def __init__(self, elsewhere: frozenset[str] = frozenset()) -> None:
        self.orders: frozenset[str] = frozenset()
        self._elsewhere = elsewhere
        self._doors = Recent[tuple[str, str], _Door](KEPT)

    def is_order(self, words: str) -> bool:
        """Whether ``/ohmo words`` is one of the house's commands; as long as these are unknown
        everything is. A name known from elsewhere counts alone: ``/ohmo review what I wrote`` is
        said to the agent."""
        if not self.orders or not words or words.startswith("/"):
            return True
        return words.split(maxsplit=1)[0].lower() in self.orders or words.lower() in self._elsewhere

    def note(self, chat: str, person: str, url: str) -> None:
        """The ``response_url`` of a command that ``person`` gave in ``chat``; the newest counts."""
        if url.startswith(("https://", "http://")):
            self._doors[chat, person] = _Door(url, time.monotonic())

    def take(self, chat: str, person: str | None = None) -> str | None:
        """One use of the newest address in ``chat`` (of ``person``); None: there is none, or it is
        spent."""
        now = time.monotonic()
        for (command_chat, author), door in reversed(self._doors.items()):
            if command_chat != chat or person not in (None, author):
                continue
            if now - door.opened < LASTS and door.used < USES:
                door.used += 1
                return door.url
        return None


LARGEST = 100 << 20  # bytes of one file that are fetched; Slack itself takes ten times as many
# What Slack answers about something that is not there any more.
GONE = frozenset({"message_not_found", "file_not_found", "file_deleted", "channel_not_found"})


class Files:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def upload(self, path: Path) -> str:
        """The first two steps of "Uploading files"; nobody sees the file before the third. Its id.
        Raises ChannelError."""
        try:
            size = path.stat().st_size  # noqa: ASYNC240 - one stat of a local file
        except OSError as error:
            raise Rejected(f"Slack: {path} cannot be read: {error.strerror}") from error
        method = "files.getUploadURLExternal"
        upload = await self._wire.read(method, filename=path.name, length=size)
        await self._wire.put(need(method, upload, "upload_url"), path)
        return need(method, upload, "file_id")

    async def show(self, body: Body, handle: str | None) -> Receipt:
        """files.completeUploadExternal, the third step. The share's ts comes later and by events
        only: the receipt is the file's id. Raises ChannelError."""
        if not handle:
            raise Rejected("Slack: a file is shown by the handle of its upload, and there is none")
        file = {"id": handle, "title": body["title"]}
        call: Body = {"files": [file], "channel_id": body["channel"]}
        if body.get("thread_ts"):
            call["thread_ts"] = body["thread_ts"]
        await self._wire.write("files.completeUploadExternal", call, once=True)
        return Receipt(MessageId(handle))

    async def find(self, handle: str | None, chat: str) -> Receipt | None:
        """files.info: ``shares`` names every conversation a file was shown in; an upload that was
        never completed is unknown. Raises ChannelError."""
        if not handle:
            return None
        try:
            file = await self._info(handle)
        except Refused as refused:
            if refused.word in GONE:
                return None
            raise
        shares = cast("dict[str, dict[str, Any]]", file.get("shares") or {})
        chats = set[str]().union(*shares.values())
        for kind in ("ims", "channels", "groups"):
            chats |= set(file.get(kind) or ())
        return Receipt(MessageId(handle)) if chat in chats else None

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        """Raises ChannelError."""
        file, _, url = attachment.ref.partition(" ")

        async def download(path: Path, most: int) -> None:
            address = url
            if not address:
                # Files of other workspaces come without (Slack Connect, "check_file_info").
                info = await self._info(file)
                address = str(info.get("url_private_download") or info.get("url_private") or "")
            media = await self._wire.get(address, path, most)
            if media == "text/html" and attachment.media_type != "text/html":
                raise Rejected(
                    "Slack: a sign-in page came instead of the file: give the app the scope"
                    " files:read and install it again"
                )

        path = into / f"{file}-{plain_name(attachment)}"
        return await downloaded("Slack", attachment, path, min(limit, LARGEST), download)

    async def _info(self, file: str) -> Body:
        answer = await self._wire.read("files.info", file=file)
        return cast("Body", answer.get("file") or {})
