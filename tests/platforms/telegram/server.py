"""The HTTP side of the loopback Bot API: requests in, faults to order, a history of every call."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.platforms.door import Door
from tests.platforms.telegram.methods import SENDING, Methods, decoded
from tests.platforms.telegram.rules import Refusal, Rules, bad
from tests.platforms.telegram.world import TOKEN, Body, World
from tests.platforms.weather import Acks


@dataclass(slots=True)
class Faults:
    """What the next calls meet. ``latency``: seconds before every answer but that of a poll."""

    lose: int = 0  # sends that are carried out without an answer
    reject: int = 0
    limit: float = 0.0
    garbage: int = 0  # answers that are no JSON
    babble: str = ""  # what the next poll is answered with, as Latin-1
    fail: int = 0  # answers with 500, nothing done
    latency: float = 0.0
    conflicts: int = 0  # polls ended by another instance
    # codes that the next polls are refused with; 0: reset without an answer
    polls: list[int] = field(default_factory=list[int])
    revoked: bool = False
    mute: bool = False  # polls are accepted and never answered


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the server saw it; ``code`` 0: carried out, its answer lost."""

    at: float
    method: str
    parameters: Body
    code: int


@dataclass(slots=True)
class Server:
    """One bot's Bot API on a loopback port; stays on it over down(True), down(False)."""

    rules: Rules = field(default_factory=Rules)
    clock: Callable[[], float] = time.time
    token: str = TOKEN
    faults: Faults = field(default_factory=Faults)
    calls: list[Call] = field(default_factory=list)
    port: int = 0
    world: World = field(init=False)
    methods: Methods = field(init=False)
    acks: Acks = field(default_factory=Acks)
    door: Door = field(default_factory=lambda: Door(_limited))

    def __post_init__(self) -> None:
        self.world = World(self.rules, self.clock)
        self.methods = Methods(self.world)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncGenerator[Server]:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/bot{token}/{method}", self._call)
        app.router.add_get("/file/bot{token}/{path:.+}", self._file)
        async with self.door.open(app, port):
            self.port = self.door.port
            yield self

    def down(self, away: bool) -> None:
        """Connections are refused while ``away``; the ones that live are reset."""
        self.door.down(away)

    def cut(self) -> None:
        self.door.cut()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        call: Body = {}
        try:
            if self.rules.token and (
                request.match_info["token"] != self.token or self.faults.revoked
            ):
                raise Refusal(401, "Unauthorized")
            call = decoded(await self._parameters(request))
            if method == "getUpdates":
                self.acks.settled_below(int(call.get("offset") or 0))
                self.acks.lost()
            if method == "getUpdates" and self.faults.mute:
                await asyncio.Event().wait()  # until the client hangs up
            result = await self._carried_out(method, call)
        except ConnectionResetError:
            self._note(method, call, 0)
            assert request.transport is not None
            request.transport.abort()
            raise
        except Refusal as refusal:
            self._note(method, call, refusal.code)
            body = {"ok": False, "error_code": refusal.code, "description": refusal.description}
            return web.json_response(
                {**body, **({"parameters": refusal.parameters} if refusal.parameters else {})},
                status=refusal.code,
            )
        if method != "getUpdates" and self.faults.latency:
            await asyncio.sleep(self.faults.latency)
        if method in SENDING and self.faults.lose:
            self.faults.lose -= 1
            self._note(method, call, 0)
            assert request.transport is not None
            request.transport.abort()
        elif self.faults.garbage and method != "getUpdates":
            self.faults.garbage -= 1
            self._note(method, call, 0)
            return web.Response(text="<html>not the Bot API</html>", content_type="text/html")
        else:
            self._note(method, call, 200)
        if method == "getUpdates" and self.faults.babble:
            babble, self.faults.babble = self.faults.babble.encode("latin-1"), ""
            return web.Response(body=babble, content_type="application/json")
        if method == "getUpdates":
            for update in result:
                self.acks.handed(update["update_id"])
        return web.json_response({"ok": True, "result": result})

    async def _carried_out(self, method: str, call: Body) -> Any:
        faults = self.faults
        handler = (
            getattr(self.methods, method, None)
            if method[:1].isalpha() and method[-1:].isalpha()
            else None
        )
        if handler is None or method in {"interrupt", "polling"}:
            raise Refusal(404, "Not Found")
        if method == "getUpdates" and faults.conflicts:
            faults.conflicts -= 1
            raise Refusal(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot"
                " instance is running",
            )
        if method == "getUpdates" and faults.polls:
            code = faults.polls.pop(0)
            if code == 0:
                raise ConnectionResetError
            raise (
                Refusal(code, "Too Many Requests: retry after 1", retry_after=1)
                if code == 429
                else Refusal(code, "Bad Gateway")
            )
        if method in SENDING:
            if faults.fail:
                faults.fail -= 1
                raise Refusal(500, "Internal Server Error")
            if faults.limit:
                seconds, faults.limit = math.ceil(faults.limit), 0.0
                raise Refusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
            if faults.reject:
                faults.reject -= 1
                raise bad("can't parse entities: the test said so")
        return await handler(call)

    def _note(self, method: str, call: Body, code: int) -> None:
        if method != "getUpdates" or code != 200:
            shown = {
                key: value[0] if isinstance(value, tuple) else value for key, value in call.items()
            }
            self.calls.append(Call(self.clock(), method, shown, code))

    async def _parameters(self, request: web.Request) -> Body:
        call: Body = dict(request.query)
        if request.content_type == "application/json":
            try:
                return call | json.loads(
                    (await request.read()).decode("utf-8", "surrogatepass") or "{}"
                )
            except ValueError:
                raise bad("can't parse request body JSON object") from None
        for name, value in (await request.post()).items():
            call[name] = (
                (value.filename, value.file.read()) if isinstance(value, web.FileField) else value
            )
        return call

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != self.token:
            return web.Response(status=401)
        for path, content in self.world.files.values():
            if path == request.match_info["path"]:
                return web.Response(body=content, content_type="application/octet-stream")
        return web.Response(status=404)


def _limited(seconds: float) -> web.Response:
    body = {
        "ok": False,
        "error_code": 429,
        "description": f"Too Many Requests: retry after {seconds:g}",
        "parameters": {"retry_after": int(seconds)},
    }
    return web.json_response(body, status=429)
