"""Who stands at the TCP door: so many at once, nobody who keeps it open without asking for
anything, and strangers make room."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

# connections; a daemon's files and its platforms' sockets come out of the same 1024 that systemd
# gives
MOST = 256
PATIENCE = 20.0  # seconds for the head of the first request
IDLE = 75.0  # seconds a connection may rest between two requests
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length:"
    b" 0\r\n\r\n"
)


class Callers:
    """``most``: connections at once. ``patience``: seconds until a new one has to have sent the
    head of a request (a slow loris sends it for ever)."""

    def __init__(self, most: int = MOST, patience: float = PATIENCE) -> None:
        self._most = most
        self._patience = patience
        self._here: dict[RequestHandler, bool] = {}  # the oldest first; true: one of ours
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    def meet(self, server: web.Server) -> asyncio.Protocol:
        """A new connection. When the house is full the stranger who is here longest goes; where all
        are known, the new one does."""
        open_ones = {*server.connections, *self._silent}
        self._here = {one: known for one, known in self._here.items() if one in open_ones}
        if len(self._here) >= self._most:
            stranger = next((one for one, known in self._here.items() if not known), None)
            if stranger is None:
                return _Turned()
            self._see_off(stranger)
        handler = server()
        self._here[handler] = False
        self._silent[handler] = asyncio.get_running_loop().call_later(
            self._patience, self._see_off, handler
        )
        return handler

    def heard(self, request: web.Request) -> None:
        """The head of a request came."""
        waiting = self._silent.pop(request.protocol, None)
        if waiting is not None:
            waiting.cancel()

    def know(self, request: web.Request) -> None:
        """It was somebody of ours."""
        if request.protocol in self._here:
            self._here[request.protocol] = True

    def _see_off(self, handler: RequestHandler) -> None:
        waiting = self._silent.pop(handler, None)
        if waiting is not None:
            waiting.cancel()
        self._here.pop(handler, None)
        transport = handler.transport
        handler.force_close()
        if transport is not None:
            transport.abort()  # close() would wait for a reader who never reads


class _Turned(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_FULL)
        transport.close()


def is_worth_a_line(line: logging.LogRecord) -> bool:
    """What is no HTTP was answered with 400, and who hung up in the middle wants no answer: whoever
    knocks could fill the owner's log with both."""
    return not (
        line.exc_info and isinstance(line.exc_info[1], HttpProcessingError | ConnectionResetError)
    )
