"""Loopback Slack: Web API, Socket Mode and file hosts on one port, with the faults a test asks
for."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from channels.slack.setup import EVENTS, SCOPES
from tests.platforms.door import Door
from tests.platforms.slack.surfaces import EVENT_SCOPES, METHOD_SCOPES, Surfaces, subscription
from tests.platforms.slack.workspace import (
    APP,
    APP_TOKEN,
    BOT,
    BOT_ID,
    BOT_TOKEN,
    TEAM,
    Row,
    Rules,
    SlackError,
    Workspace,
    decoded,
)
from tests.platforms.weather import Acks

SENDS = frozenset(
    {"chat.postMessage", "chat.update", "chat.delete", "files.completeUploadExternal"}
)
READERS = frozenset(
    """
        conversations.history conversations.replies conversations.list conversations.info
        users.conversations users.info files.info files.getUploadURLExternal
    """.split()
)


@dataclass
class Fault:
    """What the next matching call meets. ``kind``: lose (carried out, no answer), limit, reject,
    status, html, body, hang."""

    kind: str
    value: Any = None
    methods: frozenset[str] = SENDS


@dataclass
class Link:
    """One open socket."""

    ws: web.WebSocketResponse
    retiring: bool = False
    deaf: bool = False  # half-open: nothing goes out any more, not even pongs
    waiting: dict[str, Envelope] = field(default_factory=dict)


@dataclass
class Envelope:
    body: Row
    attempt: int = 0
    timer: asyncio.TimerHandle | None = None


class Server(Surfaces):
    """Start it with ``running()``. Everything is public to tests: what was called, what was
    acknowledged, what went wrong."""

    def __init__(self, rules: Rules | None = None) -> None:
        super().__init__()
        self.workspace = Workspace(rules=rules or Rules())
        self.workspace.emit = self.deliver
        self.rules = self.workspace.rules
        self.door = Door(self._limited)
        self.acks = Acks()
        self.port = 0
        self.calls: list[tuple[str, Row]] = []
        self.clients: set[int] = set()  # client ports of Web API calls: one per TCP connection
        self.faults: deque[Fault] = deque()
        self.links: list[Link] = []
        self.opened = 0  # sockets that said hello
        self.refused_handshakes = 0
        self.acked: dict[str, Row] = {}  # envelope id -> envelope
        self.sent: list[Row] = []  # every envelope as it went out
        self.dropped: list[Row] = []  # never acknowledged, all retries used
        self.ephemeral: list[Row] = []
        self.statuses: list[Row] = []
        self.scopes_missing: dict[str, str] = {}  # method -> scope
        # what the app was installed with: the manifest that `ohmo init` writes
        self.scopes = set(SCOPES)
        self.events = set(EVENTS)  # what it subscribed to
        self.revoked = False
        self.app_revoked = False
        self.refuse_sockets = False
        self._dice = random.Random(1)
        # Using Socket Mode, "Using multiple connections": each payload may go to any of them; else
        # to the newest
        self.spread = False
        self._tickets: dict[str, float] = {}
        self._uploads: dict[str, str] = {}
        self._changed = asyncio.Event()

    # life

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[Server]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link", self._link)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}/{name}", self._download)
        app.router.add_post("/response/{name}", self._respond)
        async with self.door.open(app, port, cancel=False):
            self.port = self.door.port
            yield self

    def down(self, away: bool) -> None:
        """Refuses connections while away; open ones are reset."""
        self.door.down(away)
        if away:
            self.links.clear()

    def cut(self) -> None:
        """Every live connection is reset; new ones are welcome."""
        for link in list(self.links):
            transport = link.ws._req.transport if link.ws._req is not None else None
            if transport is not None:
                transport.abort()
        self.links.clear()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/"

    async def until(self, condition: Callable[[Server], bool], within: float = 20.0) -> None:
        async with asyncio.timeout(within):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    def changed(self) -> None:
        self._changed.set()

    # Web API

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        args: Row = {name: decoded(value) for name, value in request.query.items()}
        if request.content_type == "application/json":
            if method not in READERS or not self.rules.json_for_writers:
                args |= await request.json()
        elif request.can_read_body:
            args |= {name: decoded(value) for name, value in (await request.post()).items()}
        self.calls.append((method, args))
        if request.transport is not None:
            self.clients.add(request.transport.get_extra_info("peername")[1])
        self.changed()
        fault = next((fault for fault in self.faults if method in fault.methods), None)
        if fault is not None:
            self.faults.remove(fault)
            if (answer := self._faulty(fault)) is not None:
                return answer
            if fault.kind == "hang":
                await asyncio.sleep(float(fault.value))
        answer = self._answer(method, args, request)
        if fault is not None and fault.kind == "lose":
            assert request.transport is not None
            request.transport.abort()
        return answer

    def _faulty(self, fault: Fault) -> web.Response | None:
        match fault.kind:
            case "limit":
                return self._limited(fault.value)
            case "reject":
                return web.json_response({"ok": False, "error": fault.value})
            case "status":
                return web.json_response({"ok": False}, status=fault.value)
            case "body":
                return web.Response(body=fault.value, content_type="application/json")
            case "html":
                return web.Response(
                    text="<html>busy</html>", content_type="text/html", status=fault.value
                )
            case _:
                return None

    def _limited(self, seconds: float) -> web.Response:
        """Rate limits: HTTP 429 with Retry-After in whole seconds."""
        return web.json_response(
            {"ok": False, "error": "ratelimited"},
            status=429,
            headers={"Retry-After": str(max(1, round(seconds)))},
        )

    def _answer(self, method: str, args: Row, request: web.Request) -> web.Response:
        try:
            self._authorise(
                method, request.headers.get("Authorization", "").removeprefix("Bearer").strip()
            )
            return web.json_response({"ok": True, **self._do(method, args)})
        except SlackError as error:
            if error.word == "ratelimited":
                return self._limited(error.more["retry_after"])
            return web.json_response({"ok": False, "error": error.word, **error.more})

    def _authorise(self, method: str, token: str) -> None:
        """Web API: not_authed, invalid_auth, token_revoked; apps.connections.open takes the
        app-level token."""
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if not token:
            raise SlackError("not_authed")
        if self.revoked or (self.app_revoked and wanted is APP_TOKEN):
            raise SlackError("token_revoked")
        if token != wanted:
            raise SlackError(
                "not_allowed_token_type" if token in {APP_TOKEN, BOT_TOKEN} else "invalid_auth"
            )
        if method in self.scopes_missing:
            raise SlackError("missing_scope", needed=self.scopes_missing[method], provided="")
        wanted_scopes = METHOD_SCOPES.get(method, ())
        if wanted_scopes and not self.scopes & set(wanted_scopes):
            raise SlackError(
                "missing_scope", needed=wanted_scopes[0], provided=",".join(sorted(self.scopes))
            )

    def _do(self, method: str, args: Row) -> Row:
        handler = getattr(self, "_" + method.replace(".", "_"), None)
        if handler is None:
            raise SlackError("unknown_method")
        return handler(args)

    def _auth_test(self, args: Row) -> Row:
        return {
            "url": "https://house.slack.com/",
            "team": "House",
            "user": "ohmo",
            "team_id": TEAM,
            "user_id": BOT,
            "bot_id": BOT_ID,
        }

    def _apps_connections_open(self, args: Row) -> Row:
        ticket = uuid.uuid4().hex
        self._tickets[ticket] = asyncio.get_running_loop().time() + self.rules.ticket_seconds
        return {"url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}&app_id={APP}"}

    def _chat_postMessage(self, args: Row) -> Row:
        chat = str(args.get("channel"))
        row = self.workspace.post(chat, args)
        return {"channel": chat, "ts": row["ts"], "message": row}

    def _chat_update(self, args: Row) -> Row:
        if args.get("ts") in self.streaming:
            raise SlackError("streaming_state_conflict")
        row = self.workspace.update(str(args.get("channel")), args.get("ts"), args)
        return {"channel": args["channel"], "ts": row["ts"], "text": row["text"]}

    def _chat_delete(self, args: Row) -> Row:
        self.workspace.remove(str(args.get("channel")), args.get("ts"))
        return {"channel": args["channel"], "ts": args["ts"]}

    def _chat_postEphemeral(self, args: Row) -> Row:
        self.workspace.chat(args.get("channel"))
        self.ephemeral.append(args)
        return {"message_ts": self.workspace.ts()}

    def _conversations_history(self, args: Row) -> Row:
        return self.workspace.history(str(args.get("channel")), args)

    def _conversations_replies(self, args: Row) -> Row:
        return self.workspace.replies(str(args.get("channel")), args)

    def _conversations_list(self, args: Row) -> Row:
        return self._chats(args, list(self.workspace.chats.values()))

    def _users_conversations(self, args: Row) -> Row:
        return self._chats(
            args, [chat for chat in self.workspace.chats.values() if chat["is_member"]]
        )

    def _chats(self, args: Row, chats: list[Row]) -> Row:
        kinds = str(args.get("types") or "public_channel").split(",")
        chats = [chat for chat in chats if ("im" if chat["is_im"] else "public_channel") in kinds]
        start = int(args.get("cursor") or 0)
        end = start + int(args.get("limit") or 100)
        return {
            "channels": chats[start:end],
            "response_metadata": {"next_cursor": str(end) if end < len(chats) else ""},
        }

    def _conversations_info(self, args: Row) -> Row:
        return {"channel": self.workspace.chat(args.get("channel"))}

    def _conversations_open(self, args: Row) -> Row:
        found = next(
            (
                chat
                for chat in self.workspace.chats.values()
                if chat.get("user") == args.get("users")
            ),
            None,
        )
        if found is None:
            raise SlackError("user_not_found")
        return {"channel": {"id": found["id"]}}

    def _users_info(self, args: Row) -> Row:
        if args.get("user") not in self.workspace.users:
            raise SlackError("user_not_found")
        name = self.workspace.users[args["user"]]
        return {
            "user": {
                "id": args["user"],
                "name": name,
                "profile": {"display_name": name.title(), "real_name": name.title()},
            }
        }

    def _reactions_add(self, args: Row) -> Row:
        self.workspace.reacts(args["channel"], args["timestamp"], BOT, args["name"])
        return {}

    def _assistant_threads_setStatus(self, args: Row) -> Row:
        self.workspace.chat(args.get("channel_id"))
        self.statuses.append(args)
        return {}

    def _files_getUploadURLExternal(self, args: Row) -> Row:
        file = self.workspace.announce_upload(
            str(args.get("filename", "")), int(args.get("length") or 0)
        )
        return {
            "file_id": file["id"],
            "upload_url": f"http://127.0.0.1:{self.port}/upload/{file['id']}",
        }

    def _files_completeUploadExternal(self, args: Row) -> Row:
        chat = str(args.get("channel_id"))
        self.workspace.chat(chat)
        return {
            "files": [
                self.workspace.complete(f["id"], f.get("title", ""), chat, args.get("thread_ts"))
                for f in args["files"]
            ]
        }

    def _files_info(self, args: Row) -> Row:
        if args.get("file") not in self.workspace.files:
            raise SlackError("file_not_found")
        return {"file": self.workspace.files[args["file"]]}

    def _files_delete(self, args: Row) -> Row:
        self.workspace.forget_file(str(args.get("file")))
        return {}

    # files

    async def _upload(self, request: web.Request) -> web.Response:
        file, content = request.match_info["file"], await request.read()
        if file not in self.workspace.files or len(content) != self.workspace.files[file]["size"]:
            return web.Response(status=400, text="bad upload")
        self.workspace.bytes[file] = content
        return web.Response(text=f"OK - {len(content)}")

    async def _download(self, request: web.Request) -> web.Response:
        """Working with files: without the token the browser's sign-in page comes, by redirect."""
        if (
            self.rules.authorised_files
            and request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}"
        ):
            raise web.HTTPFound("https://house.slack.com/?redir=1")
        return web.Response(
            body=self.workspace.bytes[request.match_info["file"]],
            content_type="application/octet-stream",
        )

    def host_file(self, name: str, content: bytes, media: str = "text/plain") -> Row:
        """A person's file, ready to be shared by a message."""
        file = self.workspace.announce_upload(name, len(content))
        self.workspace.bytes[file["id"]] = content
        file |= {
            "mimetype": media,
            "mode": "hosted",
            "url_private": f"http://127.0.0.1:{self.port}/files/{file['id']}/{name}",
        }
        return file

    # Socket Mode

    async def _link(self, request: web.Request) -> web.StreamResponse:
        """Using Socket Mode: a ticket serves once and not for long; the first frame is hello."""
        ticket = request.query.get("ticket", "")
        expires = (
            self._tickets.pop(ticket, 0.0)
            if self.rules.tickets_once
            else self._tickets.get(ticket, 0.0)
        )
        if self.refuse_sockets or asyncio.get_running_loop().time() > expires:
            self.refused_handshakes += 1
            self.changed()
            return web.Response(status=403)
        ws = web.WebSocketResponse(autoping=False)
        await ws.prepare(request)
        link = Link(ws)
        await ws.send_json(
            {
                "type": "hello",
                "num_connections": len(self.links) + 1,
                "connection_info": {"app_id": APP},
            }
        )
        self.links.append(link)
        self.opened += 1
        self.changed()
        try:
            async for message in ws:
                if message.type == WSMsgType.PING and not link.deaf:
                    await ws.pong(message.data)
                elif message.type == WSMsgType.TEXT:
                    self._acknowledged(json.loads(message.data))
        except ConnectionResetError:
            pass
        finally:
            if link in self.links:
                self.links.remove(link)
            if link.waiting:
                self.acks.lost(*link.waiting)
            self.changed()
        return ws

    def _acknowledged(self, body: Row) -> None:
        """An acknowledgement is good on any connection of the app."""
        for link in self.links:
            envelope = link.waiting.pop(body.get("envelope_id", ""), None)
            if envelope is not None:
                self._cancel(envelope)
                self.acks.settled(body["envelope_id"])
                self.acked[body["envelope_id"]] = envelope.body
        self.changed()

    def deliver(self, event: Row) -> None:
        """Events API: only what the app subscribed to, and has the scope for."""
        name = subscription(event)
        if name not in self.events or EVENT_SCOPES.get(name, "") not in {"", *self.scopes}:
            return
        self.envelope(
            "events_api",
            {
                "token": "verification",
                "team_id": TEAM,
                "api_app_id": APP,
                "type": "event_callback",
                "event_id": f"Ev{uuid.uuid4().hex[:10].upper()}",
                "event_time": int(self.workspace.clock()),
                "event": event,
                "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True}],
            },
        )

    def envelope(self, kind: str, payload: Any) -> str:
        body = {
            "envelope_id": str(uuid.uuid4()),
            "type": kind,
            "accepts_response_payload": kind != "events_api",
            "payload": payload,
        }
        if kind == "events_api":
            body |= {"retry_attempt": 0, "retry_reason": ""}
        self._push(Envelope(body))
        return body["envelope_id"]

    def _push(self, envelope: Envelope) -> None:
        """To one of the open connections; an event nobody acknowledges in time comes again, at
        once, after a minute, after five."""
        lively = [
            link
            for link in reversed(self.links)
            if not link.retiring and not link.deaf and not link.ws.closed
        ]
        link = (self._dice.choice(lively) if self.spread else lively[0]) if lively else None
        self.sent.append(dict(envelope.body))
        if link is not None:
            link.waiting[envelope.body["envelope_id"]] = envelope
            self.acks.handed(envelope.body["envelope_id"])
            self._send(link, json.dumps(envelope.body))
        if envelope.body["type"] == "events_api" and self.rules.retries:
            self._later(envelope, self.rules.ack_seconds if link is not None else 0.0)

    def _later(self, envelope: Envelope, wait: float) -> None:
        if envelope.attempt >= len(self.rules.retry_after):
            self._timer(envelope, wait, lambda: self.dropped.append(envelope.body))
            return
        self._timer(
            envelope, wait + self.rules.retry_after[envelope.attempt], lambda: self._again(envelope)
        )

    def _again(self, envelope: Envelope) -> None:
        if envelope.body["envelope_id"] in self.acked:
            return
        envelope.attempt += 1
        envelope.body = {
            **envelope.body,
            "retry_attempt": envelope.attempt,
            "retry_reason": "timeout",
        }
        self._push(envelope)

    def _timer(self, envelope: Envelope, wait: float, then: Callable[[], Any]) -> None:
        self._cancel(envelope)
        envelope.timer = self.door.later(wait, then)

    def _cancel(self, envelope: Envelope) -> None:
        if envelope.timer is not None:
            envelope.timer.cancel()

    def _send(self, link: Link, text: str) -> None:
        task = asyncio.get_running_loop().create_task(self._send_now(link, text))
        self._sending = {*(old for old in getattr(self, "_sending", ()) if not old.done()), task}

    async def _send_now(self, link: Link, text: str) -> None:
        try:
            await link.ws.send_str(text)
        except (ConnectionError, RuntimeError):
            return

    def say_raw(self, text: str) -> None:
        """Whatever a socket should hear: garbage, unknown types."""
        self._send(self.links[-1], text)

    def refresh(self, reason: str = "refresh_requested", *, close_after: bool = True) -> None:
        """Using Socket Mode, "Disconnecting": no more events on this connection; Slack closes it
        soon after."""
        link = self.links[-1]
        link.retiring = True
        self._send(
            link,
            json.dumps(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "loopback"}}
            ),
        )
        if close_after:
            task = asyncio.get_running_loop().create_task(self._close_when_replaced(link))
            self._sending = {*getattr(self, "_sending", ()), task}

    async def _close_when_replaced(self, link: Link) -> None:
        opened = self.opened
        await self.until(lambda server: server.opened > opened)
        await link.ws.close()
