"""From ``store.url`` to an open store, and what its owner has to be told about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import structlog

from channels.errors import Unavailable
from ohmo.ambient import Failpoint
from ohmo.contracts.errors import ConfigError, StoreError
from ohmo.database.migrations import MIGRATIONS
from ohmo.database.sql_store import SqlStore
from ohmo.database.sqlite import SqliteDriver
from ohmo.store.known_people import look_through
from ohmo.store.maintenance import begin_life
from ohmo.store.statements import Driver, Instance
from ohmo.storefile.inspection import AS_USUAL, WholeCheck, late_check
from ohmo.storefile.recovery import Health, examine, suspicion
from ohmo.storefile.wal_check import log_of, remember

log = structlog.get_logger("ohmo.store")
_SQLITE = "sqlite:///"


class SqliteStore(SqlStore):
    """Store and Reports in one file.

    ``health``: what was found at the start. ``fatal``: resolved with one line when only a restart
    can help (a failed fsync, a damaged page)."""

    def __init__(
        self, driver: SqliteDriver, health: Health, fatal: asyncio.Future[str], failpoint: Failpoint
    ) -> None:
        super().__init__(driver, failpoint=failpoint)
        self.health = health
        self.fatal = fatal


@asynccontextmanager
async def open_sqlite(
    path: Path,
    *,
    clock: Callable[[], datetime],
    writer: str,
    failpoint: Failpoint,
    backups: Path | None = None,
    reading: WholeCheck = AS_USUAL,
) -> AsyncGenerator[SqliteStore]:
    """The store at ``path``; made when it is missing, brought forward when it is older, put aside
    when it is damaged (see ``health``). ``backups``: the folder whose newest whole one fills in
    what a damaged file has lost.

    The caller owns the home (``ohmo.storefile.lock``). Raises NewerSchema (file untouched),
    Unavailable (disk)."""
    health = await asyncio.to_thread(
        examine, path, clock, failpoint, MIGRATIONS, backups, reading.at_once
    )
    fatal: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def report(reason: str) -> None:
        with suppress(OSError):
            suspicion(path).touch(mode=0o600)
        if not fatal.done():
            fatal.set_result(reason)

    driver = SqliteDriver(path, Instance(clock, writer), report)
    driver.start()
    # a disk that takes nothing is told by the first message
    with suppress(StoreError, Unavailable):
        await driver.write(lambda _: begin_life(writer))
        await asyncio.to_thread(remember, path, writer)
    tasks = [asyncio.create_task(_look_through(driver), name="store.beginnings")]
    if not health.whole:
        check = late_check(path, report, reading.rest)
        tasks.append(asyncio.create_task(check, name="store.check"))
    try:
        yield SqliteStore(driver, health, fatal, failpoint)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await driver.close()
        if not fatal.done() and not log_of(path).exists():
            # what is folded into the file needs no log
            await asyncio.to_thread(remember, path)
        fatal.cancel()


async def _look_through(driver: Driver) -> None:
    """In what an older ohmo stored; what fails is left to retention, which looks again."""
    try:
        await look_through(driver)
    except (StoreError, Unavailable) as error:
        log.warning("beginnings_not_looked_up", why=str(error))


@asynccontextmanager
async def open_store(
    url: str,
    usual: Path,
    clock: Callable[[], datetime],
    failpoint: Failpoint,
    backups: Path | None = None,
) -> AsyncGenerator[tuple[SqliteStore, tuple[str, ...]]]:
    """The store and one warning for each thing its owner should know. ``backups``: the folder with
    those that fill in what a damaged file has lost. Raises ConfigError for a url that is none of
    ours."""
    if not url.startswith(_SQLITE):
        raise ConfigError(
            "store.url: several instances on PostgreSQL come in a later version;"
            " write sqlite:///${OHMO_HOME}/ohmo.db"
        )
    path = Path(url.removeprefix(_SQLITE)) if url != _SQLITE else usual
    async with open_sqlite(
        path, clock=clock, writer=uuid4().hex[:12], failpoint=failpoint, backups=backups
    ) as store:
        detail = store.health.detail
        yield store, (detail,) if detail else ()
