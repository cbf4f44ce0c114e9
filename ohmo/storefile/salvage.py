"""Carrying over what can still be read from a damaged store."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from ohmo.database.migrations import TABLES
from ohmo.storefile.archive import DATABASE, BackupError, backups, unpack
from ohmo.storefile.restore_reconcile import reconcile
from ohmo.storefile.staging_dir import staging_dir

# What points at something that could not be read would break every later write; what ran must be
# looked at again.
_REPAIRS = (
    # a lease that could not be read begins anew; its cursors must not fence it off
    "UPDATE cursors SET generation = 0",
    *(
        f"DELETE FROM {table} WHERE thread NOT IN (SELECT thread FROM threads)"
        for table in ("inbox", "turns", "steps", "outbox", "approvals")
    ),
    """UPDATE outbox SET target = NULL WHERE target IS NOT NULL AND target NOT IN (SELECT id
    FROM outbox)""",
    """UPDATE inbox SET state = 'waiting', turn = NULL WHERE state = 'taken'
    AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = inbox.turn
    AND u.state IN ('running','parked'))""",
    """UPDATE turns SET state = 'running' WHERE state = 'parked'
    AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.turn = turns.turn AND a.state = 'asked')""",
    """UPDATE turns SET state = 'failed', ended = :now, reason = 'its arrivals could not be read'
    WHERE state IN ('running','parked')
    AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.turn = turns.turn AND i.state = 'taken')""",
    """UPDATE approvals SET state = 'void' WHERE state IN ('queued','asked')
    AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = approvals.turn AND u.state = 'parked')""",
    """UPDATE threads SET owner = NULL, until = 0, generation = generation + 1,
    parked = EXISTS (SELECT 1 FROM turns u WHERE u.thread = threads.thread AND u.state = 'parked'),
    next_seq = MAX(next_seq, 1 + MAX(
      COALESCE((SELECT MAX(seq) FROM inbox
      WHERE thread = threads.thread), 0), COALESCE((SELECT MAX(seq) FROM steps
      WHERE thread = threads.thread), 0),
      COALESCE((SELECT MAX(seq) FROM outbox WHERE thread = threads.thread), 0),
      COALESCE((SELECT MAX(seq) FROM approvals WHERE thread = threads.thread), 0)))""",
    """UPDATE threads SET ready_at = CASE WHEN parked = 1 THEN NULL
    WHEN EXISTS (SELECT 1 FROM turns u WHERE u.thread = threads.thread AND u.state = 'running')
    THEN :now
    WHEN EXISTS (SELECT 1 FROM inbox i WHERE i.thread = threads.thread AND i.state = 'waiting'
    AND i.kind IN ('message','wake')) THEN :now END""",
)


def salvage(damaged: Path, store: Path, now: int) -> dict[str, int]:
    """Rows carried over per table from ``damaged`` (left as it is) into the new, empty
    ``store``."""
    with staging_dir(store.parent) as folder:
        copy = folder / damaged.name
        for part in damaged.parent.iterdir():
            if part.name in (damaged.name, damaged.name + "-wal") and part.is_file():
                shutil.copy(part, copy.with_name(part.name))
        return carry_over(copy, store, now) if copy.exists() else {}


def carry_over(copy: Path, store: Path, now: int) -> dict[str, int]:
    """Rows of ``copy``, a file that may be written to, that ``store`` does not have yet; then what
    points nowhere is repaired."""
    saved: dict[str, int] = {}
    with (
        closing(sqlite3.connect(copy)) as old,
        closing(sqlite3.connect(store, isolation_level=None)) as new,
    ):
        old.text_factory = _text
        new.execute("PRAGMA synchronous = FULL")
        new.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            if count := sum(_keep(new, table, columns, row) for columns, row in _rows(old, table)):
                saved[table] = count
        for repair in _REPAIRS:
            new.execute(repair, {"now": now} if ":now" in repair else {})
        new.execute("COMMIT")
    return saved


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _keep(
    new: sqlite3.Connection, table: str, columns: tuple[str, ...], row: tuple[object, ...]
) -> bool:
    marks = ", ".join("?" * len(columns))
    try:
        # names come from the schema of the file and must be columns here, otherwise the statement
        # fails and the row is left
        return (
            new.execute(
                f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})", row
            ).rowcount
            > 0
        )
    except sqlite3.Error:
        return False


def _rows(
    old: sqlite3.Connection, table: str
) -> Iterator[tuple[tuple[str, ...], tuple[object, ...]]]:
    """From both ends towards the damage, and past it by looking up the numbers between."""
    for query in (
        f"SELECT * FROM {table}",
        f"SELECT * FROM {table} NOT INDEXED ORDER BY rowid DESC",
        f"SELECT * FROM {table} ORDER BY 1 DESC",
    ):
        try:
            cursor = old.execute(query)
            columns = tuple(str(part[0]) for part in cursor.description)
            while (row := cursor.fetchone()) is not None:
                yield columns, row
            return
        except (sqlite3.Error, UnicodeDecodeError):  # also the name of a column may be damaged
            continue


def fill_in(folder: Path, store: Path, now: int) -> tuple[int, datetime | None]:
    """Rows that came from the newest whole backup in ``folder``, and when it was made; (0, None):
    there is none. ``now``: ms."""
    for one in reversed(backups(folder, datetime.fromtimestamp(now / 1_000, UTC))):
        with staging_dir(store.parent) as work:
            try:
                unpack(one.path, work)
            except (BackupError, OSError, sqlite3.Error):
                continue  # an older one may be whole
            copy = work / DATABASE
            if not copy.exists():
                continue
            reconcile(copy, now)
            return sum(carry_over(copy, store, now).values()), one.made
    return 0, None
