"""How each engine is opened for a test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from store_words import Clock, FullStore

from ohmo.ambient import inert
from ohmo.storefile.open_store import open_sqlite
from tests.store_model.store import MemoryStore


@asynccontextmanager
async def sqlite_store(path: Path, clock: Clock) -> AsyncGenerator[FullStore]:
    async with open_sqlite(path, clock=clock, writer="w", failpoint=inert) as store:
        yield store


@asynccontextmanager
async def memory_store(clock: Clock) -> AsyncGenerator[FullStore]:
    yield MemoryStore(clock=clock)


@asynccontextmanager
async def postgres_store(url: str, clock: Clock) -> AsyncGenerator[FullStore]:
    from ohmo.database.postgres import (
        open_postgres,
    )  # only where its driver is installed: see the needs marker

    async with open_postgres(url, clock=clock, writer="w", failpoint=inert) as store:
        yield store


async def empty_postgres(url: str) -> None:
    """Every table of an earlier test empty, its schema kept."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'meta'"
        )
        if tables:
            await connection.execute(f"TRUNCATE {', '.join(row[0] for row in tables)}")
    finally:
        await connection.close()


@asynccontextmanager
async def emptied_postgres(url: str, clock: Clock) -> AsyncGenerator[FullStore]:
    await empty_postgres(url)
    async with postgres_store(url, clock) as store:
        yield store
