"""Server-sent events of a thread: durable items carry their number as id, so that a reader who
comes back gets what it missed; live ones carry none and may be lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from aiohttp import web

from channels.errors import Unavailable
from channels.web.client import Browser, Feed, Noticed, Posted, Preview, Revised, Typing, place
from ohmo.contracts.agent import TextDelta
from ohmo.contracts.errors import StoreError
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import HistoryItem, Reports
from ohmo.control.event_hub import Changed, EventHub, Listener, Told, with_words_joined
from ohmo.control.guard import decorate
from ohmo.control.responses import Refusal, dumps, number, type_name

T = TypeVar("T")

HEARTBEAT = 10.0  # seconds between signs of life; also the longest a missed hint can delay an item
_PAUSE = 0.02  # seconds after a look: what comes meanwhile is told together
_BATCH = 500
_LAST = 1000  # items a reader may begin with
_STREAMS = 256
_MOST = 2**62
_SETTLED = ("sent", "dropped")  # an owner may bring a dead one back
_UNSETTLED = 200  # posts one stream looks after
_ROW = re.compile(r"[0-9A-Za-z_-]{1,64}")


class Streams:
    """``GET /api/v1/events?thread=ID&since=SEQ``, or ``chat=`` for a chat of the browser, or
    neither: live events of every thread. ``may_stay``: whether the reader is still let in; asked
    before every word."""

    def __init__(
        self,
        reports: Reports,
        live: EventHub,
        browser: Browser | None,
        may_stay: Callable[[web.Request], bool],
    ) -> None:
        self._reports = reports
        self._reads = SharedReads(reports, live)
        self._live = live
        self._browser = browser
        self._may_stay = may_stay
        self._readers = Readers(_STREAMS, f"{_STREAMS} streams are open already; close some pages")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        thread = request.query.get("thread")
        chat = request.query.get("chat")
        if thread is None and chat is None:
            frames = self._house(last_mark(request))
        else:
            begin = (last_seen(request), number(request, "last", 0, _LAST))
            # posts whose end the reader has not seen
            written = request.query.get("open", "").split(",")
            rows = [row for row in written if _ROW.fullmatch(row)]
            frames = self._frames(thread, chat, begin, rows[:_UNSETTLED])
        if chat is not None and self._browser is None:
            raise Refusal(404, "the browser chat is switched off (channels.web.enabled)")
        if thread is not None and await self._reports.thread(thread) is None:
            raise Refusal(
                404, f"{thread[:60]}: there is no such session; `ohmo sessions list` shows them"
            )

        async def write(response: web.StreamResponse) -> None:
            async for text in frames:
                if not self._may_stay(request):
                    return
                if text:
                    await response.write(text.encode())

        return await self._readers.serve(request, write)

    async def _rings(self, bell: asyncio.Event) -> AsyncIterator[str]:
        """Each time there is something to look at, until the house goes away; a sign of life where
        nothing rang for long."""
        while not self._live.closing:
            sign = ""
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await bell.wait()
            except TimeoutError:
                sign = ALIVE
            bell.clear()
            yield sign
            await asyncio.sleep(_PAUSE)

    async def _house(self, mark: str) -> AsyncIterator[str]:
        """Everything that happens, numbered where it must not be missed; ``reset`` when what was
        missed is not known any more."""
        journal = self._live.journal
        with self._live.listen(None) as listener:
            missed = journal.since(mark) if mark else []
            last = journal.last
            yield BEGIN
            if missed is None:
                yield frame("reset", "{}", journal.mark(last))
            for entry in newest(missed or []):
                yield _of_house(entry, journal.mark)
            yield frame("ready", dumps({"since": journal.mark(last)}), journal.mark(last))
            async for sign in self._rings(listener.bell):
                lost = listener.lost
                listener.lost = False
                entries = with_words_joined(newest(listener.take()))
                reset = frame("reset", "{}", journal.mark(journal.last)) if lost else ""
                news = [_of_house(entry, journal.mark) for entry in entries]
                yield "".join([sign, reset, *news])

    async def _frames(
        self, thread: str | None, chat: str | None, begin: tuple[int, int], rows: Sequence[str]
    ) -> AsyncIterator[str]:
        with ExitStack() as stack:
            listener = stack.enter_context(self._live.listen(thread if chat is None else ""))
            feed = None
            if chat is not None and self._browser is not None:
                feed = stack.enter_context(self._browser.watch(chat, listener.bell))
            reader = _Reader(self._reads, self._live, listener, feed, chat, begin, rows)
            yield BEGIN
            async for text in reader.begin():
                yield text
            async for sign in self._rings(listener.bell):
                news = [sign, *[text async for text in reader.look(hinted=not sign)]]
                yield "".join(news)


class SharedReads:
    """What several streams ask of the store after the same commit is read, and put into JSON, once:
    whoever asks while it is being read waits for the same answer."""

    def __init__(self, reports: Reports, live: EventHub) -> None:
        self.reports = reports
        self._live = live
        self._running: dict[object, asyncio.Task[Any]] = {}

    async def history(self, thread: str, since: int) -> list[tuple[HistoryItem, str]]:
        """At most _BATCH items after ``since``, each with its frame."""

        async def read() -> list[tuple[HistoryItem, str]]:
            items = await self.reports.history(thread, since=since, limit=_BATCH)
            return [(item, frame("item", dumps(item), item.seq)) for item in items]

        return await self._once(thread, since, read)

    async def posts(self, rows: tuple[str, ...]) -> Sequence[OutRow]:
        return await self._once("posts", rows, lambda: self.reports.posts(rows))

    async def _once(self, of: str, after: object, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Raises what ``read`` raises, to everybody who asked."""
        key = (self._live.commits, of, after)  # what began before a commit does not hold it
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(read(), name="stream.read")
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
        # One reader who leaves takes it from nobody else.
        return await asyncio.shield(task)


class _Reader:
    """What one stream has said already. ``begin``: after which item it goes on; from the first, how
    many of the last it wants (0: all)."""

    def __init__(
        self,
        reads: SharedReads,
        live: EventHub,
        listener: Listener,
        feed: Feed | None,
        chat: str | None,
        begin: tuple[int, int],
        rows: Sequence[str],
    ) -> None:
        self._reads = reads
        self._live = live
        self._listener = listener
        self._feed = feed
        self._chat = chat
        self._since, self._last = begin
        self._preview = ""
        # Posts that may still change, as they were told.
        self._unsettled: dict[str, tuple[str, str | None]] = dict.fromkeys(rows, ("", None))

    async def begin(self) -> AsyncIterator[str]:
        """The history after ``since``, then the state of the turn that runs."""
        async for text in self._history():
            yield text
        self._listener.stirred = False
        async for text in self._events(fresh=True, stirred=True):
            yield text
        async for text in self._changed_posts():
            yield text
        yield frame("ready", dumps({"since": self._since}))

    async def look(self, *, hinted: bool) -> AsyncIterator[str]:
        """What came since the last look. ``hinted``: something said that there is news; else it may
        have been missed."""
        known = bool(self._listener.thread)  # a chat has no thread before its first message
        stirred = self._listener.stirred or not hinted or not known
        self._listener.stirred = False
        async for text in self._events(fresh=False, stirred=stirred):
            yield text
        if stirred:
            async for text in self._changed_posts():
                yield text
        for item in [] if self._feed is None else self._feed.take():
            for text in self._live_item(item):
                yield text

    async def _events(self, *, fresh: bool, stirred: bool) -> AsyncIterator[str]:
        """Durable items first: whoever hears that a turn ended has its answer already. A snapshot
        holds every delta before it, so these are left out."""
        whole = fresh or self._listener.lost
        self._listener.lost = False
        events = self._listener.take()
        snapshot = self._live.snapshot(self._listener.thread)
        # Between two commits there are only words of an answer that is being written.
        only_words = all(isinstance(told.event, TextDelta) for told in events)
        if whole or stirred or not only_words:
            async for text in self._history():
                yield text
        # a chat sees previews, which its channel paces
        without_deltas = whole or self._feed is not None
        for told in with_words_joined(events):
            if not (without_deltas and isinstance(told.event, TextDelta)):
                yield frame(type_name(type(told.event)), told.data)
        if whole and self._listener.thread:
            yield frame("snapshot", dumps(snapshot))

    async def _history(self) -> AsyncIterator[str]:
        thread = self._listener.thread
        if not thread and self._chat is not None:
            # The thread of the chat; there is none before its first message.
            address = place(self._chat)
            reports = self._reads.reports
            thread = await reports.find_thread(address)
            thread = thread or await reports.find_thread(address, "owner")
            if thread is not None:
                self._listener.thread = thread
        if thread and self._last and not self._since:
            limit = self._last
            self._last = 0
            end = await self._reads.reports.history(thread, before=_MOST, limit=limit)
            if len(end) == limit:
                self._since = end[0].seq - 1
                yield frame("earlier", dumps({"thread": thread, "before": end[0].seq}))
        while thread:
            items = await self._reads.history(thread, self._since)
            for item, text in items:
                self._since = item.seq
                if isinstance(item, OutRow) and item.state not in _SETTLED:
                    self._unsettled[item.row.id] = (item.state, item.error)
                yield text
            if len(items) < _BATCH:
                return

    async def _changed_posts(self) -> AsyncIterator[str]:
        """A post keeps its number when its state changes, so its news comes beside the items."""
        if not self._unsettled:
            return
        for row in await self._reads.posts(tuple(self._unsettled)):
            post = row.row.id
            state = (row.state, row.error)
            if row.thread == self._listener.thread and self._unsettled[post] != state:
                self._unsettled[post] = state
                news = {"row": post, "seq": row.seq, "state": row.state, "error": row.error}
                yield frame("post_state", dumps(news))
            if row.state in _SETTLED:
                del self._unsettled[post]
        while len(self._unsettled) > _UNSETTLED:
            del self._unsettled[next(iter(self._unsettled))]

    def _live_item(self, item: Preview | Typing | Noticed | Posted | Revised) -> Iterator[str]:
        match item:
            case Preview(text):
                same = _common(self._preview, text)
                self._preview = text
                # length as a page counts it: in UTF-16 units
                units = len(text[:same].encode("utf-16-le")) // 2
                yield frame("preview", dumps({"keep": units, "text": text[same:]}))
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
    if again.isascii() and again.isdigit():
        return int(again[:18])
    return number(request, "since", 0, _MOST)


def last_mark(request: web.Request) -> str:
    """The same for a reader of the whole house. What is no mark of ours is answered with
    ``reset``."""
    mark = request.headers.get("Last-Event-ID") or request.query.get("since", "")
    return "" if mark == "0" else mark[:64]


def newest(entries: Sequence[Told]) -> list[Told]:
    """Without the changes that come again later."""
    last = {
        (entry.event.what, entry.thread): entry.number
        for entry in entries
        if isinstance(entry.event, Changed)
    }
    return [
        entry
        for entry in entries
        if not isinstance(entry.event, Changed)
        or last[entry.event.what, entry.thread] == entry.number
    ]


def _of_house(entry: Told, mark: Callable[[int], str]) -> str:
    number = mark(entry.number) if entry.number else None
    return frame(type_name(type(entry.event)), entry.data, number)


def _common(old: str, new: str) -> int:
    """How many characters both begin with; the usual case, growth, costs one comparison."""
    if new.startswith(old):
        return len(old)
    for at, (before, after) in enumerate(zip(old, new, strict=False)):
        if before != after:
            return at
    return min(len(old), len(new))


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
