"""Loopback Feishu: the open API, the endpoint and the long connection on one port, with the faults
a test asks for."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.platforms.door import Door
from tests.platforms.feishu.frames import Frame, parse
from tests.platforms.feishu.methods import Methods
from tests.platforms.feishu.rules import Refusal, Rules
from tests.platforms.feishu.world import APP, SECRET, Row, World
from tests.platforms.weather import Acks

PART = 60_000  # bytes of a payload that go into one frame


@dataclass
class Fault:
    """What the next matching call meets. ``kind``: lose (carried out, no answer), limit, code,
    status, body, hang."""

    kind: str
    value: Any = None
    on: Callable[[str, str], bool] = lambda verb, path: (
        verb == "POST" and path.rstrip("/").endswith(("/messages", "/reply"))
    )


@dataclass
class Event:
    """One event or callback on its way."""

    id: str
    body: Row
    callback: bool
    attempt: int = 0
    timer: asyncio.TimerHandle | None = None


@dataclass
class Link:
    ws: web.WebSocketResponse
    transport: asyncio.BaseTransport | None
    # the websocket is kept open, pings of its own included, but nothing behind it reads any more
    stalled: bool = False
    deaf: bool = False  # half-open: nothing is read or answered any more
    pings: int = 0
    waiting: set[str] = field(default_factory=set)  # events it carried that have no answer


@dataclass
class Kept:
    """What tests look at."""

    calls: list[tuple[str, str, Row]] = field(default_factory=list)  # verb, path, body or query
    clients: set[int] = field(default_factory=set)  # client ports: one per TCP connection
    tokens: int = 0  # that were given out
    opened: int = 0  # long connections
    sent: list[Row] = field(default_factory=list)  # every event as often as it went out
    # event id, code, decoded data of a callback
    answers: list[tuple[str, int, Any]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # never answered well, all retries used
    odd: list[bytes] = field(default_factory=list)  # what a client sent that is no frame


class Server(Methods):
    """Start it with ``running()``."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.world = World(rules=rules or Rules())
        self.world.emit = self.event
        self.rules = self.world.rules
        self.kept = Kept()
        self.door = Door(self._limited)
        self.acks = Acks()
        self.port = 0
        self.faults: deque[Fault] = deque()
        self.links: list[Link] = []
        self.revoked = False
        self.endpoint_code = 0  # another one: the endpoint's answer
        self.handshake: dict[str, str] | None = None  # headers of a refused handshake
        self.mute_endpoint = 0.0  # seconds it hangs
        self.scopes_missing: set[str] = set()  # parts of paths
        self.ping_interval = 120
        self.answers_pings = True
        self._tokens: set[str] = set()
        self._tickets: dict[str, bool] = {}
        self._waiting: dict[str, Event] = {}
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()

    # life

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[Server]:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/callback/ws/endpoint", self._endpoint)
        app.router.add_get("/ws", self._link)
        app.router.add_route("*", "/open-apis/{path:.*}", self._api)
        async with self.door.open(app, port, cancel=False):
            self.port = self.door.port
            yield self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def down(self, away: bool) -> None:
        """Refuses connections while away; open ones are reset."""
        self.door.down(away)
        if away:
            self.links.clear()

    def cut(self) -> None:
        """Every long connection is reset; new ones are welcome."""
        for link in self.links:
            if link.transport is not None:
                link.transport.abort()
        self.links.clear()

    def changed(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[Server], bool], within: float = 20.0) -> None:
        async with asyncio.timeout(within):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    # the open API

    async def _api(self, request: web.Request) -> web.StreamResponse:
        path, verb = request.match_info["path"], request.method
        body: Row = dict(request.query)
        form: Row = {}
        if request.content_type == "application/json" and request.can_read_body:
            body |= await request.json()
        elif request.can_read_body:
            form = dict(await request.post())
            body |= {name: value for name, value in form.items() if isinstance(value, str)}
        self.kept.calls.append((verb, path, body))
        if request.transport is not None:
            self.kept.clients.add(request.transport.get_extra_info("peername")[1])
        self.changed()
        fault = next((fault for fault in self.faults if fault.on(verb, path)), None)
        if fault is not None:
            self.faults.remove(fault)
            if fault.kind == "hang":
                await asyncio.sleep(float(fault.value))
            elif fault.kind != "lose":
                return self._faulty(fault)
        answer = self._answered(verb, path, body, form, request)
        if fault is not None and fault.kind == "lose":
            assert request.transport is not None
            request.transport.abort()
        return answer

    def _limited(self, seconds: float) -> web.Response:
        headers = {"x-ogw-ratelimit-limit": "100", "x-ogw-ratelimit-reset": str(seconds)}
        return web.json_response(
            {"code": 99991400, "msg": "request trigger frequency limit"},
            status=429,
            headers=headers,
        )

    def _faulty(self, fault: Fault) -> web.Response:
        match fault.kind:
            case "limit":
                return self._limited(fault.value)
            case "code":
                return web.json_response(
                    {"code": fault.value, "msg": "as the test asked"}, status=400
                )
            case "status":
                return web.Response(
                    status=fault.value, text="<html>upstream</html>", content_type="text/html"
                )
            case _:
                return web.Response(text=str(fault.value), content_type="application/json")

    def _answered(
        self, verb: str, path: str, body: Row, form: Row, request: web.Request
    ) -> web.StreamResponse:
        try:
            if path == "auth/v3/tenant_access_token/internal":
                return web.json_response(self._new_token(body))
            self._authorised(request.headers.get("Authorization", ""))
            for part in self.scopes_missing:
                if part in path:
                    violation = {"type": "action_scope_required", "subject": f"scope:{part}"}
                    more = {"error": {"permission_violations": [violation]}}
                    raise Refusal(
                        99991672, "Access denied. One of the following scopes is required", **more
                    )
            found = self.method(verb, path, body, form)
            return (
                found
                if isinstance(found, web.StreamResponse)
                else web.json_response({"code": 0, "msg": "success", **found})
            )
        except Refusal as refusal:
            headers = (
                {"x-ogw-ratelimit-reset": str(refusal.more.pop("reset"))}
                if "reset" in refusal.more
                else {}
            )
            return web.json_response(
                {"code": refusal.code, "msg": str(refusal), **refusal.more},
                status=refusal.status,
                headers=headers,
            )

    def _new_token(self, body: Row) -> Row:
        """Get custom app's tenant_access_token."""
        if self.revoked or (body.get("app_id"), body.get("app_secret")) != (APP, SECRET):
            raise Refusal(10014, "app secret invalid", 200)
        self.kept.tokens += 1
        token = f"t-{self.kept.tokens}"
        self._tokens.add(token)
        return {"code": 0, "msg": "ok", "tenant_access_token": token, "expire": 7200}

    def forget_tokens(self) -> None:
        """All that were given out are revoked; new ones are to be had."""
        self._tokens.clear()

    def _authorised(self, header: str) -> None:
        if not self.rules.tokens:
            return
        if not header.startswith("Bearer "):
            raise Refusal(99991661, "Missing access token for authorization.")
        if self.revoked or header.removeprefix("Bearer ") not in self._tokens:
            raise Refusal(99991663, "Invalid access token for authorization.")

    # the long connection

    async def _endpoint(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.kept.calls.append(("POST", "callback/ws/endpoint", body))
        if self.mute_endpoint:
            await asyncio.sleep(self.mute_endpoint)
        if self.revoked or (body.get("AppID"), body.get("AppSecret")) != (APP, SECRET):
            return web.json_response({"code": 10014, "msg": "app secret invalid"})
        if self.endpoint_code:
            return web.json_response({"code": self.endpoint_code, "msg": "as the test asked"})
        if len(self.links) >= self.rules.connections:
            return web.json_response(
                {"code": 1000040350, "msg": "the number of connections exceeded the limit"}
            )
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets[ticket] = True
        url = f"ws://127.0.0.1:{self.port}/ws?device_id=d-{ticket}&service_id=33554678&ticket={ticket}"
        config = {
            "ReconnectCount": -1,
            "ReconnectInterval": 120,
            "ReconnectNonce": 30,
            "PingInterval": self.ping_interval,
        }
        return web.json_response(
            {"code": 0, "msg": "", "data": {"URL": url, "ClientConfig": config}}
        )

    async def _link(self, request: web.Request) -> web.StreamResponse:
        if self.handshake is not None:
            return web.Response(status=400, headers=self.handshake)
        ticket = request.query.get("ticket", "")
        if not self._tickets.get(ticket):
            return web.Response(
                status=400,
                headers={
                    "Handshake-Status": "514",
                    "Handshake-Msg": "ticket",
                    "Handshake-Autherrcode": "1000040346",
                },
            )
        if self.rules.tickets_once:
            self._tickets[ticket] = False
        ws = web.WebSocketResponse(autoping=False, max_msg_size=16 << 20)
        await ws.prepare(request)
        link = Link(ws, request.transport)
        self.links.append(link)
        self.kept.opened += 1
        self.changed()
        async for message in ws:
            if link.deaf:
                continue
            if message.type == WSMsgType.PING:
                await ws.pong(message.data)
            elif message.type == WSMsgType.BINARY and not link.stalled:
                await self._heard(link, message.data)
        if link in self.links:
            self.links.remove(link)
        if link.waiting:
            self.acks.lost(*link.waiting)
        return ws

    async def _heard(self, link: Link, data: bytes) -> None:
        try:
            frame = parse(data)
        except ValueError:
            self.kept.odd.append(data)
            return
        if frame.method == 0:
            link.pings += 1
            self.changed()
            if not self.answers_pings:
                return
            settings = json.dumps(
                {
                    "ReconnectCount": -1,
                    "ReconnectInterval": 120,
                    "ReconnectNonce": 30,
                    "PingInterval": self.ping_interval,
                }
            )
            await link.ws.send_bytes(
                Frame(0, [("type", "pong")], settings.encode(), frame.service).bytes()
            )
        else:
            link.waiting.discard(frame.get("message_id"))
            self._answer(frame)
        self.changed()

    def _answer(self, frame: Frame) -> None:
        """Only code 200 settles an event."""
        body = json.loads(frame.payload)
        data = json.loads(base64.b64decode(body["data"])) if body.get("data") else None
        event = self._waiting.get(frame.get("message_id"))
        self.kept.answers.append(
            (event.id if event is not None else frame.get("message_id"), body["code"], data)
        )
        if event is None:
            return
        if event.timer is not None:
            event.timer.cancel()
        if body["code"] == 200:
            self.acks.settled(event.id)
            del self._waiting[event.id]
        else:
            self._retry(event)

    def event(self, kind: str, event: Row, *, callback: bool = False, id_: str = "") -> str:
        """Pushed to one random connection; here there is one."""
        id_ = id_ or f"{next(self._numbers):032x}"
        header = {
            "event_id": id_,
            "event_type": kind,
            "create_time": str(self.world.ms()),
            "token": "",
            "app_id": APP,
            "tenant_key": "t",
        }
        self.push(Event(id_, {"schema": "2.0", "header": header, "event": event}, callback))
        return id_

    def push(self, event: Event) -> None:
        self._waiting[event.id] = event
        link = next((link for link in self.links if not (link.deaf or link.stalled)), None)
        if link is None:
            self._retry(event)
            return
        event.attempt += 1
        link.waiting.add(event.id)
        self.acks.handed(event.id)
        self.kept.sent.append(event.body)
        payload = json.dumps(event.body, ensure_ascii=False).encode()
        parts = [payload[at : at + PART] for at in range(0, len(payload), PART)] or [b""]
        for number, part in enumerate(parts):
            headers = [
                ("type", "event"),
                ("message_id", event.id),
                ("trace_id", "trace"),
                ("sum", str(len(parts))),
                ("seq", str(number)),
            ]
            self._send(link, Frame(1, headers, part, 33554678).bytes())
        event.timer = self.door.later(self.rules.answer_seconds, lambda: self._retry(event))

    def _send(self, link: Link, data: bytes) -> None:
        async def send() -> None:
            with suppress(ConnectionError, RuntimeError):
                await link.ws.send_bytes(data)

        self._sending = asyncio.get_running_loop().create_task(send())

    def raw(self, data: bytes) -> None:
        """Bytes of a test's own on every connection."""
        for link in self.links:
            self._send(link, data)

    def _retry(self, event: Event) -> None:
        if event.id not in self._waiting:
            return
        retries = (
            self.rules.retry_after
            if self.rules.retries and not (event.callback and self.rules.callbacks_once)
            else ()
        )
        number = max(0, event.attempt - 1)
        if number >= len(retries):
            del self._waiting[event.id]
            self.kept.dropped.append(event.id)
            self.changed()
            return
        event.attempt = max(event.attempt, 1)
        event.timer = self.door.later(retries[number], lambda: self.push(event))
