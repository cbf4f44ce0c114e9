"""Copies a whole store, row by row, between a file and PostgreSQL."""

# ruff: noqa: S608  # statements are put together from names of our own schema, values are always
# bound

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, cast

from ohmo.ambient import Failpoint, inert
from ohmo.contracts.errors import StoreError
from ohmo.database.migrations import MIGRATIONS, TABLES, newest
from ohmo.storefile.inspection import problem_of, reading
from ohmo.storefile.recovery import create, into_place

_SQLITE = "sqlite:///"
BATCH = 500  # rows that are in memory at once
Row = tuple[Any, ...]


class End(Protocol):
    """One side of a move. ``insert`` is part of one transaction that ``finish`` commits."""

    def columns(self, table: str) -> tuple[str, ...]: ...
    def rows(self, table: str, columns: Sequence[str], batch: int) -> Iterator[list[Row]]: ...
    def count(self, table: str) -> int: ...
    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


def transfer(source: str, target: str, failpoint: Failpoint = inert) -> Mapping[str, int]:
    """Rows by table. One transaction at the target: it holds everything or stays as it was. Raises
    StoreError; the source is only read."""
    if source == target:
        raise StoreError(f"{target}: this is where the store is already")
    with ExitStack() as stack:
        there = _open(target, writing=True)
        stack.callback(there.close)
        here = _open(source, writing=False)
        stack.callback(here.close)
        for table in TABLES:
            if there.count(table):
                raise StoreError(
                    f"{_plain(target)}: table {table} holds rows already; name an empty database,"
                    " or a file that does not exist"
                )
        columns = {table: here.columns(table) for table in TABLES}
        tables = [table for table in TABLES if columns[table]]  # an older source has fewer
        for table in tables:
            for rows in here.rows(table, columns[table], BATCH):
                there.insert(table, columns[table], rows)
                failpoint("move.step")
        moved = {table: here.count(table) for table in tables}
        for table, count in moved.items():
            copied = there.count(table)
            if copied != count:
                raise StoreError(
                    f"{_plain(target)}: table {table} has {copied} rows after the copy, not"
                    f" {count}; nothing was kept there"
                )
        there.finish()
    return moved


def _open(url: str, *, writing: bool) -> End:
    if url.startswith(_SQLITE):
        return _File(Path(url.removeprefix(_SQLITE)), writing=writing)
    if url.startswith(("postgresql://", "postgres://")):
        try:
            driver = importlib.import_module("ohmo.database.postgres")
        except ImportError as error:
            raise StoreError("PostgreSQL needs asyncpg: pip install 'ohmo[postgres]'") from error
        return cast("Callable[[str], End]", driver.Server)(url)
    raise StoreError(f"{_plain(url)}: expected sqlite:////path/ohmo.db or postgresql://…")


def _plain(url: str) -> str:
    head, at, host = url.rpartition("@")
    scheme = head.partition("://")[0]
    return f"{scheme}://…@{host}" if at else url


class _File:
    """Written under another name, which it gives up when it is whole: nobody begins with half a
    store that a kill left."""

    def __init__(self, path: Path, *, writing: bool) -> None:
        self._path = path
        self._draft = path.with_name(f"{path.name}.moving")
        try:
            if writing:
                if path.exists():
                    raise StoreError(f"{path}: exists already; name a file that does not")
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._clear()
                create(self._draft, inert, MIGRATIONS)
                self._connection = sqlite3.connect(self._draft, isolation_level=None)
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute("BEGIN IMMEDIATE")
            else:
                if (wrong := problem_of(path, newest(MIGRATIONS))) is not None:
                    raise StoreError(f"{path}: {wrong}; ohmo store check tells more")
                self._connection = reading(path)
                self._connection.execute("BEGIN")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: {error}") from error
        self._writing = writing
        self._done = False

    def columns(self, table: str) -> tuple[str, ...]:
        rows = self._connection.execute(f"PRAGMA table_info({table})")
        return tuple(str(row[1]) for row in rows)

    def rows(self, table: str, columns: Sequence[str], batch: int) -> Iterator[list[Row]]:
        cursor = self._connection.execute(f"SELECT {', '.join(columns)} FROM {table}")
        while rows := cursor.fetchmany(batch):
            yield rows

    def count(self, table: str) -> int:
        row = self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
        return int(row[0])

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        try:
            self._connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {table}: {error}") from error

    def finish(self) -> None:
        try:
            self._connection.execute("COMMIT")
            self._connection.close()
            into_place(self._draft, self._path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self._path}: {error}") from error
        self._done = True

    def close(self) -> None:
        """A file that did not become whole goes again."""
        self._connection.close()
        if self._writing and not self._done:
            self._clear()

    def _clear(self) -> None:
        for part in ("", "-wal", "-shm"):
            self._draft.with_name(self._draft.name + part).unlink(missing_ok=True)
