"""Backups: one verified archive of a home, made while the daemon works, and taken back as a
whole."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import sqlite3
import stat
import tarfile
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from channels.durable import settle, take_place
from channels.record import record
from ohmo.contracts.errors import StoreError
from ohmo.database.migrations import NewerSchema
from ohmo.storefile.inspection import PASSING, counts, problem, reading, version
from ohmo.storefile.lock import is_held, staging_dir, sweep

FORMAT = 1
DATABASE = "ohmo.db"
MANIFEST = "manifest.json"
FILES = ("config.yaml", ".env", "SOUL.md", "USER.md", "AGENTS.md", "hooks.yaml", "keybindings.yaml")
FOLDERS = (
    "memory",
    "skills",
    "agents",
    "plugins",
    "recipes",
    "state",  # cursors of channels, keys of Matrix devices
)
MEDIA = "media"
_NAME, _STAMP, _SUFFIX = "ohmo-", "%Y%m%dT%H%M%SZ", ".tar.gz"
_SQLITE = b"SQLite format 3\0"
_CHUNK = 1 << 20
_LIST = 64 << 20  # bytes of the list of what an archive holds
# bytes of an extended header (POSIX pax), which the reader takes into memory whole
_EXTENDED = 64 << 10
_NAMES = 128 << 20  # bytes of all names together
_MEMBER = 128  # bytes each member counts for beside its name: half a million of them are enough


class BackupError(StoreError):
    """A backup could not be made or taken back."""


@record
class Backup:
    path: Path
    made: datetime


@record
class Made:
    """What a backup holds. ``rows``: of the store, by table; empty when the store is not a file."""

    path: Path
    files: int
    rows: Mapping[str, int]
    size: int  # bytes of the archive


def backups(folder: Path, now: datetime | None = None) -> list[Backup]:
    """Those in ``folder``, oldest first. Whatever bears a backup's name was verified before it got
    it. One dated later than ``now`` was made while the clock stood wrong: nobody knows when, so it
    comes before all others."""
    dated: list[tuple[bool, datetime, int, Backup]] = []
    paths = folder.glob(f"{_NAME}*{_SUFFIX}") if folder.is_dir() else ()
    for path in paths:
        stamp, _, number = path.name.removeprefix(_NAME).removesuffix(_SUFFIX).partition("-")
        with suppress(ValueError):
            if not path.is_file():  # a named pipe would hold up whoever opens it
                continue
            made = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
            order = int(number) if number.isdecimal() else 1
            known = now is None or made <= now
            dated.append((known, made, order, Backup(path, made)))
    dated.sort(key=lambda entry: entry[:3])
    return [backup for *_, backup in dated]


def prune(folder: Path, keep: int, now: datetime | None = None) -> list[Path]:
    """All but the newest ``keep`` go. Returns what went."""
    old = backups(folder, now)[:-keep] if keep > 0 else []
    for backup in old:
        backup.path.unlink(missing_ok=True)
    return [backup.path for backup in old]


def make_backup(
    home: Path,
    database: Path | None,
    target: Path,
    now: datetime,
    *,
    media: bool = False,
    ohmo: str = "",
) -> Made:
    """Blocking; the daemon may go on writing. ``target``: a folder, or the archive's own path.
    ``database`` None: the store is elsewhere and not in it. Made while nobody owned the home, it
    says ``at_rest``: nothing was half done.

    The archive gets its name only after it was unpacked and compared. Raises BackupError (disk,
    damaged store); nothing is left behind then."""
    path = target
    if target.is_dir() or not target.name.endswith(_SUFFIX):
        stem = f"{_NAME}{now.astimezone(UTC):{_STAMP}}"
        path = target / f"{stem}{_SUFFIX}"
        number = 2
        while path.exists():
            path = target / f"{stem}-{number}{_SUFFIX}"
            number += 1
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(path.parent)
        with staging_dir(path.parent) as folder:
            return _make(home, database, path, now, folder, media=media, ohmo=ohmo)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:  # it is only read: the copy found no room
            raise BackupError(
                f"{path.parent}: there is no room for a backup; name a folder on another disk"
                " (backups.folder, or ohmo backup PATH)"
            ) from error
        raise BackupError(
            f"{database}: cannot be copied ({error}); ohmo store check tells what is wrong"
        ) from error
    except (OSError, tarfile.TarError) as error:
        why = getattr(error, "strerror", None) or error
        raise BackupError(f"{path}: cannot be written ({why})") from error


def _make(
    home: Path,
    database: Path | None,
    path: Path,
    now: datetime,
    work: Path,
    *,
    media: bool,
    ohmo: str,
) -> Made:
    stage = work / "stage"
    stage.mkdir()
    rows: dict[str, int] = {}
    at_rest = not is_held(home / "lock", unclear=True)
    if database is not None and database.exists():
        with closing(reading(database)) as source:
            source.execute(PASSING)  # the copy is written with as much
            source.execute("VACUUM INTO ?", (str(stage / DATABASE),))
        with closing(reading(stage / DATABASE)) as copy:
            rows = counts(copy)
    names = (*FILES, *FOLDERS, MEDIA) if media else (*FILES, *FOLDERS)
    for name in names:
        _take(home / name, stage / name)
    sums: dict[str, dict[str, Any]] = {}
    for file in sorted(stage.rglob("*")):
        if file.is_file():
            sums[str(file.relative_to(stage))] = _entry(file)
    at_rest = at_rest and not is_held(home / "lock", unclear=True)
    manifest = {
        "format": FORMAT,
        "made": now.isoformat(),
        "ohmo": ohmo,
        "media": media,
        "at_rest": at_rest,
        "rows": rows,
        "files": sums,
    }
    (stage / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
    draft = work / "draft"
    with draft.open("wb") as raw:
        os.fchmod(raw.fileno(), 0o600)
        with (
            gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            tar.add(stage / MANIFEST, MANIFEST)  # the first
            for name in sorted(entry.name for entry in stage.iterdir() if entry.name != MANIFEST):
                tar.add(stage / name, name)
        settle(raw)
    shutil.rmtree(stage)
    if (wrong := wrong_with(draft)) is not None:
        raise BackupError(f"{path}: the copy is not what was copied ({wrong}); is the disk sound?")
    draft.chmod(0o600)
    take_place(draft, path)
    return Made(path, len(sums), rows, path.stat().st_size)


def _take(source: Path, target: Path) -> None:
    """Files and folders; links, sockets and half-written files stay. An SQLite file (a device's
    keys) is copied as a database."""
    if source.is_symlink() or not source.exists():
        return
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for entry in sorted(source.iterdir()):
            _take(entry, target / entry.name)
    elif source.is_file() and not source.name.endswith(("-wal", "-shm", "-journal")):
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as file:
            is_database = file.read(16) == _SQLITE
        if is_database:
            with closing(reading(source)) as old:
                old.execute("VACUUM INTO ?", (str(target),))
        else:
            with suppress(FileNotFoundError):  # gone since it was listed
                shutil.copyfile(source, target)
        if target.exists():
            mode = stat.S_IMODE(source.stat().st_mode) if source.exists() else 0o600
            target.chmod(mode)


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
            "size": path.stat().st_size,
        }


def wrong_with(path: Path) -> str | None:
    """Unpacks an archive aside and compares it with its own list; None: it can be taken back.
    Raises nothing: what cannot be read is wrong."""
    try:
        with staging_dir(path.parent) as folder:
            unpack(path, folder)
    except BackupError as error:
        return str(error)
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        return f"it cannot be unpacked ({why})"
    return None


def unpack(path: Path, folder: Path) -> Mapping[str, int]:
    """Everything of the archive into the empty ``folder``, compared with its list; returns the rows
    of its store. Raises BackupError, OSError."""
    manifest = _extract(path, folder)
    files = cast("dict[str, dict[str, Any]]", manifest["files"])
    paths = [path for path in folder.rglob("*") if path.is_file()]
    present = {str(path.relative_to(folder)) for path in paths}
    present.discard(MANIFEST)
    for name in sorted(files.keys() - present):
        raise BackupError(f"{name} is missing")
    for name in sorted(present - files.keys()):
        raise BackupError(f"{name} is not on its list")
    for name, entry in files.items():
        if _entry(folder / name) != entry:
            raise BackupError(f"{name} is not what was backed up")
    rows = cast("dict[str, int]", manifest["rows"])
    if DATABASE not in files:
        return rows
    database = folder / DATABASE
    try:
        if (wrong := problem(database)) is not None:
            raise BackupError(f"its store is damaged ({wrong})")
        version(database)
    except NewerSchema as error:
        raise BackupError(error.reason) from error
    with closing(reading(database)) as copy:
        if counts(copy) != rows:
            raise BackupError("its store has other rows than were counted")
    return rows


def _extract(path: Path, folder: Path) -> dict[str, Any]:
    """Returns the list of what it holds. Raises BackupError also for what we never write: an
    archive may come from anywhere."""
    if path.exists() and not path.is_file():
        raise BackupError("it is no file")
    try:
        with path.open("rb") as raw, gzip.open(raw) as packed:
            _look_through(cast("BinaryIO", packed), shutil.disk_usage(folder).free)
        with (
            path.open("rb") as raw,
            gzip.open(raw) as packed,
            tarfile.open(fileobj=cast("BinaryIO", packed), mode="r|") as tar,
        ):
            roots = {MANIFEST, DATABASE, *FILES, *FOLDERS, MEDIA}
            seen = set[str]()
            for member in tar:
                parts = PurePosixPath(member.name).parts
                known = bool(parts) and parts[0] in roots and ".." not in parts
                plain = (member.isfile() or member.isdir()) and not member.issparse()
                if not known or not plain or member.name in seen:
                    raise BackupError(f"it holds {member.name!r}, which no backup of ohmo holds")
                seen.add(member.name)
                cast("Any", tar).members.clear()  # else it keeps all of them in memory
                tar.extract(member, folder, filter="data")
        written: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if error.filename == str(path):
            raise BackupError("no such file") from error
        raise BackupError("it has no list of what it holds") from error
    except (
        tarfile.TarError,
        EOFError,
        gzip.BadGzipFile,
        ValueError,
        RecursionError,
        OSError,
    ) as error:
        why = str(error) or type(error).__name__
        raise BackupError(f"{path.name} is no whole backup ({why})") from error
    manifest = cast("dict[str, Any]", written) if isinstance(written, dict) else {}
    for part in ("files", "rows"):
        if not isinstance(manifest.get(part), dict):
            raise BackupError("its list of what it holds cannot be read")
    if manifest.get("format") != FORMAT:
        raise BackupError(
            f"it has format {manifest.get('format')}, this ohmo knows {FORMAT}: take it back with"
            " the ohmo that made it"
        )
    return manifest


def _look_through(packed: BinaryIO, room: int) -> None:
    """Before anything of an archive is read as one: that it cannot fill the memory or the disk,
    however small it is packed. ``room``: bytes it may become. Header by header (POSIX pax, "ustar
    Interchange Format" and "pax Extended Header"). Raises BackupError, tarfile.TarError,
    ValueError."""
    names = _NAMES
    header: dict[bytes, bytes] = {}  # what an extended one says of the member after it
    while (block := packed.read(tarfile.BLOCKSIZE)).strip(b"\0"):
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        extended = member.type == tarfile.XHDTYPE and not header
        if not (extended or member.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE)):
            raise BackupError(f"it holds {member.name!r}, which no backup of ohmo holds")
        size = int(header.get(b"size", member.size))
        name = header.get(b"path", member.name.encode("utf-8", "surrogateescape"))
        names -= size if extended else len(name) + _MEMBER
        if (
            size < 0
            or names < 0
            or (extended and size > _EXTENDED)
            or (name == MANIFEST.encode() and size > _LIST)
        ):
            raise BackupError("it names more than any backup of ohmo does")
        padded = size + -size % tarfile.BLOCKSIZE
        if extended:
            header = {b"": b""}  # one extended header never follows another
            records = packed.read(padded)[:size]
            while records:  # ``LENGTH KEY=VALUE\n`` each
                length = int(records.partition(b" ")[0])
                record = records[:length].partition(b" ")[2].removesuffix(b"\n")
                key, _, value = record.partition(b"=")
                if length < 5 or key.startswith(b"GNU.sparse"):
                    raise BackupError("it holds a file with holes, which no backup of ohmo holds")
                header[key] = value
                records = records[length:]
            continue
        header = {}
        room -= size
        if room < 0:
            raise BackupError("unpacked it is larger than the free space of the disk")
        while padded and (read := packed.read(min(padded, _CHUNK))):
            padded -= len(read)
