"""One thread that writes SQLite: operations that wait are committed together, each in a savepoint
of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from channels.errors import Unavailable
from ohmo.contracts.errors import Conflict, Damaged, StoreError
from ohmo.contracts.store import Hint
from ohmo.store.statements import MakeOp, Moment, Op, T, Undo

GROUP = 256

_AWAY = {  # primary result codes that say: not now; nothing was written
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed",
    sqlite3.SQLITE_BUSY: "another program holds the database",
    sqlite3.SQLITE_LOCKED: "another program holds the database",
    sqlite3.SQLITE_READONLY: "the file system is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_INTERRUPT: "the store is closing",
}
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# After a failed fsync nobody knows what the disk holds, and a second fsync may lie: only a restart
# reads the truth.
_FATAL = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


def run(connection: sqlite3.Connection, op: Op[T]) -> T:
    """Drive one operation to its end."""
    try:
        sql, values = next(op)
        while True:
            sql, values = op.send(connection.execute(sql, values).fetchall())
    except StopIteration as stop:
        return stop.value


def failure(error: BaseException, path: str) -> BaseException:
    """The error as the contract names it."""
    if isinstance(error, sqlite3.IntegrityError):
        return Conflict(str(error))
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0)
        primary = code & 0xFF
        if primary in _BROKEN:
            return Damaged(f"{path}: {error}")
        if primary in _AWAY:
            return Unavailable(f"{path}: {_AWAY[primary]} ({error})")
        return StoreError(f"{path}: {error}")
    return error


def _code(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", 0) if isinstance(error, sqlite3.Error) else 0


def is_broken(error: BaseException) -> bool:
    """The engine holds the file for damaged."""
    return _code(error) & 0xFF in _BROKEN


def is_fatal(error: BaseException) -> bool:
    return _code(error) in _FATAL or is_broken(error)


@dataclass(slots=True)
class Job:
    """One operation on its way, and what became of it."""

    make: MakeOp[Any]
    at: Moment
    future: asyncio.Future[Any]
    value: Any = None
    error: BaseException | None = None


class Writer:
    """Owns the writing connection. ``submit`` on the loop; results come back with one call per
    group."""

    def __init__(
        self,
        path: str,
        connect: Callable[[], sqlite3.Connection],
        tell: Callable[[Sequence[Hint]], None],
        fatal: Callable[[str], None],
    ) -> None:
        self._path = path
        self._connect = connect
        self._tell = tell
        self._fatal = fatal
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[Job] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._ringing = False
        self._dead: str | None = None
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def submit(self, make: MakeOp[T], at: Moment) -> T:
        if self._dead is not None or self._closing:
            raise Unavailable(self._dead or f"{self._path}: the store is closed")
        job = Job(make, at, self._loop.create_future())
        self._jobs.append(job)
        if not self._ringing:
            self._ringing = True
            self._loop.call_soon(self._ring)
        return await job.future

    def _ring(self) -> None:
        """One round of the loop later: what is submitted meanwhile is handed over with it, and
        committed with it."""
        self._ringing = False
        with self._wake:
            self._wake.notify()

    async def close(self) -> None:
        """What was submitted is still committed."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            self._dead = str(failure(error, self._path))
            # never written to: every operation is told why
            connection = sqlite3.connect(":memory:")
            self._loop.call_soon_threadsafe(self._fatal, self._dead)
        try:
            while True:
                with self._wake:
                    while not self._jobs and not self._closing:
                        self._wake.wait()
                    group = [self._jobs.popleft() for _ in range(min(GROUP, len(self._jobs)))]
                if not group:
                    return
                self._commit(connection, group)
                try:
                    self._loop.call_soon_threadsafe(self._resolve, group)
                except RuntimeError:  # the loop is closed: nobody waits any more
                    return
        finally:
            connection.close()

    def _commit(self, connection: sqlite3.Connection, group: list[Job]) -> None:
        if self._dead is not None:
            for job in group:
                job.error = Unavailable(self._dead)
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
            if not self._together(connection, group):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                for job in group:
                    self._one(connection, job)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  # one bad transaction must not end the writer
            self._give_up(connection, group, error)

    def _together(self, connection: sqlite3.Connection, group: list[Job]) -> bool:
        """Without savepoints, which mostly nobody needs. False: one of several failed, all of them
        have to be done again."""
        for job in group:
            try:
                job.value = run(connection, job.make(job.at))
            except Exception as error:  # a bad operation must not fail its neighbours
                if len(group) == 1 or is_fatal(error):
                    raise
                for each in group:
                    each.value = None
                    each.at.hints.clear()
                return False
        return True

    def _one(self, connection: sqlite3.Connection, job: Job) -> None:
        """One of several: in a savepoint of its own."""
        connection.execute("SAVEPOINT op")
        try:
            job.value = run(connection, job.make(job.at))
        except Exception as error:  # a bad operation must not fail its neighbours
            # the engine rolled everything back, or nothing can be trusted
            if not connection.in_transaction or is_fatal(error):
                raise
            connection.execute("ROLLBACK TO op")
            job.at.hints.clear()
            if isinstance(error, Undo):
                job.value = error.value
            else:
                job.error = failure(error, self._path)
        connection.execute("RELEASE op")

    def _give_up(self, connection: sqlite3.Connection, group: list[Job], error: Exception) -> None:
        known = failure(error, self._path)
        alone = len(group) == 1
        for job in group:
            if alone and isinstance(error, Undo):
                job.value, job.at.hints = error.value, []
            elif alone or isinstance(known, StoreError | Unavailable):
                job.error = job.error or known
            else:
                job.error = job.error or Unavailable(f"{self._path}: {error}")
        if is_fatal(error):
            self._dead = str(known)
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            self._dead = self._dead or str(failure(second, self._path))

    def _resolve(self, group: list[Job]) -> None:
        """On the loop: first the hints' listeners may look, then the callers go on."""
        hints: list[Hint] = []
        for job in group:
            if job.error is None:
                hints += job.at.hints
            if job.future.done():  # its caller was cancelled; the write stands
                continue
            if job.error is None:
                job.future.set_result(job.value)
            else:
                job.future.set_exception(job.error)
        self._tell(hints)
        if self._dead is not None:
            self._fatal(self._dead)
