"""The store in PostgreSQL: the same operations, one writing connection per instance, several
operations per transaction where that is safe; and a whole database as one side of a move."""

# ruff: noqa: S608  # statements are put together from names of our own schema, values are always
# bound

from __future__ import annotations

# asyncpg ships without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import asyncpg

from channels.errors import Unavailable
from ohmo.ambient import Failpoint, inert
from ohmo.contracts.errors import Conflict, StoreError
from ohmo.contracts.store import Hint
from ohmo.database.migrations import migrate
from ohmo.database.sql_store import SqlStore
from ohmo.store.statements import Driver, Instance, Listeners, MakeOp, Moment, Op, Row, T, Undo

GROUP = 64
# of a transaction that the engine asks to repeat; from the second on each operation goes alone
TRIES = 8
_SETTINGS = {
    "application_name": "ohmo",
    "statement_timeout": "5000",
    "idle_in_transaction_session_timeout": "5000",
}
_AGAIN = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresIOError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    OSError,
    TimeoutError,
)
_CHANNEL = "ohmo_store"
_MIGRATION_LOCK = 7717_0001


@lru_cache(1024)
def postgres_statement(sql: str) -> str:
    """Numbered values; rows that another instance is taking are left out; text sorts by its bytes,
    as in SQLite, whatever the locale."""
    if sql.startswith("CREATE TABLE"):
        sql = sql.replace(" TEXT", ' TEXT COLLATE "C"')
    parts = sql.replace("/*skip locked*/", "FOR UPDATE SKIP LOCKED").split("?")
    return "".join(part if number == 0 else f"${number}{part}" for number, part in enumerate(parts))


async def drive(connection: Any, op: Op[T]) -> T:
    """Run one operation to its end; nothing but the engine is awaited in a transaction."""
    try:
        sql, values = next(op)
        while True:
            records = await connection.fetch(postgres_statement(sql), *values)
            sql, values = op.send([tuple(record) for record in records])
    except StopIteration as stop:
        return stop.value


def failure(error: BaseException) -> BaseException:
    """The error as the contract names it."""
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return Conflict(str(error))
    if isinstance(error, _AWAY + _AGAIN):
        return Unavailable(f"PostgreSQL: {type(error).__name__}: {error}")
    if isinstance(error, asyncpg.PostgresError):
        return StoreError(f"PostgreSQL: {error}")
    return error


@dataclass(slots=True)
class _Job:
    make: MakeOp[Any]
    at: Moment
    lock: str
    future: asyncio.Future[Any]


class PostgresDriver:
    """``Driver`` over one database that has the present schema."""

    def __init__(self, url: str, instance: Instance, poll: float) -> None:
        self._url = url
        self._instance = instance
        self._poll = poll
        self.listeners = Listeners()
        self._jobs: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._connection: Any = None
        self._pid = 0
        self._pool: Any = None

    async def open(self, failpoint: Failpoint) -> None:
        """Connect and bring the schema forward. Raises NewerSchema, Unavailable."""
        try:
            self._pool = await asyncpg.create_pool(
                self._url,
                min_size=1,
                max_size=4,
                server_settings=_SETTINGS,
                statement_cache_size=512,
            )
            connection = await self._writing()
            async with connection.transaction():
                await connection.execute(
                    "SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK
                )  # instances start side by side
                await drive(connection, migrate(failpoint))
        except (asyncpg.PostgresError, *_AWAY) as error:
            raise failure(error) from error

    async def _writing(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self._url, server_settings=_SETTINGS, statement_cache_size=512
            )
            self._pid = self._connection.get_server_pid()
        return self._connection

    async def write(self, make: MakeOp[T], lock: str = "") -> T:
        if self._closing:
            raise Unavailable("the store is closed")
        job = _Job(make, self._instance.moment(), lock, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._wake.set()
        return await job.future

    # the pool keeps reads apart
    async def read(
        self,
        make: MakeOp[T],
        *,
        slow: bool = False,  # noqa: ARG002
        hot: bool = False,  # noqa: ARG002
    ) -> T:
        try:
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await drive(connection, make(self._instance.moment()))
        except (asyncpg.PostgresError, *_AWAY) as error:
            raise failure(error) from error

    async def write_until_closed(self) -> None:
        """Operations that lock one known thread each go together, in order of thread: two instances
        then wait for each other in one direction. What locks several threads, or threads not known
        before, goes alone."""
        while self._jobs or not self._closing:
            if not self._jobs:
                self._wake.clear()
                await self._wake.wait()
                continue
            group = [self._jobs.popleft()]
            while group[0].lock and self._jobs and self._jobs[0].lock and len(group) < GROUP:
                group.append(self._jobs.popleft())
            await self._commit(sorted(group, key=lambda job: job.lock))

    async def _commit(self, group: list[_Job]) -> None:
        last: BaseException = Unavailable()
        for attempt in range(TRIES):
            parts = [group] if attempt == 0 else [[job] for job in group if not job.future.done()]
            for part in parts:
                try:
                    await self._transaction(part)
                except _AGAIN as error:
                    last = error
                except (asyncpg.PostgresError, *_AWAY) as error:
                    away = failure(error)
                    if not isinstance(away, Unavailable):
                        away = Unavailable(str(away))
                    self._fail(part, away)
            if all(job.future.done() for job in group):
                return
        self._fail(group, failure(last))

    def _fail(self, jobs: list[_Job], error: BaseException) -> None:
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(error)

    async def _transaction(self, group: list[_Job]) -> None:
        connection = await self._writing()
        transaction = connection.transaction()
        await transaction.start()
        outcomes: list[tuple[_Job, Any]] = []
        hints: list[Hint] = []
        try:
            for job in group:
                outcome = await self._one(connection, job)
                outcomes.append((job, outcome))
                if not isinstance(outcome, BaseException):
                    hints += job.at.hints
            # nobody else acts on a "state"; watchers look every ``poll`` seconds
            if any(hint.kind != "state" for hint in hints):
                await connection.execute("SELECT pg_notify($1, '')", _CHANNEL)
            await transaction.commit()
        except BaseException:
            with suppress(asyncpg.PostgresError, *_AWAY):
                await transaction.rollback()
            raise
        for job, outcome in outcomes:
            if job.future.done():  # its caller was cancelled; the write stands
                continue
            if isinstance(outcome, Undo):
                job.future.set_result(outcome.value)
            elif isinstance(outcome, BaseException):
                job.future.set_exception(failure(outcome))
            else:
                job.future.set_result(outcome)
        self.listeners.tell(hints)

    async def _one(self, connection: Any, job: _Job) -> Any:
        """In a savepoint of its own: a bad operation does not fail its neighbours. Returns what
        came of it, also an exception."""
        at = job.at
        at.hints.clear()  # of an earlier try
        savepoint = connection.transaction()
        await savepoint.start()
        (outcome,) = await asyncio.gather(drive(connection, job.make(at)), return_exceptions=True)
        if isinstance(outcome, BaseException):
            if isinstance(outcome, (*_AGAIN, *_AWAY)) or not isinstance(outcome, Exception):
                raise outcome
            await savepoint.rollback()
            at.hints.clear()
        else:
            await savepoint.commit()
        return outcome

    async def hear_others(self) -> None:
        """What other instances commit; and a look every ``poll`` seconds, because a notification is
        a hint and never the truth."""
        connection: Any = None
        while not self._closing:
            if connection is None or connection.is_closed():
                with suppress(asyncpg.PostgresError, *_AWAY):
                    connection = await asyncpg.connect(self._url, server_settings=_SETTINGS)
                    await connection.add_listener(_CHANNEL, self._heard)
            await asyncio.sleep(self._poll)
            self.listeners.tell([Hint("any")])

    # asyncpg's signature
    def _heard(self, _: object, pid: int, channel: str, payload: object) -> None:  # noqa: ARG002
        if pid != self._pid:
            self.listeners.tell([Hint("any")])

    def stop(self) -> None:
        """What was submitted is still committed; nothing new is taken."""
        self._closing = True
        self._wake.set()

    async def close(self) -> None:
        if self._connection is not None and not self._connection.is_closed():
            await self._connection.close(timeout=5)
        if self._pool is not None:
            await self._pool.close()


class PostgresStore(SqlStore):
    """Store and Reports in one database, shared by several instances. ``fatal`` as
    in SQLite; the server cares for both."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.fatal: asyncio.Future[str] = asyncio.get_running_loop().create_future()


@asynccontextmanager
async def open_postgres(
    url: str, *, clock: Callable[[], datetime], writer: str, failpoint: Failpoint, poll: float = 1.0
) -> AsyncGenerator[PostgresStore]:
    """The store at ``postgresql://…``; its tables are made or brought forward. Raises
    NewerSchema, Unavailable."""
    driver = PostgresDriver(url, Instance(clock, writer), poll)
    tasks: list[asyncio.Task[None]] = []
    try:
        await driver.open(failpoint)
        tasks = [
            asyncio.create_task(driver.write_until_closed(), name="store-writer"),
            asyncio.create_task(driver.hear_others(), name="store-listener"),
        ]
        yield PostgresStore(driver)
    finally:
        driver.stop()
        if tasks:
            await tasks[0]
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await driver.close()


class Server:
    """Implements ``End`` of a move (``ohmo.storefile.transfer``): the same rows, one transaction.
    Raises StoreError when the database cannot be used."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._connection: Any = self._wait(asyncpg.connect(url))
            self._transaction: Any = self._connection.transaction(isolation="repeatable_read")
            self._wait(self._transaction.start())
            self._wait(drive(self._connection, migrate(inert)))
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            self._loop.close()
            raise StoreError(f"PostgreSQL: {error}") from error
        self._done = False

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def columns(self, table: str) -> tuple[str, ...]:
        query = """SELECT column_name FROM information_schema.columns WHERE table_name = $1
        AND table_schema = current_schema() ORDER BY ordinal_position"""
        rows = self._wait(self._connection.fetch(query, table))
        return tuple(str(row[0]) for row in rows)

    def rows(self, table: str, columns: Sequence[str], batch: int) -> Iterator[list[Row]]:
        cursor = self._wait(self._cursor(f"SELECT {', '.join(columns)} FROM {table}"))
        while records := self._wait(cursor.fetch(batch)):
            yield [tuple(record) for record in records]

    async def _cursor(self, query: str) -> Any:
        return await self._connection.cursor(query)

    def count(self, table: str) -> int:
        return int(self._wait(self._connection.fetchval(f"SELECT COUNT(*) FROM {table}")))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        marks = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        try:
            self._wait(self._connection.executemany(insert, rows))
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise StoreError(f"PostgreSQL: {table}: {error}") from error

    def finish(self) -> None:
        self._wait(self._transaction.commit())
        self._done = True

    def close(self) -> None:
        """What did not become whole is rolled back."""
        if not self._done:
            self._wait(self._transaction.rollback())
        self._wait(self._connection.close())
        self._loop.close()
