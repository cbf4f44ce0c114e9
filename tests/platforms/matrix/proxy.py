"""A small HTTP proxy in front of Synapse that can be cut, be away, lose answers, limit, refuse and
sign the bot out."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, ClientTimeout, web
from yarl import URL

from tests.platforms.door import held_port
from tests.platforms.weather import Acks, Weather

SHOWS = re.compile(r"/_matrix/client/v3/rooms/[^/]+/(send|redact)/")
SYNC = "/_matrix/client/v3/sync"
HOP = set(
    """
    transfer-encoding content-encoding content-length connection keep-alive host server date
""".split()
)


@dataclass(slots=True)
class Proxy:
    """``url`` stays the same for its whole life. Faults of sends are used up one by one, in the
    order they were asked for."""

    target: str
    url: str = ""
    # (method, path), everything that came
    requests: list[tuple[str, str]] = field(default_factory=list)
    faults: deque[tuple[str, Any]] = field(default_factory=deque)
    # (room, event) that a sync delivers once more
    repeats: deque[tuple[str, dict[str, Any]]] = field(default_factory=deque)
    garbage: deque[bytes] = field(default_factory=deque)  # what the next syncs are answered with
    # what the next syncs meet: limit SECONDS, status CODE, reset, mute, slow SECONDS
    troubles: deque[tuple[str, Any]] = field(default_factory=deque)
    mute: bool = False  # every sync is accepted and never answered
    typing: list[bool] = field(default_factory=list)  # what the bot said of itself, newest last
    revoked: bool = False
    weather: Weather | None = None
    acks: Acks = field(default_factory=Acks)
    deaf: str = (
        ""  # requests whose path holds this are answered with a trouble of the homeserver's own
    )
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _held: socket.socket = field(default_factory=held_port)
    _session: ClientSession | None = None
    _http: web.Server | None = None
    _listening: asyncio.Server | None = None
    _opening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._session = ClientSession(timeout=ClientTimeout(total=None), auto_decompress=True)
        self._http = web.Server(self._meet, handler_cancellation=True)
        self._open()
        assert self._opening is not None
        await self._opening
        self.url = f"http://127.0.0.1:{self._held.getsockname()[1]}"

    async def stop(self) -> None:
        self._close()
        assert self._http is not None
        assert self._session is not None
        await self._http.shutdown(timeout=1)
        await self._session.close()
        self._held.close()

    def away(self, away: bool) -> None:
        """Refuses connections, and drops those that are open."""
        self._close()
        self.cut()
        if not away:
            self._open()

    def cut(self) -> None:
        """Drops every open connection with a reset."""
        assert self._http is not None
        for connection in list(self._http.connections):
            if connection.transport is not None:
                connection.transport.abort()

    def repeat(self, room: str, event: dict[str, Any]) -> None:
        self.repeats.append((room, event))
        self._wake.set()

    def trouble(self, kind: str, value: Any = None) -> None:
        """The next sync meets it; the one that waits comes back at once."""
        self.troubles.append((kind, value))
        self._wake.set()

    def babble(self, *answers: bytes) -> None:
        self.garbage.extend(answers)
        self._wake.set()

    def _open(self) -> None:
        # listens from here on: nobody is refused any more
        listener = socket.create_server(self._held.getsockname())
        self._opening = asyncio.get_running_loop().create_task(
            self._serve(listener), name="proxy opens"
        )

    async def _serve(self, listener: socket.socket) -> None:
        assert self._http is not None
        self._listening = await asyncio.get_running_loop().create_server(self._http, sock=listener)

    def _close(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def _meet(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == SYNC:
            self.acks.settled(request.query.get("since"))
            self.acks.lost()
        if self.weather is None:
            return await self._answer(request)
        return await self.weather.meet(request, lambda: self._answer(request), _limited, self.cut)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        if self.revoked:
            return _error(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.", soft_logout=False)
        if self.deaf and self.deaf in request.path:
            return _error(502, "M_UNKNOWN", "Bad gateway")
        fault, value = (
            self.faults.popleft() if self.faults and SHOWS.match(request.path) else ("", None)
        )
        if fault == "limit":
            return _limited(value)
        if fault == "reject":
            return _error(413, "M_TOO_LARGE", "event too large")
        if request.path == SYNC:
            return await self._sync(request)
        if "/typing/" in request.path:
            self.typing.append(json.loads(await request.read())["typing"])
        response = await self._forward(request)
        if fault == "lose" and request.transport is not None:
            request.transport.abort()
        return response

    async def _sync(self, request: web.BaseRequest) -> web.StreamResponse:
        """The homeserver's own answer, or at once one with an event it has delivered before."""
        self._wake.clear()
        kind, value = (
            self.troubles.popleft() if self.troubles else ("mute" if self.mute else "", None)
        )
        match kind:
            case "limit":
                return _limited(value)
            case "status":
                return _error(value, "M_UNKNOWN", "Internal server error")
            case "reset":
                assert request.transport is not None
                request.transport.abort()
            case "slow":
                await asyncio.sleep(value)
            case "mute":
                await asyncio.Event().wait()  # until the client hangs up
        if self.garbage:
            return web.Response(body=self.garbage.popleft(), content_type="application/json")
        if self.repeats and "since" in request.query:
            room, event = self.repeats.popleft()
            timeline = {"events": [event], "limited": False, "prev_batch": request.query["since"]}
            return web.json_response(
                {
                    "next_batch": request.query["since"],
                    "rooms": {"join": {room: {"timeline": timeline}}},
                }
            )
        forward = asyncio.ensure_future(self._forward(request))
        wake = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({forward, wake}, return_when=asyncio.FIRST_COMPLETED)
            if not forward.done():
                return await self._sync(request)
            self._handed(forward.result())
            return forward.result()
        finally:
            wake.cancel()
            forward.cancel()

    def _handed(self, response: web.Response) -> None:
        """A sync with messages in it: whoever saved its token comes again with it."""
        body = json.loads(response.body if isinstance(response.body, bytes) else b"{}")
        rooms = body.get("rooms", {}).get("join", {}).values()
        spoken = sum(
            event["type"] == "m.room.message"
            for room in rooms
            for event in room.get("timeline", {}).get("events", ())
        )
        if spoken:
            self.acks.handed(body["next_batch"], spoken)

    async def _forward(self, request: web.BaseRequest) -> web.Response:
        assert self._session is not None
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in HOP
        }
        url = URL(self.target + request.raw_path, encoded=True)
        async with self._session.request(
            request.method, url, headers=headers, data=await request.read()
        ) as response:
            kept = {
                name: value for name, value in response.headers.items() if name.lower() not in HOP
            }
            return web.Response(status=response.status, headers=kept, body=await response.read())


def _limited(seconds: float) -> web.Response:
    return _error(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=int(seconds * 1000))


def _error(status: int, code: str, words: str, **more: Any) -> web.Response:
    return web.Response(
        status=status,
        text=json.dumps({"errcode": code, "error": words, **more}),
        content_type="application/json",
    )
