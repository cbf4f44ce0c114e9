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

_HEADER = struct.Struct(
    "=IIIBBHIIIIIIII"
)  # WalIndexHdr of SQLite's wal.c, in this machine's byte order
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
                return f"{name} is {next((word for test, word in _KINDS if test(mode)), 'no file')}"
    return None


def lost_log(path: Path) -> str | None:
    """What was committed and stood only in the log, which is gone or damaged since; None: nothing.
    Asked before anybody opens the store, for SQLite leaves out without a word what it cannot read
    of a log. Raises sqlite3.Error, OSError."""
    told = _known(path)
    if told.get("lost"):
        return str(told["lost"])
    wrong = _shorter(path) or _never_there(path, str(told.get("life", "")))
    if wrong is not None:
        # Opening it has written its index anew: whoever comes after a kill would see nothing.
        remember(path, lost=wrong)
    return wrong


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
    with closing(
        sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)
    ) as connection:
        try:
            connection.execute(
                "SELECT COUNT(*) FROM sqlite_master"
            ).fetchone()  # reads the log, and writes the index anew
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            return None  # a damage of the file, which the check names
        new = _index(shared_of(path))
    frames = 0 if new is None else new.frames
    if frames >= old.frames:
        return None
    return (
        f"its log ends after {frames} of {old.frames} pages that were committed"
        if frames
        else "its log is gone or cannot be read"
    )


def _never_there(path: Path, life: str) -> str | None:
    """For a life that was killed and whose log and index are both gone."""
    log = log_of(path)
    if not life or (log.exists() and log.stat().st_size):
        return None
    try:
        with closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)
        ) as connection:
            found = connection.execute("SELECT value FROM meta WHERE name = 'life'").fetchone()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error):
            raise
        return None
    return None if found is not None and found[0] == life else "its log is gone"


def _known(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(known_file(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


def _index(shared: Path) -> _Index | None:
    try:
        raw = shared.read_bytes()[: 2 * _HEADER.size + _FOLDED.size]
    except OSError:
        return None
    if len(raw) < 2 * _HEADER.size + _FOLDED.size:
        return None
    for at in (0, _HEADER.size):
        found = _HEADER.unpack_from(raw, at)
        if found[3] == 1 and _sum(raw[at : at + 40]) == found[12:14]:
            return _Index(
                found[6], _FOLDED.unpack_from(raw, 2 * _HEADER.size)[0], (found[10], found[11])
            )
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
    if (
        len(head) < 32
        or magic & ~1 != 0x377F0682
        or _sum(head[:24], ">II" if magic & 1 else "<II") != struct.unpack(">II", head[24:])
    ):
        return None
    return struct.unpack("=II", head[16:24])


def _sum(raw: bytes, words: str = "=II") -> tuple[int, int]:
    """The checksum of wal.c."""
    one = two = 0
    for left, right in struct.iter_unpack(words, raw):
        one = (one + left + two) & 0xFFFFFFFF
        two = (two + right + one) & 0xFFFFFFFF
    return one, two
