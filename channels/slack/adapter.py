"""Slack as a Channel: joins the wire, the reading and the rendering."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from channels.competing_instance import CompetingInstance
from channels.contract import (
    Address,
    Answer,
    Attachment,
    Capabilities,
    ChannelContext,
    ChatId,
    MessageId,
    Options,
    Outbound,
    Part,
    PersonId,
    Receipt,
    Repeat,
    TopicId,
)
from channels.errors import NotReady, RateLimited, Rejected
from channels.payloads import Body
from channels.platform_calls import DraftPause, Names, checked
from channels.slack import Settings, render
from channels.slack.client import Pace, Refused, Wire, need
from channels.slack.history import Doubles, key_of, next_cursor
from channels.slack.inbound import moment, order
from channels.slack.listening import Identity, Listening
from channels.slack.surfaces import GONE, Files, Slashes, Streams
from channels.stale_typing import OpenIndicators

_log = logging.getLogger(__name__)
_NOT_OURS = frozenset({"not_in_channel", "channel_not_found"})
_WHISPERED = "E"  # begins the id of an answer that only its person sees
_ADDRESS = re.compile(r"([CDGUW][A-Z0-9]+)(?:/(\d+\.\d+))?")
# between Slack's clock and ours, when a post of ours is looked for
_CLOCKS_APART = timedelta(minutes=5)
# the same for a stream, which has no name: another one must not be taken for it
_LATE = timedelta(seconds=5)
_NAME_PATIENCE = 1.5  # seconds for names before a message goes on with ids

CAPABILITIES = Capabilities(
    repeat=Repeat.LOOK,
    repeat_window=timedelta(days=30),
    max_text=render.MAX_TEXT,
    # chat.update is Tier 3: some 50 a minute for the whole workspace
    revise=timedelta(seconds=1.5),
    # "Rate limits": one post a second in a conversation, short bursts are allowed
    post_burst=10,
    post_every=timedelta(seconds=1),
    choices=True,
    topics=True,
    # assistant.threads.setStatus: removed after two minutes, or by our post
    typing=timedelta(minutes=2),
    max_file=1 << 30,
    silence=timedelta(seconds=30),  # Slack answers each of our pings
    greets=True,  # Using Socket Mode, "hello"
)


class Slack:
    """One app in one workspace."""

    def __init__(self, settings: Settings, options: Options, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._options = options
        self._slashes = Slashes(options.elsewhere)
        self._wire = Wire(settings.bot_token, settings.app_token, settings.api_url, self._pace)
        self._names = Names(self._wire.name_of, _NAME_PATIENCE)
        self._competing = CompetingInstance(options.state, options.clock, options.since)
        self._doubles = Doubles(self._wire, self._competing)
        self._account = ""
        self._user = ""
        self._bot = self._handle = ""
        self._direct: dict[str, str] = {}  # person -> the direct conversation with them
        self._pause = DraftPause()
        self._can_type = True
        self._indicators = OpenIndicators(options.state)
        self._streams = Streams(self._wire)
        self._files = Files(self._wire)
        self._native = options.streaming == "native"
        self.capabilities = replace(
            CAPABILITIES,
            revise=None if options.streaming == "off" else CAPABILITIES.revise,
            appends=self._native,
        )

    @property
    def account(self) -> str:
        """The team's id."""
        return self._account

    @property
    def handle(self) -> str:
        return self._handle

    @property
    def wary(self) -> bool:
        return self._competing.rested is not None

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        async with self._wire.open():
            identity = await checked("Slack", 2 * self._pace.connect, self._wire.prove())
            self._account = need("auth.test", identity, "team_id")
            self._user = need("auth.test", identity, "user_id")
            self._bot = str(identity.get("bot_id") or "")
            self._handle = str(identity.get("user") or "")
            yield

    async def receive(self, context: ChannelContext) -> None:
        # The status of a thread whose turn was killed stays for two minutes.
        for indicator in self._indicators.left():
            chat, _, thread = indicator.partition(" ")
            try:
                await self._status(chat, thread, "")
            except (NotReady, RateLimited, Rejected) as error:
                _log.info("slack: the status of %s stays: %s", indicator, error)
        await self._indicators.forget()
        await Listening(
            self._wire,
            context,
            self._names,
            self._options,
            Identity(self._account, self._user, self._bot),
            slashes=self._slashes,
            streams=self._streams,
            doubles=self._doubles,
        ).run()

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        if self._native and outbound.draft:
            return render.stream(outbound)
        return render.render(outbound)

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def upload(self, part: Part) -> str:
        return await self._files.upload(Path(_body(part)["path"]))

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        body = _body(part)
        named = str(body["channel"])
        body["channel"] = await self._chat(named)
        match part.kind:
            case "post":
                body["metadata"] = self._doubles.metadata(key)
                self._doubles.sends(key)
                return _placed(await self._post(body, key), named, body["channel"])
            case "edit" | "delete" if _is_whispered(part.target):
                return await self._whispered_again(body, part)
            case "edit":
                # a stream had none; from now on find() does not take it for one that was just begun
                if self._native:
                    body["metadata"] = self._doubles.metadata(key)
                edited = await self._streams.update(body, str(part.target))
                return _receipt("chat.update", edited, once=False)
            case "delete":
                target = cast("MessageId", part.target)
                try:
                    if render.is_file(target):
                        await self._wire.read("files.delete", file=target)
                    else:
                        await self._streams.delete(body["channel"], target)
                except Refused as refused:
                    if refused.word not in GONE:
                        raise
                return Receipt(target)
            case "file":
                return await self._files.show(body, handle)

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        """Posts by their metadata, files by where they are shared. An edit or deletion leaves
        nothing that its repeat would double."""
        chat = await self._chat(address.chat)
        if part.kind == "file":
            return await self._files.find(handle, chat)
        if part.kind != "post":
            return None
        arguments: dict[str, str | int | bool] = {
            "channel": chat,
            "include_all_metadata": True,
            "limit": 200,
            "oldest": f"{(since - _CLOCKS_APART).timestamp():.6f}",
        }
        # A stream cannot carry a key at its start; but each other post of ours does, so that one
        # without in this thread is it.
        streamed = "markdown_text" in _body(part)
        oldest = f"{(since - _LATE).timestamp():.6f}"
        thread = _body(part).get("thread_ts")
        method = "conversations.replies" if thread else "conversations.history"
        if thread:
            arguments["ts"] = str(thread)
        while True:
            try:
                page = await self._wire.read(method, **arguments)
            except Refused as refused:
                if refused.word == "thread_not_found":
                    return None  # the thread is gone, and our post with it
                raise
            for row in cast("list[Body]", page.get("messages") or []):
                if row.get("user") not in {self._user, None}:
                    continue
                ts = str(row["ts"])
                bare = "metadata" not in row and "subtype" not in row and ts != thread
                is_stream = streamed and bare and order(ts) > order(oldest)
                if key_of(row) == key or is_stream:
                    return _placed(Receipt(MessageId(ts), moment(ts)), address.chat, chat)
            cursor = next_cursor(page)
            if not cursor:
                return None
            arguments["cursor"] = cursor

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        """Dropped after a rate limit until Slack's wait is over, and whenever it fails: the final
        text is a part of its own."""
        if receipt is None or _is_whispered(receipt.message) or self._pause.active:
            return
        chat = await self._chat(address.chat)
        with self._pause.observe():
            if receipt.message in self._streams:
                await self._streams.grow(chat, receipt, text)
            else:
                await self._wire.write(
                    "chat.update",
                    render.draft(text) | {"channel": chat, "ts": receipt.message},
                    once=False,
                )

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        return await self._files.fetch(attachment, into, limit)

    async def probe(self) -> None:
        """auth.test: the socket stays open when the bot's token is revoked."""
        await self._wire.read("auth.test")

    async def typing(self, address: Address, on: bool) -> None:
        """assistant.threads.setStatus exists in threads only; apps that may not use it are asked
        once."""
        if address.topic is None or not self._can_type:
            return
        indicator = f"{address.chat} {address.topic}"
        if on:
            await self._indicators.on(indicator)
        try:
            await self._status(address.chat, address.topic, "is thinking…" if on else "")
        except Refused as refused:
            self._can_type, on = refused.word in {"channel_not_found", "invalid_thread_ts"}, False
        if not on:
            await self._indicators.off(indicator)

    async def _status(self, chat: str, thread: str, status: str) -> None:
        await self._wire.write(
            "assistant.threads.setStatus",
            {"channel_id": chat, "thread_ts": thread, "status": status},
            once=False,
        )

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """The press itself is acknowledged by its envelope; this says something that only the
        person sees (chat.postEphemeral)."""
        if not text.strip():
            return
        await self._post_ephemeral(answer.address, answer.person.id, text)

    async def whisper(self, address: Address, person: PersonId, text: str) -> None:
        """By the slash command's own way of answering when it was one, else chat.postEphemeral."""
        url = self._slashes.take(address.chat, person)
        if url is None:
            await self._post_ephemeral(address, person, text)
            return
        words = render.escape(text)[: render.MAX_TEXT]
        await self._wire.respond(url, {"response_type": "ephemeral", "text": words})

    async def _post_ephemeral(self, address: Address, person: PersonId, text: str) -> None:
        words = render.escape(text)[: render.MAX_TEXT]
        body: Body = {"channel": address.chat, "user": person, "text": words}
        if address.topic:
            body["thread_ts"] = address.topic
        await self._wire.write("chat.postEphemeral", body, once=False)

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        """Slack's slash commands live in the app's manifest and cannot be set by a bot token; here
        it is learnt what ``/ohmo WORD`` may be."""
        self._slashes.orders = frozenset(name for name, _ in commands)

    def parse_address(self, text: str) -> Address:
        """``C123``, ``C123/1700000000.000100`` (a thread), ``D123``, or a person ``U123``, whose
        direct conversation is opened when used."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is no Slack address: say C123, C123/1700000000.000100 (a thread) or U123"
                " (a person)"
            )
        chat, thread = match.groups()
        return Address("slack", self._account, ChatId(chat), TopicId(thread) if thread else None)

    async def _chat(self, chat: str) -> str:
        """A person stands for the direct conversation with them (conversations.open), which
        chat.update insists on."""
        if not chat.startswith(("U", "W")):
            return chat
        if chat not in self._direct:
            opened = await self._wire.read("conversations.open", users=chat)
            conversation = cast("Body", opened.get("channel") or {})
            self._direct[chat] = need("conversations.open", conversation, "id")
        return self._direct[chat]

    async def _post(self, body: Body, key: str) -> Receipt:
        """Where we are no member (a slash command works everywhere) the answer goes to the person
        who gave the command, seen by nobody else."""
        if "markdown_text" in body:
            begun = await self._streams.start(self._account, body)
            if begun is not None:
                return _receipt("chat.startStream", begun, once=True)
            del body["markdown_text"]
        try:
            sent = await self._wire.write("chat.postMessage", body, once=True)
        except Refused as refused:
            url = self._slashes.take(str(body["channel"])) if refused.word in _NOT_OURS else None
            if url is None:
                raise
            shown = {name: body[name] for name in ("text", "blocks", "mrkdwn") if name in body}
            await self._wire.respond(url, {"response_type": "ephemeral"} | shown)
            return Receipt(MessageId(f"{_WHISPERED}{key}"))
        receipt = _receipt("chat.postMessage", sent, once=True)
        self._doubles.shown(str(body["channel"]), receipt.message)
        return receipt

    async def _whispered_again(self, body: Body, part: Part) -> Receipt:
        """``replace_original`` and ``delete_original`` are all that can be done to such an answer,
        as long as its address lives."""
        url = self._slashes.take(str(body["channel"]))
        if url is not None:
            shown = {name: body[name] for name in ("text", "blocks") if name in body}
            change: Body = {"delete_original": True}
            if part.kind == "edit":
                change = {"replace_original": True} | shown
            await self._wire.respond(url, {"response_type": "ephemeral"} | change)
        elif part.kind == "edit":
            raise Rejected(
                "Slack: the answer to a slash command cannot be changed any more: five answers"
                " within 30 minutes are all Slack takes"
            )
        return Receipt(MessageId(str(part.target)))


def _is_whispered(message: MessageId | None) -> bool:
    return message is not None and message.startswith(_WHISPERED)


def _body(part: Part) -> Body:
    return cast("Body", json.loads(part.payload))


def _placed(receipt: Receipt, named: str, chat: str) -> Receipt:
    """With the conversation that a person's id led to."""
    return receipt if named == chat else replace(receipt, chat=ChatId(chat))


def _receipt(method: str, sent: Body, *, once: bool) -> Receipt:
    ts = need(method, sent, "ts", once=once)
    return Receipt(MessageId(ts), moment(ts))
