"""Server-sent events (WHATWG HTML, "Server-sent events"): durable items carry their number as id, so a reader that comes back gets exactly
what it missed; what happens live carries none and may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

from aiohttp import web

from channels.errors import Unavailable
from channels.web.client import Browser, Feed, Noticed, Posted, Preview, Revised, Typing, place
from ohmo.contracts.errors import StoreError
from ohmo.contracts.events import Event, TextDelta
from ohmo.contracts.reports import Reports
from ohmo.control.answers import Refusal, number
from ohmo.control.encode import dumps, type_name
from ohmo.control.guard import decorate
from ohmo.control.live import Listener, Live

HEARTBEAT = 10.0  # seconds between signs of life; also the longest a missed hint can delay an item
_BATCH = 500
_STREAMS = 64
_MOST = 2**62


def frame(kind: str, data: str, seq: int | None = None) -> str:
    """One event. ``data`` is one line."""
    number = "" if seq is None else f"id: {seq}\n"
    return f"{number}event: {kind}\ndata: {data}\n\n"


class Streams:
    """``GET /api/v1/events?thread=ID&since=SEQ``, or ``chat=`` for a chat of the browser, or neither: live events of every thread."""

    def __init__(self, reports: Reports, live: Live, browser: Browser | None) -> None:
        self._reports = reports
        self._live = live
        self._browser = browser
        self._open = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        since = last_seen(request)
        thread, chat = request.query.get("thread"), request.query.get("chat")
        if chat is not None and self._browser is None:
            raise Refusal(404, "the browser chat is switched off (channels.web.enabled)")
        if thread is not None and await self._reports.thread(thread) is None:
            raise Refusal(404, f"{thread[:60]}: there is no such session; `ohmo sessions list` shows them")
        if self._open >= _STREAMS:
            raise Refusal(503, f"{_STREAMS} streams are open already; close some pages")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        decorate(response)
        self._open += 1
        try:
            await response.prepare(request)
            async for text in self._frames(thread, chat, since):
                await response.write(text.encode())
        except (ConnectionResetError, StoreError, Unavailable):
            pass  # the reader left, or the history cannot be read now: it comes back with its cursor
        finally:
            self._open -= 1
        return response

    async def _frames(self, thread: str | None, chat: str | None, since: int) -> AsyncIterator[str]:
        with ExitStack() as stack:
            listener = stack.enter_context(self._live.listen(thread if chat is None else ""))
            feed = None if chat is None or self._browser is None else stack.enter_context(self._browser.watch(chat, listener.bell))
            reader = _Reader(self._reports, self._live, listener, feed, chat, since)
            yield "retry: 500\n\n"
            async for text in reader.begin():
                yield text
            while not self._live.closing:
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await listener.bell.wait()
                except TimeoutError:
                    yield ": alive\n\n"
                listener.bell.clear()
                async for text in reader.look():
                    yield text


class _Reader:
    """What one stream has said already."""

    def __init__(self, reports: Reports, live: Live, listener: Listener, feed: Feed | None, chat: str | None, since: int) -> None:
        self._reports = reports
        self._live = live
        self._listener = listener
        self._feed = feed
        self._chat = chat
        self._since = since
        self._preview = ""

    async def begin(self) -> AsyncIterator[str]:
        """The history after ``since``, then the state of the turn that runs."""
        async for text in self._history():
            yield text
        async for text in self._events(fresh=True):
            yield text
        yield frame("ready", dumps({"since": self._since}))

    async def look(self) -> AsyncIterator[str]:
        """What came since the last look."""
        async for text in self._events(fresh=False):
            yield text
        for item in [] if self._feed is None else self._feed.take():
            for text in self._live_item(item):
                yield text

    async def _events(self, *, fresh: bool) -> AsyncIterator[str]:
        """Durable items first: whoever hears that a turn ended has its answer already. A snapshot holds every delta before it, so these are left out."""
        lost, self._listener.lost = self._listener.lost, False
        events, snapshot = self._listener.take(), self._live.snapshot(self._listener.thread)
        async for text in self._history():
            yield text
        for thread, event in events:
            if not isinstance(event, TextDelta) or not (
                fresh or lost or self._feed is not None
            ):  # a chat sees previews, which its channel paces
                yield frame(type_name(type(event)), _with_thread(thread, event))
        if (fresh or lost) and self._listener.thread:
            yield frame("snapshot", dumps(snapshot))

    async def _history(self) -> AsyncIterator[str]:
        thread = self._listener.thread or await self._find()
        while thread:
            items = await self._reports.history(thread, since=self._since, limit=_BATCH)
            for item in items:
                self._since = item.seq
                yield frame("item", dumps(item), item.seq)
            if len(items) < _BATCH:
                return

    async def _find(self) -> str | None:
        """The thread of the chat; there is none before its first message."""
        if self._chat is None:
            return None
        address = place(self._chat)
        thread = await self._reports.find_thread(address) or await self._reports.find_thread(address, "owner")
        if thread is not None:
            self._listener.thread = thread
        return thread

    def _live_item(self, item: Preview | Typing | Noticed | Posted | Revised) -> Iterator[str]:
        match item:
            case Preview(text):
                same = _common(self._preview, text)
                self._preview = text
                yield frame("preview", dumps({"keep": _units(text[:same]), "text": text[same:]}))
            case Typing(on):
                yield frame("typing", dumps({"on": on}))
            case Noticed(text):
                yield frame("notice", dumps({"text": text}))
            case Revised(message, text):
                yield frame("revised", dumps({"message": message, "text": text}))
            case Posted():
                pass  # the history has it, or will have it at the next look


def last_seen(request: web.Request) -> int:
    """Last-Event-ID of a reader that comes back by itself, else ``since``."""
    again = request.headers.get("Last-Event-ID", "")
    return int(again[:18]) if again.isascii() and again.isdigit() else number(request, "since", 0, _MOST)


def _with_thread(thread: str, event: Event) -> str:
    return f'{{"thread":{dumps(thread)},{dumps(event)[1:]}'


def _common(old: str, new: str) -> int:
    """How many characters both begin with; the usual case, growth, costs one comparison."""
    if new.startswith(old):
        return len(old)
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _units(text: str) -> int:
    """Length as a page counts it: in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2
