"""Text files: their bytes as text and back without losing any of them, and a window of a file of
any size in bounded memory (some lines, or a piece of one long line)."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from channels.record import record

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
PEEK = 8192


@record
class Coding:
    """How a file says text. Latin-1 stands in for unknown eight-bit codings: every byte
    survives."""

    name: str
    bom: bytes = b""


def coding_of(start: bytes, *, whole: bool) -> Coding | None:
    """From the first bytes; None: binary. ``whole``: the bytes are the whole file, so a cut
    character counts as wrong."""
    for bom, name in _BOMS:
        if start.startswith(bom):
            return Coding(name, bom)
    if b"\0" in start[:PEEK]:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, final=whole)
    except UnicodeDecodeError:
        return Coding("latin-1")
    return Coding("utf-8")


def decode(data: bytes) -> tuple[str, Coding] | None:
    """The text, line ends as they are. None: binary."""
    coding = coding_of(data, whole=True)
    if coding is None:
        return None
    try:
        return data[len(coding.bom) :].decode(coding.name), coding
    except UnicodeDecodeError:
        return None


def encode(text: str, coding: Coding) -> bytes:
    """Raises UnicodeEncodeError when the file's coding has no such character."""
    return coding.bom + text.encode(coding.name)


def windows_ends(text: str) -> bool:
    """Whether every line of the text ends as on Windows."""
    return "\r\n" in text and text.count("\r\n") == text.count("\n")


_CHUNK = 1 << 16
PIECE = 10_000  # characters of one long line shown at once with char_offset


@record
class Window:
    """How much of a file is shown."""

    offset: int  # first line, from 1
    limit: int  # lines
    line_chars: int  # characters shown of a line
    most: int  # characters in all


def _texts(file: BinaryIO, coding: Coding) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(coding.name)("replace")
    file.seek(len(coding.bom))
    while chunk := file.read(_CHUNK):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _lines(file: BinaryIO, coding: Coding, keep: int) -> Iterator[tuple[str, int]]:
    """Each line's first ``keep`` characters and its length."""
    start, length = "", 0
    for text in _texts(file, coding):
        pieces = text.split("\n")
        for index, piece in enumerate(pieces):
            start, length = (
                start + piece[: keep - len(start)] if len(start) < keep else start,
                length + len(piece),
            )
            if index < len(pieces) - 1:
                yield start, length
                start, length = "", 0
    if length:
        yield start, length


def read_lines(file: BinaryIO, coding: Coding, window: Window) -> str:
    """Numbered lines and, when something was left out, a last line that says how to go on. Raises
    OSError."""
    shown: list[str] = []
    used = number = 0
    for number, (start, length) in enumerate(_lines(file, coding, window.line_chars + 1), 1):
        if number < window.offset:
            continue
        line = start.rstrip("\r")
        if length > window.line_chars:
            line = (
                start[: window.line_chars]
                + f" [... {length - window.line_chars} more characters: Read with offset={number},"
                f" char_offset={window.line_chars}]"
            )
        if len(shown) >= window.limit or used + len(line) > window.most:
            return "\n".join([*shown, f"[more lines follow: Read with offset={number}]"])
        shown.append(f"{number:>6}\t{line}")
        used += len(line) + 8
    if not shown:
        return (
            f"[the file has {number} lines; offset {window.offset} is past its end]"
            if number
            else "[the file is empty]"
        )
    return "\n".join(shown)


def read_piece(file: BinaryIO, coding: Coding, line: int, start: int) -> str:
    """Characters ``start`` to ``start + PIECE`` of one line. Raises OSError."""
    number = 1
    at = 0  # characters of the line that went by
    found = ""
    more = False
    for text in _texts(file, coding):
        for index, piece in enumerate(text.split("\n")):
            if index:
                number += 1
                at = 0
            if number == line:
                begin = max(0, start - at)
                taken = piece[begin : begin + PIECE - len(found)] if begin < len(piece) else ""
                found += taken
                at += len(piece)
                more = at > start + PIECE
            elif number > line:
                break
        if number > line or more:
            break
    if not found:
        return f"[line {line} has no character {start}]"
    if not more:
        return f"{found}\n[end of line]"
    after = start + len(found)
    return f"{found}\n[the line goes on: Read with offset={line}, char_offset={after}]"
