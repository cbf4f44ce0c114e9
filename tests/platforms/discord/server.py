"""The loopback Discord on a port: REST, gateway and files, faults to order, a history of every
call."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.platforms.discord.gateway import Gateway
from tests.platforms.discord.rest import Handler, Rest, decoded
from tests.platforms.discord.rules import Refusal, Rules
from tests.platforms.discord.world import TOKEN, Body, World
from tests.platforms.door import Door


@dataclass(slots=True)
class Faults:
    """What the next posts meet; ``fail``: HTTP status of an answer without anything done; ``via``:
    the header the SDK wants to see."""

    lose: int = 0
    reject: int = 0
    limit: float = 0.0
    everywhere: bool = False  # the limit is one for all calls
    via: bool = True
    fail: list[int] = field(default_factory=list[int])
    garbage: int = 0
    latency: float = 0.0
    login: list[int] = field(default_factory=list[int])  # statuses for Get Current User


@dataclass(frozen=True, slots=True)
class Request:
    at: float
    method: str
    path: str
    body: Body
    status: int


class Server:
    """Stays on its port over down(True), down(False)."""

    def __init__(
        self, rules: Rules | None = None, token: str = TOKEN, clock: Callable[[], float] = time.time
    ) -> None:
        self.rules = rules or Rules()
        self.token = token
        self.clock = clock
        self.world = World(self.rules, clock)
        self.rest = Rest(self.world, self.rules)
        self.gateway = Gateway(self.world, self.rules, token)
        self.faults = Faults()
        self.calls: list[Request] = []
        self.door = Door(self._too_many)
        self.port = 0
        self._sent: dict[str, list[float]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v10"

    @property
    def revoked(self) -> bool:
        return self.gateway.revoked

    @revoked.setter
    def revoked(self, value: bool) -> None:
        self.gateway.revoked = value

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncGenerator[Server]:
        app = web.Application(client_max_size=128 << 20)
        app.router.add_get("/api/v10/gateway/bot", self._address)
        app.router.add_get("/", self.gateway.handle)
        app.router.add_get("/attachments/{number}/{name}", self._file)
        for method, path, handler in self.rest.routes:
            app.router.add_route(method, f"/api/v10{path}", self._door(handler))
        async with self.door.open(app, port):
            self.port = self.door.port
            self.gateway.address = f"ws://127.0.0.1:{self.port}/"
            self.world.base = f"http://127.0.0.1:{self.port}"
            yield self

    def down(self, away: bool) -> None:
        """Connections are refused while ``away``; the ones that live are reset."""
        self.door.down(away)

    def cut(self) -> None:
        self.door.cut()

    async def until(self, condition: Callable[[Server], bool], within: float = 20.0) -> None:
        async with asyncio.timeout(within):
            while not condition(self):
                await asyncio.sleep(0.01)

    # doors

    async def _address(self, request: web.Request) -> web.StreamResponse:
        if self._unknown(request):
            return web.json_response({"message": "401: Unauthorized", "code": 0}, status=401)
        limit = {"total": 1000, "remaining": 1000, "reset_after": 86_400_000, "max_concurrency": 1}
        return web.json_response(
            {"url": self.gateway.address, "shards": 1, "session_start_limit": limit}
        )

    def _unknown(self, request: web.Request) -> bool:
        return self.rules.token and (
            request.headers.get("Authorization") != f"Bot {self.token}" or self.revoked
        )

    def _door(self, handler: Handler) -> Callable[[web.Request], Any]:
        async def door(request: web.Request) -> web.StreamResponse:
            path = request.path.removeprefix("/api/v10")
            post = request.method == "POST" and path.endswith("/messages")
            body: Body = {}
            refused: web.Response | None = None
            try:
                if self._unknown(request) and not path.startswith(("/interactions", "/webhooks")):
                    raise Refusal(401, 0, "401: Unauthorized")
                if path == "/users/@me" and self.faults.login:
                    return web.Response(status=self.faults.login.pop(0))
                call = await decoded(request)
                body = call.body
                refused = self._faulty(path) if post else None
                answer = refused if refused is not None else web.json_response(await handler(call))
            except Refusal as refusal:
                told: Body = {"message": refusal.message, "code": refusal.code} | (
                    {"errors": refusal.errors} if refusal.errors else {}
                )
                answer = web.json_response(told, status=refusal.status)
            self.calls.append(Request(self.clock(), request.method, path, body, answer.status))
            if post and refused is None and answer.status == 200 and self.faults.lose:
                self.faults.lose -= 1
                assert request.transport is not None
                request.transport.abort()
            elif post and refused is None and self.faults.garbage:
                self.faults.garbage -= 1
                return web.Response(text="<html>", content_type="text/html")
            if self.faults.latency:
                await asyncio.sleep(self.faults.latency)
            return answer

        return door

    def _faulty(self, path: str) -> web.Response | None:
        faults = self.faults
        if faults.limit:
            seconds, faults.limit = faults.limit, 0.0
            return self._too_many(seconds, everywhere=faults.everywhere)
        if faults.fail:
            return web.Response(status=faults.fail.pop(0), text="upstream failed")
        if faults.reject:
            faults.reject -= 1
            return web.json_response({"message": "the test said so", "code": 50035}, status=400)
        if self.rules.limits and self.rules.bucket:
            now = self.clock()
            sent = self._sent[path] = [at for at in self._sent.get(path, []) if now - at < 1.0]
            if len(sent) >= self.rules.bucket:
                return self._too_many(1.0 - (now - sent[0]))
            sent.append(now)
        return None

    def _too_many(self, seconds: float, *, everywhere: bool = False) -> web.Response:
        """Rate limits, "Exceeding a rate limit"; Cloudflare's own bans have neither Via nor a body
        of Discord's."""
        if not self.faults.via:
            return web.Response(
                status=429,
                text="error code: 1015",
                headers={"Retry-After": str(int(seconds + 0.999))},
            )
        headers = {
            "Retry-After": str(int(seconds + 0.999)),
            "Via": "1.1 google",
            "X-RateLimit-Scope": "global" if everywhere else "user",
        }
        headers |= {"X-RateLimit-Global": "true"} if everywhere else {}
        body = {
            "message": "You are being rate limited.",
            "retry_after": seconds,
            "global": everywhere,
        }
        return web.Response(
            status=429,
            body=json.dumps(body).encode(),
            headers=headers,
            content_type="application/json",
        )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        number = request.match_info["number"]
        if number not in self.world.files:
            return web.Response(status=404)
        if self.rules.signed and number in self.world.stale and request.query.get("ex") != "fresh":
            return web.Response(status=404, text="This content is no longer available.")
        if "Authorization" in request.headers:  # the token has no business here
            return web.Response(status=400)
        return web.Response(
            body=self.world.files[number][1], content_type="application/octet-stream"
        )
