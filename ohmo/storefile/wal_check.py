"""What stands beside the store's file and tells that the file, or its log, is gone: SQLite takes
both for a beginning."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

from channels.durable import replacing
from channels.record import record

# WalIndexHdr of SQLite's wal.c, in this machine's byte order
_HEADER = struct.Struct("=IIIBBHIIIIIIII")
_FOLDED = struct.Struct("=I")  # nBackfill of WalCkptInfo, after two headers
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link to nothing"),
)


@record
class _Index:
    """``frames``: pages in the log that are committed; ``folded``: how many of them are in the file
    already."""

    frames: int
    folded: int
    salt: tuple[int, int]


def known_file(path: Path) -> Path:
    """Stands from the first store on: where it is, a missing store is a loss."""
    return path.with_name(path.name + "-known")


def remember(path: Path, life: str = "", lost: str = "") -> None:
    """``life``: a word that stands in the store's ``meta`` too while it is open; ``lost``: what a
    start has found and not yet mended. A disk that takes nothing leaves the mark as it was: a store
    that is whole opens without it."""
    known = known_file(path)
    with suppress(OSError), replacing(known) as file:
        file.write(json.dumps({"life": life, "lost": lost}).encode())
        if known.is_dir():
            clear(known)


def clear(path: Path) -> None:
    """Whatever it is."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def log_of(path: Path) -> Path:
    """Beside the file itself, also when ``path`` is a link to it."""
    real = path.resolve() if path.is_symlink() else path
    return real.with_name(real.name + "-wal")


def shared_of(path: Path) -> Path:
    log = log_of(path)
    return log.with_name(log.name.removesuffix("-wal") + "-shm")


def missing(path: Path) -> bool:
    """Neither the file nor its log is there, whatever they are."""
    return not os.path.lexists(path) and not os.path.lexists(log_of(path))


def no_file(path: Path) -> str | None:
    """What stands in the place of the store, of its log or of its index, and is no file; None:
    nothing does."""
    for part, name in (
        (path, "it"),
        (log_of(path), "its log"),
        (shared_of(path), "the index of its log"),
    ):
        with suppress(FileNotFoundError):
            mode = (part.stat() if part.exists() else part.lstat()).st_mode
            if not stat.S_ISREG(mode):
                kind = next((word for test, word in _KINDS if test(mode)), "no file")
                return f"{name} is {kind}"
    return None


def lost_log(path: Path) -> str | None:
    """What was committed and stood only in the log, which is gone or damaged since; None: nothing.
    Asked before anybody opens the store, for SQLite leaves out without a word what it cannot read
    of a log. Raises sqlite3.Error, OSError."""
    mark: Any = {}
    with suppress(OSError, ValueError):
        mark = json.loads(known_file(path).read_text(encoding="utf-8"))
    known = cast("dict[str, Any]", mark) if isinstance(mark, dict) else {}
    if known.get("lost"):
        return str(known["lost"])
    lost = _shorter(path)
    life, log = str(known.get("life", "")), log_of(path)
    if lost is None and life and not (log.exists() and log.stat().st_size):
        # that life was killed, and the log and its index are both gone
        uri = f"{path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
                row = connection.execute("SELECT value FROM meta WHERE name = 'life'").fetchone()
            if row is None or row[0] != life:
                lost = "its log is gone"
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
                raise
    if lost is not None:
        # Opening it has written its index anew: whoever comes after a kill would see nothing.
        remember(path, lost=lost)
    return lost


def _shorter(path: Path) -> str | None:
    """The index is shared memory in a file: it outlives a killed process and says how much of the
    log was committed."""
    old = _index(shared_of(path))
    if old is None or old.frames <= old.folded:
        return None
    if (salt := _salt(log_of(path))) is not None and salt != old.salt:
        # after a loss of power the index may be older than the log, which begins anew only when all
        # of it was folded
        return None
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
        try:
            # reads the log, and writes the index anew
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            return None  # a damage of the file, which the check names
        new = _index(shared_of(path))
    frames = 0 if new is None else new.frames
    if frames >= old.frames:
        return None
    if not frames:
        return "its log is gone or cannot be read"
    return f"its log ends after {frames} of {old.frames} pages that were committed"


def _index(shared: Path) -> _Index | None:
    size = 2 * _HEADER.size + _FOLDED.size
    try:
        raw = shared.read_bytes()[:size]
    except OSError:
        return None
    if len(raw) < size:
        return None
    (folded,) = _FOLDED.unpack_from(raw, 2 * _HEADER.size)
    for at in (0, _HEADER.size):
        header = _HEADER.unpack_from(raw, at)
        initialized, proof = header[3] == 1, header[12:14]
        if initialized and _sum(raw[at : at + 40]) == proof:
            return _Index(header[6], folded, (header[10], header[11]))
    return None


def _salt(log: Path) -> tuple[int, int] | None:
    """Of a log whose head is whole (SQLite's "Database File Format", "WAL Format"), in the byte
    order of the index; None: of any other."""
    try:
        with log.open("rb") as file:
            head = file.read(32)
    except OSError:
        return None
    magic = int.from_bytes(head[:4], "big")
    if len(head) < 32 or magic & ~1 != 0x377F0682:
        return None
    words = ">II" if magic & 1 else "<II"
    if _sum(head[:24], words) != struct.unpack(">II", head[24:]):
        return None
    return struct.unpack("=II", head[16:24])


def _sum(raw: bytes, words: str = "=II") -> tuple[int, int]:
    """The checksum of wal.c."""
    first = second = 0
    for left, right in struct.iter_unpack(words, raw):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second
