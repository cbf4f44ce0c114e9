"""The log of this home for people who look at it in a page: backwards in pages, forwards as it grows, over rotations.

A place in the log is ``INODE-OFFSET`` in hexadecimal: a file keeps its inode when it is rotated, so a reader finds its place again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from channels.record import record

_BLOCK = 64 * 1024
_SCANNED = 16 * 1024 * 1024  # bytes one question looks through at most
_FORWARD = 1024 * 1024  # bytes of news at a time
_PLACE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,15})")
RANKS = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}


@record
class Wanted:
    """``level``: at least so grave. ``words``: all of them stand somewhere in the line, in any case. ``fields``: equal to these."""

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
            found: Any = json.loads(text)
        except ValueError:
            return None
        if not isinstance(found, dict) or RANKS.get(str(found.get("level")), 1) < RANKS[self.level]:  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            return None
        return found if all(str(found.get(name)) == value for name, value in self.fields) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]


@record
class Entry:
    """One event, where it stands, and where the next one begins (told when reading forward)."""

    place: str
    end: str
    event: dict[str, Any]


@record
class News:
    """``whole`` False: the place was not found any more (many rotations ago), so something between is missing."""

    entries: tuple[Entry, ...]
    place: str
    whole: bool


class Logbook:
    """Blocking; called in a thread. Raises OSError only for a disk that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def back(self, wanted: Wanted, limit: int, before: str | None = None) -> tuple[list[Entry], str | None]:
        """At most ``limit`` wanted events before a place (None: the end), newest first, and the place to go on from; None: that was all."""
        found: list[Entry] = []
        scanned = 0
        for place, line in self._backwards(before):
            scanned += len(line)
            if (event := wanted.event(line)) is not None:
                found.append(Entry(place, "", event))
            if len(found) >= limit or scanned > _SCANNED:
                return found, place
        return found, None

    def end(self) -> str:
        """The place behind the newest whole line."""
        for path in self._files()[:1]:
            with path.open("rb") as file:
                size = _whole(file.fileno())
                return _place(os.fstat(file.fileno()).st_ino, size)
        return ""

    def forward(self, wanted: Wanted, since: str) -> News:
        """What was written behind a place; "": from the beginning of the newest file."""
        files = self._files()[::-1]  # oldest first
        inode, offset = _read(since)
        numbers = [path.stat().st_ino for path in files]
        whole = not since or inode in numbers
        entries: list[Entry] = []
        place = since
        for path, number in list(zip(files, numbers, strict=True))[numbers.index(inode) if inode in numbers else -1 :]:
            with path.open("rb") as file:
                start = offset if number == inode else 0
                file.seek(start)
                data = file.read(_FORWARD)
                body = data[: data.rfind(b"\n") + 1]
                for line in body.splitlines(keepends=True):
                    here, start = start, start + len(line)
                    if (event := wanted.event(line)) is not None:
                        entries.append(Entry(_place(number, here), _place(number, start), event))
                place = _place(number, start)
                if len(data) == _FORWARD:
                    break  # the rest at the next look
        return News(tuple(entries), place, whole)

    def _files(self) -> list[Path]:
        """Newest first."""
        numbered = [(int(path.suffix[1:]), path) for path in self._path.parent.glob(f"{self._path.name}.*") if path.suffix[1:].isdigit()]
        return [path for path in (self._path, *(path for _, path in sorted(numbered))) if path.exists()]

    def _backwards(self, before: str | None) -> Iterator[tuple[str, bytes]]:
        inode, offset = _read(before or "")
        passed = before is None
        for path in self._files():
            with path.open("rb") as file:
                number = os.fstat(file.fileno()).st_ino
                if not passed and number != inode:
                    continue
                position = offset if not passed else _whole(file.fileno())
                passed = True
                for start, line in _lines_before(file.fileno(), position):
                    yield _place(number, start), line


def _lines_before(handle: int, position: int) -> Iterator[tuple[int, bytes]]:
    """Start and bytes of each line that ends before a position, the last one first."""
    rest = b""
    while position > 0:
        size = min(_BLOCK, position)
        position -= size
        rest = os.pread(handle, size, position) + rest
        lines = rest.splitlines(keepends=True)
        first = 0 if position == 0 else 1  # its beginning lies further back
        start = position + len(rest)
        for line in reversed(lines[first:]):
            start -= len(line)
            yield start, line
        rest = lines[0] if first and lines else b""


def _whole(handle: int) -> int:
    """Bytes up to the end of the last whole line."""
    size = os.fstat(handle).st_size
    back = min(size, _BLOCK)
    tail = os.pread(handle, back, size - back)
    return size - back + tail.rfind(b"\n") + 1


def _place(inode: int, offset: int) -> str:
    return f"{inode:x}-{offset:x}"


def _read(place: str) -> tuple[int, int]:
    found = _PLACE.fullmatch(place)
    return (int(found[1], 16), int(found[2], 16)) if found else (0, 0)


def is_place(text: str) -> bool:
    """Could this be a place?"""
    return _PLACE.fullmatch(text) is not None
