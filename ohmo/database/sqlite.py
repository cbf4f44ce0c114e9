"""The store in one SQLite file: one writer thread, readers that never wait for it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from channels.errors import Unavailable
from ohmo.database.writer import Writer, failure, is_broken, run
from ohmo.store.statements import Instance, Listeners, MakeOp, Moment, T

BUSY_SECONDS = 30.0
# KiB of pages a reader keeps: the next commit of the writer empties it, so more would be filled and
# given back all day
READ_CACHE = 256


def connect(path: Path, *, writing: bool) -> sqlite3.Connection:
    """A connection for one thread. Durable at every commit; statements stay prepared."""
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_size_limit = 16777216")
    connection.execute("PRAGMA temp_store = MEMORY")
    # 4 MB: the pages every message touches are folded in rarely
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    if not writing:
        connection.execute("PRAGMA query_only = ON")
    return connection


class _Reader:
    """A connection in a thread of its own."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    async def read(self, make: MakeOp[T], at: Moment) -> T:
        if self._closed:
            raise Unavailable(f"{self._path}: the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, make, at)

    def _read(self, make: MakeOp[T], at: Moment) -> T:
        """What a connection remembers of a page that could not be read looks like damage: only a
        fresh one is believed."""
        try:
            try:
                return self._once(make, at)
            except sqlite3.DatabaseError as error:
                if not is_broken(error):
                    raise
                self._disconnect()
                return self._once(make, at)
        except sqlite3.Error as error:
            raise failure(error, str(self._path)) from error

    def _once(self, make: MakeOp[T], at: Moment) -> T:
        if self._connection is None:
            self._connection = connect(self._path, writing=False)
            self._connection.execute(f"PRAGMA cache_size = -{READ_CACHE}")
        self._connection.execute("BEGIN")
        try:
            return run(self._connection, make(at))
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    async def close(self) -> None:
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._pool, self._disconnect)
        self._pool.shutdown()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SqliteDriver:
    """``Driver`` over one file that exists and has the present schema. ``fatal`` is told once when
    only a restart helps."""

    def __init__(self, path: Path, instance: Instance, fatal: Callable[[str], None]) -> None:
        self._instance = instance
        self.listeners = Listeners()
        self._writer = Writer(
            str(path), lambda: connect(path, writing=True), self.listeners.tell, fatal
        )
        self._short = _Reader(path, "store-reader")
        self._slow = _Reader(path, "store-reports")

    def start(self) -> None:
        self._writer.start()

    # one writer needs no lock order
    async def write(self, make: MakeOp[T], lock: str = "") -> T:  # noqa: ARG002
        return await self._writer.submit(make, self._instance.moment())

    async def read(self, make: MakeOp[T], *, slow: bool = False, hot: bool = False) -> T:
        if hot:  # a reader would fetch from the log again what the writer still has in memory
            return await self.write(make)
        reader = self._slow if slow else self._short
        return await reader.read(make, self._instance.moment())

    async def close(self) -> None:
        await self._short.close()
        await self._slow.close()
        # last: the last connection to close folds the log into the file
        await self._writer.close()
