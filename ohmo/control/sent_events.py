"""Server-sent events (WHATWG HTML, "Server-sent events"): how one is written, and how those who
read them are kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from channels.errors import Unavailable
from ohmo.contracts.errors import StoreError
from ohmo.control.answers import Refusal
from ohmo.control.guard import decorate

BEGIN = "retry: 500\n\n"  # ms after which a reader whose line broke comes back
# a comment: whoever stands between us and the reader sees that the line is in use
ALIVE = ": alive\n\n"
_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


def frame(kind: str, data: str, mark: int | str | None = None) -> str:
    """One event. ``data`` is one line; ``mark``: the id a reader sends when it comes back."""
    number = "" if mark is None else f"id: {mark}\n"
    return f"{number}event: {kind}\ndata: {data}\n\n"


class Readers:
    """At most ``most`` read at once; ``full``: what one more is told."""

    def __init__(self, most: int, full: str) -> None:
        self._most = most
        self._full = full
        self._open = 0

    async def serve(
        self, request: web.Request, write: Callable[[web.StreamResponse], Awaitable[None]]
    ) -> web.StreamResponse:
        """Opens the stream and lets ``write`` fill it until it returns. Raises Refusal: there are
        too many."""
        if self._open >= self._most:
            raise Refusal(503, self._full)
        response = web.StreamResponse(headers=_HEADERS)
        decorate(response)
        self._open += 1
        try:
            await response.prepare(request)
            await write(response)
        except (ConnectionResetError, StoreError, Unavailable):
            pass  # the reader left, or the history cannot be read now: it comes back with its place
        finally:
            self._open -= 1
        return response
