"""The log over HTTP: pages backwards, and a live tail that goes on exactly where it ended. Secrets
were blotted out when it was written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from ohmo.control.answers import Refusal, answer, number
from ohmo.control.encode import dumps
from ohmo.control.logbook import RANKS, Logbook, Wanted, is_place
from ohmo.control.sent_events import ALIVE, BEGIN, Readers, frame

_LOOK = 0.5  # seconds between looks at the file
_ALIVE = 20  # looks between signs of life
_TAILS = 16
_FIELDS = ("thread", "turn", "channel", "event")


class Logs:
    """``closing``: the house is going away. ``may_stay``: whether a reader of the tail is still let
    in."""

    def __init__(
        self,
        path: Path | None,
        closing: Callable[[], bool],
        may_stay: Callable[[web.Request], bool],
    ) -> None:
        self._book = None if path is None else Logbook(path)
        self._closing = closing
        self._may_stay = may_stay
        self._readers = Readers(_TAILS, f"{_TAILS} pages follow the log already; close some")

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/v1/logs", self.page), web.get("/api/v1/logs/events", self.tail)]

    async def page(self, request: web.Request) -> web.Response:
        """Newest first; ``next`` is the ``after`` of the following page, ``since`` the place the
        live tail goes on from."""
        book, wanted = self._need(), _wanted(request)
        after = request.query.get("after") or None
        if after is not None and not is_place(after):
            raise Refusal(400, "after: send back the `next` of the page before, as it was")
        limit = number(request, "limit", 200, 1000)

        def read() -> dict[str, object]:
            since = book.end()
            entries, following = book.back(wanted, limit, after or since or None)
            return {
                "logs": [{"place": e.place, **e.event} for e in entries],
                "next": following,
                "since": since,
            }

        return answer(await asyncio.to_thread(read))

    async def tail(self, request: web.Request) -> web.StreamResponse:
        """``log`` events with their place as id; ``gap`` says that something is missing because the
        log rotated away."""
        book, wanted = self._need(), _wanted(request)
        place = (
            request.headers.get("Last-Event-ID")
            or request.query.get("since")
            or await asyncio.to_thread(book.end)
        )
        if place and not is_place(place):
            raise Refusal(400, "since: a place as `GET /api/v1/logs` tells it is wanted")
        return await self._readers.serve(
            request, lambda response: self._follow(request, response, book, wanted, place)
        )

    async def _follow(
        self,
        request: web.Request,
        response: web.StreamResponse,
        book: Logbook,
        wanted: Wanted,
        place: str,
    ) -> None:
        await response.write((BEGIN + frame("ready", dumps({"since": place}))).encode())
        quiet = 0
        while not self._closing() and self._may_stay(request):
            news = await asyncio.to_thread(book.forward, wanted, place)
            text = "" if news.whole else frame("gap", "{}")
            text += "".join(
                frame("log", dumps({"place": e.place, **e.event}), e.end) for e in news.entries
            )
            if news.place != place:
                place, quiet = news.place, 0
                text += frame(
                    "at", dumps({"since": place}), place
                )  # also when nothing in it was wanted
            if text:
                await response.write(text.encode())
            elif (quiet := quiet + 1) % _ALIVE == 0:
                await response.write(ALIVE.encode())
            await asyncio.sleep(_LOOK)

    def _need(self) -> Logbook:
        if self._book is None:
            raise Refusal(404, "this ohmo keeps no log file")
        return self._book


def _wanted(request: web.Request) -> Wanted:
    level = request.query.get("level", "debug")
    if level not in RANKS:
        raise Refusal(400, f"level: {', '.join(RANKS)} are known")
    words = tuple(request.query.get("q", "").lower().split())[:20]
    fields = tuple((name, value) for name in _FIELDS if (value := request.query.get(name)))
    return Wanted(level, words, fields)
