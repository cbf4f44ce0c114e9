"""The loopback port of a test server: it listens, keeps its timers, goes away, comes back on the
same port, resets what is open, and lets the weather in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from tests.platforms.weather import Weather


def held_port() -> socket.socket:
    """A free port of 127.0.0.1 that stays ours as long as this is open: it is bound and never
    listens, so that who connects is refused, while a server of ours may listen on it, go away and
    come back (socket(7), SO_REUSEADDR), and nobody else is given it meanwhile."""
    holding = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holding.bind(("127.0.0.1", 0))
    return holding


class Door:
    """``limited``: the platform's own answer to too many calls. ``weather``: none unless a test
    sets it. ``more``: adds doors of a process."""

    def __init__(self, limited: Callable[[float], web.Response]) -> None:
        self.port = 0
        self.weather: Weather | None = None
        self.more: Callable[[web.Application], None] = lambda app: None
        self._limited = limited
        self._held: socket.socket | None = None
        self._listening: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()

    def later(self, seconds: float, do: Callable[[], object]) -> asyncio.TimerHandle:
        """Something the platform does after a while, unless its server is closed first."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, do)
        self._timers = {
            old for old in self._timers if not old.cancelled() and old.when() > loop.time()
        } | {timer}
        return timer

    @asynccontextmanager
    async def open(
        self, app: web.Application, port: int = 0, *, cancel: bool = True
    ) -> AsyncGenerator[None]:
        """``cancel``: who hangs up ends the work on his call."""
        self.port = port or self._hold()
        self.more(app)
        app.middlewares.append(self._meet)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=cancel
        )
        await self._runner.setup()
        await self._serve(self._socket())
        try:
            yield
        finally:
            for timer in self._timers:
                timer.cancel()
            if self._opening is not None:
                await self._opening
            if self._listening is not None:
                self._listening.close()
            self.cut()
            await self._runner.cleanup()
            if self._held is not None:
                self._held.close()

    def _hold(self) -> int:
        self._held = held_port()
        return int(self._held.getsockname()[1])

    @web.middleware
    async def _meet(
        self, request: web.Request, handler: Callable[[web.Request], object]
    ) -> web.StreamResponse:
        async def answer() -> web.StreamResponse:
            try:
                return await handler(request)  # type: ignore[misc]
            except ConnectionError:  # reset by the weather while it was read
                return web.Response(status=500)

        if self.weather is None or request.path.startswith("/control"):
            return await answer()
        return await self.weather.meet(request, answer, self._limited, self.cut)

    def _socket(self) -> socket.socket:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        # from here on the system takes connections, even before the loop serves them
        listening.listen(256)
        return listening

    async def _serve(self, listening: socket.socket) -> None:
        assert self._runner.server is not None
        self._listening = await asyncio.get_running_loop().create_server(
            self._runner.server, sock=listening
        )

    def down(self, away: bool) -> None:
        """Connections are refused while ``away``; the ones that live are reset."""
        if away and self._listening is not None:
            self._listening.close()
            self._listening = None
            self.cut()
        elif not away and self._listening is None:
            self._opening = asyncio.get_running_loop().create_task(self._serve(self._socket()))

    def cut(self) -> None:
        """Every connection is reset; new ones are welcome."""
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
