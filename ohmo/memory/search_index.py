"""The index of all notes, an SQLite file in the cache that may be thrown away at any time: what it
does not know of the files it reads before it answers."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import structlog

from channels.record import record
from ohmo.memory.files import NoteFiles, Stamp
from ohmo.memory.folding import fold, question
from ohmo.memory.notes import NotRemembered

log = structlog.get_logger("ohmo.memory")
FORMAT = 1  # another one: made anew
FRESH = 1.0  # seconds at least that a look at files counts, unless a name came or went
SLOW = 0.02  # seconds of a look beyond which no search waits for one
_BUSY = 0.5  # seconds another process may hold the file; then an index in memory serves
_NOTES = """
    CREATE TABLE notes (
        id INTEGER PRIMARY KEY,
        folder TEXT NOT NULL,
        name TEXT NOT NULL,
        mtime INTEGER NOT NULL,
        size INTEGER NOT NULL,
        problem TEXT NOT NULL,
        UNIQUE (folder, name)
    )
"""
_SCHEMA = (
    _NOTES,
    "CREATE VIRTUAL TABLE words USING fts5(head, body, tokenize='porter unicode61')",
    f"PRAGMA user_version = {FORMAT}",
)
_FOUND = """
    SELECT folder, name
    FROM words JOIN notes ON notes.id = words.rowid
    WHERE words MATCH ? AND folder IN (SELECT value FROM json_each(?))
    ORDER BY bm25(words, 2.0, 1.0), mtime DESC
    LIMIT ?
"""
_PROBLEMS = """
    SELECT folder, name, problem
    FROM notes
    WHERE problem != '' AND folder IN (SELECT value FROM json_each(?))
    ORDER BY folder, name
    LIMIT 100
"""


@record
class _Look:
    """At the files of a folder."""

    again: float  # when the next one is due, monotonic seconds
    changed: int  # when a name had come or gone last
    took: float  # seconds
    stamps: Mapping[str, Stamp]


@record
class Spot:
    folder: str
    name: str


class SearchIndex:
    """Blocks; one caller at a time."""

    def __init__(self, path: Path, files: NoteFiles, slow: float = SLOW) -> None:
        self._path = path
        self._files = files
        self._slow = slow
        self._database: sqlite3.Connection | None = None
        self._looked: dict[str, _Look] = {}
        self.stale: set[str] = set()  # folders that should be looked through, when nobody waits

    def search(
        self, folders: Sequence[str], words: str, limit: int, *, loose: bool = True
    ) -> list[Spot]:
        """The best first; words of title, description and aliases count twice, of two as good the
        newer goes first."""
        wanted = question(words, loose=loose)
        if not wanted:
            return []
        rows = self._ask(folders, _FOUND, (wanted, json.dumps(folders), limit))
        return [Spot(str(folder), str(name)) for folder, name in rows]

    def problems(self, folders: Sequence[str]) -> list[tuple[Spot, str]]:
        """What of the files cannot be read as it should, and why."""
        rows = self._ask(folders, _PROBLEMS, (json.dumps(folders),))
        return [(Spot(str(folder), str(name)), str(why)) for folder, name, why in rows]

    def refresh(self, folder: str) -> None:
        """Looks through its files: somebody may have edited one in place."""
        self.stale.discard(folder)
        self._ask((folder,), "SELECT 1", (), thorough=True)

    @contextmanager
    def changing(self, folder: str, names: Collection[str]) -> Generator[None]:
        """What is written or removed in the block are the notes of these names. Where nobody else
        has changed something before, only they are read again."""
        last = self._looked.get(folder)
        known = last is not None and last.changed == self._files.changed(folder)
        yield
        stamps = {name: self._files.stamp(folder, name) for name in names}
        if last is not None and known and self._database is not None:
            there = {**last.stamps, **{name: at for name, at in stamps.items() if at is not None}}
            for name, at in stamps.items():
                if at is None:
                    there.pop(name, None)
            try:
                self._renew(self._database, folder, names, there)
            except sqlite3.DatabaseError as error:
                self._anew(error)
            else:
                self._looked[folder] = replace(
                    last, changed=self._files.changed(folder), stamps=there
                )
                return
        self.refresh(folder)

    def _renew(
        self,
        database: sqlite3.Connection,
        folder: str,
        names: Collection[str] | None,
        stamps: Mapping[str, Stamp],
    ) -> None:
        """``names``: which rows are not true any more; None: those that are found not to be."""
        database.execute("BEGIN IMMEDIATE")  # nobody else writes now
        try:
            gone, fresh = _differing(database, folder, stamps, names)
            for number in gone:
                database.execute("DELETE FROM words WHERE rowid = ?", (number,))
                database.execute("DELETE FROM notes WHERE id = ?", (number,))
            for name in fresh:
                self._read(database, Spot(folder, name), stamps[name])
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _ask(
        self,
        folders: Sequence[str],
        asked: str,
        values: tuple[str | int, ...],
        *,
        thorough: bool = False,
    ) -> list[tuple[object, ...]]:
        for _ in range(2):
            try:
                database = self._open()
                for folder in folders:
                    self._follow(database, folder, thorough=thorough)
                return database.execute(asked, values).fetchall()
            except sqlite3.DatabaseError as error:
                self._anew(error)
        database = self._in_memory()
        for folder in folders:
            self._follow(database, folder, thorough=thorough)
        return database.execute(asked, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            database = _connected(self._path)
            self._database = database
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")  # it can be made anew
            [version] = database.execute("PRAGMA user_version").fetchone()
            tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if version != FORMAT and tables:
                raise sqlite3.DatabaseError("it is of another version of ohmo")
            if not tables:
                self._furnish(database)
            database.execute("SELECT count(*) FROM words WHERE words MATCH 'a'").fetchone()
            self._looked = {}
        return self._database

    @staticmethod
    def _furnish(database: sqlite3.Connection) -> None:
        database.execute("BEGIN IMMEDIATE")
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA:
                database.execute(statement)
        database.execute("COMMIT")

    def _anew(self, error: sqlite3.DatabaseError) -> None:
        self.close()
        if isinstance(error, sqlite3.OperationalError) and _is_held(error):
            self._in_memory(error)
            return
        log.warning("memory_index_made_anew", path=str(self._path), why=str(error))
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def _in_memory(self, error: sqlite3.DatabaseError | None = None) -> sqlite3.Connection:
        """For the life of this process: where the file cannot be used, the notes can."""
        log.warning("memory_index_in_memory", path=str(self._path), why=str(error or "no file"))
        self.close()
        self._database = _connected(":memory:")
        self._furnish(self._database)
        self._looked = {}
        return self._database

    def _follow(self, database: sqlite3.Connection, folder: str, *, thorough: bool) -> None:
        """What was written, edited or removed since the last look."""
        changed = self._files.changed(folder)
        now = time.monotonic()
        last = self._looked.get(folder)
        if last is not None and last.changed == changed and not thorough:
            if now < last.again:
                return
            if last.took > self._slow:  # nobody who searches waits for it
                self.stale.add(folder)
                return
        stamps = self._files.stamps(folder)
        took = time.monotonic() - now
        # of many files it takes one hundredth of the time at most
        look = _Look(now + max(FRESH, 100 * took), changed, took, stamps)
        if last is not None and stamps == last.stamps:
            self._looked[folder] = look
            return
        if any(_differing(database, folder, stamps)):
            self._renew(database, folder, None, stamps)
        self._looked[folder] = look

    def _read(self, database: sqlite3.Connection, spot: Spot, stamp: Stamp) -> None:
        head, body, problem = fold(spot.name), "", ""
        try:
            note, problem = self._files.note(spot.folder, spot.name)
            head, body = fold(note.head), fold(note.text)
        except NotRemembered as error:
            problem = str(error)
        if problem:
            log.warning("memory_note_broken", folder=spot.folder, note=spot.name, why=problem)
        row = (spot.folder, spot.name, *stamp, problem)
        number = database.execute(
            "INSERT INTO notes (folder, name, mtime, size, problem) VALUES (?, ?, ?, ?, ?)", row
        ).lastrowid
        values = (number, head, body)
        database.execute("INSERT INTO words (rowid, head, body) VALUES (?, ?, ?)", values)


def _differing(
    database: sqlite3.Connection,
    folder: str,
    stamps: Mapping[str, Stamp],
    names: Collection[str] | None = None,
) -> tuple[list[int], list[str]]:
    """Rows that are not true any more, and notes that have none. ``names``: look only at these."""
    asked = "SELECT id, name, mtime, size FROM notes WHERE folder = ?"
    fresh = dict.fromkeys(stamps)
    values = [folder]
    if names is not None:
        asked += " AND name IN (SELECT value FROM json_each(?))"
        fresh = dict.fromkeys(name for name in names if name in stamps)
        values.append(json.dumps(list(names)))
    gone: list[int] = []
    for number, name, mtime, size in database.execute(asked, values).fetchall():
        if stamps.get(name) == (mtime, size):
            fresh.pop(name)
        else:
            gone.append(number)
    return gone, list(fresh)


def _connected(path: Path | str) -> sqlite3.Connection:
    # the caller's lock lets one thread at a time come here
    return sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)


def _is_held(error: sqlite3.OperationalError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
    )
