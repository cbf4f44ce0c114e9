"""The log over HTTP: pages backwards, and a live tail over rotations. Secrets were taken out when
it was written."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import fields, is_dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from aiohttp import web

from channels.record import record
from ohmo.control.event_stream import ALIVE, BEGIN, Readers, frame
from ohmo.control.responses import Refusal, answer, dumps, number
from ohmo.database.tracing import Trace, Traces

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
            for entry in news.entries:
                text += frame("log", dumps({"place": entry.place, **entry.event}), entry.end)
            if news.place != place:  # also when nothing in it was wanted
                place = news.place
                quiet = 0
                text += frame("at", dumps({"since": place}), place)
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
    fields = [(name, request.query.get(name, "")) for name in _FIELDS]
    return Wanted(level, words, tuple((name, value) for name, value in fields if value))


_BLOCK = 64 * 1024
_SCANNED = 16 * 1024 * 1024  # bytes one question looks through at most
_TRIES = 5  # to list files that are being turned over
_FORWARD = 1024 * 1024  # bytes of news at a time
_PLACE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,15})")
RANKS = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}


@record
class Wanted:
    """``level``: at least so grave. ``words``: all of them stand somewhere in the line, in any
    case. ``fields``: equal to these."""

    level: str = "debug"
    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()

    def event(self, line: bytes) -> dict[str, Any] | None:
        """The event of a line; None when it is not wanted or is no event (a line that was cut)."""
        text = line.decode("utf-8", "replace")
        lowered = text.lower()
        if any(word not in lowered for word in self.words):
            return None
        try:
            loaded: Any = json.loads(text)
        except ValueError:
            return None
        if not isinstance(loaded, dict):
            return None
        event = cast("dict[str, Any]", loaded)
        if RANKS.get(str(event.get("level")), 1) < RANKS[self.level]:
            return None
        if any(str(event.get(name)) != value for name, value in self.fields):
            return None
        return event


@record
class Entry:
    """One event, where it stands, and where the next one begins (told when reading forward)."""

    place: str
    end: str
    event: dict[str, Any]


@record
class News:
    """``whole`` False: the place was not found any more (many rotations ago), so something between
    is missing."""

    entries: tuple[Entry, ...]
    place: str
    whole: bool


class Logbook:
    """Blocking; called in a thread. Raises OSError only for a disk that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def back(
        self, wanted: Wanted, limit: int, before: str | None = None
    ) -> tuple[list[Entry], str | None]:
        """At most ``limit`` wanted events before a place (None: the end), newest first, and the
        place to go on from; None: that was all."""
        entries: list[Entry] = []
        scanned = 0
        for place, line in self._backwards(before):
            scanned += len(line)
            event = wanted.event(line)
            if event is not None:
                entries.append(Entry(place, "", event))
            if len(entries) >= limit or scanned > _SCANNED:
                return entries, place
        return entries, None

    def end(self) -> str:
        """The place behind the newest whole line."""
        with ExitStack() as stack:
            for file, number in self._opened(stack)[:1]:
                return _place(number, _whole(file))
        return ""

    def forward(self, wanted: Wanted, since: str) -> News:
        """What was written behind a place; "": from the beginning of the newest file."""
        inode, offset = _read(since)
        entries: list[Entry] = []
        place = since
        with ExitStack() as stack:
            opened = self._opened(stack)
            files = [pair for pair in reversed(opened) if not isinstance(pair[0], BytesIO)]
            numbers: list[int] = []
            for file, number in files:
                # another file may have got the number of one that is gone
                gone = number == inode and not _begins(file, offset)
                numbers.append(0 if gone else number)
            whole = not since or inode in numbers
            first = numbers.index(inode) if inode in numbers else -1
            for file, number in files[first:]:
                start = offset if number == inode and whole else 0
                file.seek(start)
                data = file.read(_FORWARD)
                body = data[: data.rfind(b"\n") + 1]
                for line in body.splitlines(keepends=True):
                    here = start
                    start += len(line)
                    event = wanted.event(line)
                    if event is not None:
                        entries.append(Entry(_place(number, here), _place(number, start), event))
                place = _place(number, start)
                if len(data) == _FORWARD:
                    break  # the rest at the next look
        return News(tuple(entries), place, whole)

    def _opened(self, stack: ExitStack) -> list[tuple[BinaryIO, int]]:
        """Each with its inode, newest first. The names move on while they are read: then they are
        read once more."""
        files: list[tuple[BinaryIO, int]] = []
        for _ in range(_TRIES):
            files = []
            # One that is compressed just now stands there twice, and counts once.
            rotated: dict[int, Path] = {}
            for path in self._path.parent.glob(f"{self._path.name}.*"):
                age, _, ending = path.name.removeprefix(f"{self._path.name}.").partition(".")
                if age.isdecimal() and (
                    ending == "" or (ending == "gz" and int(age) not in rotated)
                ):
                    rotated[int(age)] = path
            for path in (self._path, *(rotated[age] for age in sorted(rotated))):
                with suppress(FileNotFoundError):
                    raw = stack.enter_context(path.open("rb"))
                    number = os.fstat(raw.fileno()).st_ino
                    files.append((_Packed(raw) if path.suffix == ".gz" else raw, number))
            numbers = [number for _, number in files]
            if len(set(numbers)) < len(numbers):
                continue
            with suppress(FileNotFoundError):
                if not numbers or self._path.stat().st_ino == numbers[0]:
                    break
        return files

    def _backwards(self, before: str | None) -> Iterator[tuple[str, bytes]]:
        inode, offset = _read(before or "")
        passed = before is None
        with ExitStack() as stack:
            for file, number in self._opened(stack):
                if not passed and (number != inode or not _begins(file, offset)):
                    continue
                position = offset if not passed else _whole(file)
                passed = True
                for start, line in _lines_before(file, position):
                    yield _place(number, start), line


class _Packed(BytesIO):
    """A compressed file, unpacked when it is come to; of a damaged one what can be read."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self._raw: BinaryIO | None = raw

    def unpack(self) -> None:
        raw, self._raw = self._raw, None
        if raw is None:
            return
        with suppress(OSError, EOFError, zlib.error), gzip.open(raw) as packed:
            while piece := packed.read(_BLOCK):
                self.write(piece)


def _part(file: BinaryIO, size: int, at: int) -> bytes:
    if isinstance(file, _Packed):
        file.unpack()
    file.seek(at)
    return file.read(size)


def _begins(file: BinaryIO, offset: int) -> bool:
    """Whether a line begins there, or the file ends."""
    return offset == 0 or _part(file, 1, offset - 1) == b"\n"


def _lines_before(file: BinaryIO, position: int) -> Iterator[tuple[int, bytes]]:
    """Start and bytes of each line that ends before a position, the last one first."""
    rest = b""
    while position > 0:
        size = min(_BLOCK, position)
        position -= size
        rest = _part(file, size, position) + rest
        lines = rest.splitlines(keepends=True)
        first = 0 if position == 0 else 1  # its beginning lies further back
        start = position + len(rest)
        for line in reversed(lines[first:]):
            start -= len(line)
            yield start, line
        rest = lines[0] if first and lines else b""


def _whole(file: BinaryIO) -> int:
    """Bytes up to the end of the last whole line."""
    if isinstance(file, _Packed):
        file.unpack()
    size = file.seek(0, os.SEEK_END)
    back = min(size, _BLOCK)
    return size - back + _part(file, back, size - back).rfind(b"\n") + 1


def _place(inode: int, offset: int) -> str:
    return f"{inode:x}-{offset:x}"


def _read(place: str) -> tuple[int, int]:
    match = _PLACE.fullmatch(place)
    return (int(match[1], 16), int(match[2], 16)) if match else (0, 0)


def is_place(text: str) -> bool:
    """Could this be a place?"""
    return _PLACE.fullmatch(text) is not None


_MOST_LINES = 200
Value = TypeVar("Value")


class Tracing:
    """Everything one message caused, from the store and the log. ``log``: the file of JSON lines.
    ``redact`` takes secrets out of words."""

    def __init__(self, store: Traces, log: Path | None, redact: Callable[[str], str]) -> None:
        self._store = store
        self._log = log
        self._redact = redact

    async def trace(self, id: str) -> Trace | None:
        """None: nothing is called so."""
        found = await self._store.trace(id)
        if found is None:
            return None
        if found.turn is not None and self._log is not None:
            wanted = Wanted(fields=(("turn", found.turn.turn),))
            entries, _ = await asyncio.to_thread(Logbook(self._log).back, wanted, _MOST_LINES)
            found = replace(found, log=tuple(entry.event for entry in reversed(entries)))
        return self._clean(found)

    def _clean(self, value: Value) -> Value:
        cleaned: Any = value
        if isinstance(value, str) and type(value) is str:
            cleaned = self._redact(value)
        elif isinstance(value, tuple):
            cleaned = tuple(self._clean(item) for item in cast("tuple[Any, ...]", value))
        elif isinstance(value, list):
            cleaned = [self._clean(item) for item in cast("list[Any]", value)]
        elif isinstance(value, dict):
            pairs = cast("dict[str, Any]", value)
            cleaned = {key: self._clean(item) for key, item in pairs.items()}
        elif is_dataclass(value) and not isinstance(value, type):
            changed: dict[str, Any] = {}
            for each in fields(value):
                before = getattr(value, each.name)
                after = self._clean(before)
                if after is not before:
                    changed[each.name] = after
            cleaned = replace(value, **changed) if changed else value
        return cleaned
