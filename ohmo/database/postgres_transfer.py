"""PostgreSQL as one side of a move: the same rows, one transaction."""

# ruff: noqa: S608  # statements are put together from names of our own schema, values are always
# bound

from __future__ import annotations

# asyncpg ships without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import asyncpg

from ohmo.ambient import inert
from ohmo.contracts.errors import StoreError
from ohmo.database.migrations import migrate
from ohmo.database.postgres import drive
from ohmo.store.statements import Row


class Server:
    """Implements ``End``. Raises StoreError when the database cannot be used."""

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
        found = self._wait(
            self._connection.fetch(
                "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND"
                " table_schema = current_schema() ORDER BY ordinal_position",
                table,
            )
        )
        return tuple(str(row[0]) for row in found)

    def rows(self, table: str, columns: Sequence[str], batch: int) -> Iterator[list[Row]]:
        cursor = self._wait(self._cursor(f"SELECT {', '.join(columns)} FROM {table}"))
        while found := self._wait(cursor.fetch(batch)):
            yield [tuple(record) for record in found]

    async def _cursor(self, query: str) -> Any:
        return await self._connection.cursor(query)

    def count(self, table: str) -> int:
        return int(self._wait(self._connection.fetchval(f"SELECT COUNT(*) FROM {table}")))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        marks = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        try:
            self._wait(
                self._connection.executemany(
                    f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows
                )
            )
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
