"""The gateway of the loopback Discord: hello, heartbeats, identify, resume, and an order for
whatever may go wrong."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
import zlib
from typing import Any

from aiohttp import WSMsgType, web

from tests.platforms.discord.rules import Rules
from tests.platforms.discord.world import APPLICATION, BOT, CONTENT, GUILD, Body, Session, World
from tests.platforms.weather import Acks


class Gateway:
    """Connections of one bot. ``beat``: heartbeat interval in milliseconds."""

    def __init__(self, world: World, rules: Rules, token: str) -> None:
        self.world = world
        self.rules = rules
        self.token = token
        self.beat = 41_250
        self.address = ""
        self.refuse = 0  # handshakes to answer with 502
        self.revoked = False
        self.mute = False  # sockets stay open, nothing is said any more
        self.identified = 0
        self.resumed = 0
        self.compressed = 0
        self.heartbeats = 0
        # the last IDENTIFY (monotonic), and how many came too early
        self.began = float("-inf")
        self.hasty = 0
        self.codes: list[int | None] = []  # with which the app closed
        self.connections: list[Connection] = []
        self.acks = Acks()  # of people's messages; whoever looks into the app's store settles them

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.refuse:
            self.refuse -= 1
            return web.Response(status=502)
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            ws = web.WebSocketResponse()
            await ws.prepare(request)
            await ws.close(code=4012)
            return ws
        ws = web.WebSocketResponse(compress=False, max_msg_size=4096)
        await ws.prepare(request)
        connection = Connection(self, ws, packed=request.query.get("compress") == "zlib-stream")
        self.compressed += connection.packer is not None
        self.connections.append(connection)
        try:
            await connection.run()
        finally:
            self.connections.remove(connection)
            self.codes.append(ws.close_code)
        return ws

    async def close(self, code: int) -> None:
        for connection in list(self.connections):
            connection.ours = True
            await connection.ws.close(code=code)

    def say(self, raw: str | bytes) -> None:
        """Anything at all, to every connection."""
        for connection in self.connections:
            connection.raw(raw)

    def order(self, op: int, data: Any = None) -> None:
        for connection in self.connections:
            connection.send({"op": op, "d": data, "s": None, "t": None})


class Connection:
    def __init__(self, gateway: Gateway, ws: web.WebSocketResponse, *, packed: bool) -> None:
        self.gateway = gateway
        self.ws = ws
        self.packer = zlib.compressobj() if packed else None
        self._out: asyncio.Queue[str | bytes | int] = asyncio.Queue()
        self._session: Session | None = None
        self.ours = False  # we close it, not the app

    async def run(self) -> None:
        writing = asyncio.create_task(self._write())
        self.send({"op": 10, "d": {"heartbeat_interval": self.gateway.beat}, "s": None, "t": None})
        try:
            async for message in self.ws:
                if message.type is WSMsgType.TEXT and (
                    code := self._heard(json.loads(message.data))
                ):
                    self._out.put_nowait(code)
        finally:
            writing.cancel()
            self.gateway.acks.lost()
            if self._session is not None:
                if self._session.send == self.send:
                    self._session.send = None
                if (
                    self.gateway.rules.ending
                    and not self.ours
                    and self.ws.close_code in (1000, 1001)
                ):
                    self.gateway.world.sessions.pop(self._session.id, None)

    def send(self, body: Body) -> None:
        if body["t"] == "MESSAGE_CREATE" and body["d"]["author"]["id"] != BOT["id"]:
            self.gateway.acks.handed(body["d"]["id"])
        self.raw(json.dumps(body))

    def raw(self, raw: str | bytes) -> None:
        if not self.gateway.mute:
            self._out.put_nowait(raw)

    async def _write(self) -> None:
        while True:
            item = await self._out.get()
            if isinstance(item, int):
                self.ours = True
                await self.ws.close(code=item)
                return
            if self.packer is not None:
                data = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
                await self.ws.send_bytes(
                    self.packer.compress(data) + self.packer.flush(zlib.Z_SYNC_FLUSH)
                )
            else:
                await self.ws.send_str(item if isinstance(item, str) else item.decode())

    def _heard(self, body: Body) -> int:
        """A close code, or 0."""
        gateway, op, data = self.gateway, body.get("op"), body.get("d")
        if op == 1:
            gateway.heartbeats += 1
            if gateway.rules.heartbeat:
                self.send({"op": 11, "d": None, "s": None, "t": None})
            return 0
        if op == 2:
            return self._identify(data or {})
        if op == 6:
            return self._resume(data or {})
        return 4003 if self._session is None and gateway.rules.identify else 0

    def _identify(self, data: Body) -> int:
        gateway, rules = self.gateway, self.gateway.rules
        if rules.token and (data.get("token") != gateway.token or gateway.revoked):
            return 4004
        if self._session is not None:
            return 4005
        if (
            rules.intents
            and int(data.get("intents", 0)) & CONTENT
            and not gateway.world.content_allowed
        ):
            return 4014
        if rules.starts and time.monotonic() - gateway.began < rules.between:
            gateway.hasty += 1
            self.send({"op": 9, "d": False, "s": None, "t": None})
            return 0
        gateway.began = time.monotonic()
        gateway.identified += 1
        session = self._session = Session(secrets.token_hex(8), int(data.get("intents", 0)))
        gateway.world.sessions[session.id] = session
        session.send = self.send
        gateway.world.tell(
            session,
            "READY",
            {
                "v": 10,
                "user": BOT,
                "guilds": [{"id": GUILD, "unavailable": True}],
                "session_id": session.id,
                "resume_gateway_url": gateway.address,
                "application": {"id": APPLICATION, "flags": 0},
            },
        )
        gateway.world.tell(session, "GUILD_CREATE", gateway.world.guild())
        return 0

    def _resume(self, data: Body) -> int:
        gateway, rules = self.gateway, self.gateway.rules
        if rules.token and (data.get("token") != gateway.token or gateway.revoked):
            return 4004
        session = gateway.world.sessions.get(str(data.get("session_id")))
        if session is None:
            self.send({"op": 9, "d": False, "s": None, "t": None})
            return 0
        if int(data.get("seq") or 0) > session.number:
            return 4007
        gateway.resumed += 1
        self._session = session
        if rules.resume:
            for number, event, body in session.log:
                if number > int(data.get("seq") or 0):
                    self.send({"op": 0, "t": event, "s": number, "d": body})
        session.send = self.send
        gateway.world.tell(session, "RESUMED", {"_trace": []})
        return 0
