"""Turns the bytes of a text file into text and back without losing any of them."""

from __future__ import annotations

import codecs

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
