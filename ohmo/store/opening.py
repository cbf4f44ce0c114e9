"""From ``store.url`` to an open store, and what its owner has to be told about it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from ohmo.contracts.errors import ConfigError
from ohmo.failpoints import Failpoint
from ohmo.store.sqlite import SqliteStore, open_sqlite

_SQLITE = "sqlite:///"


@asynccontextmanager
async def open_store(
    url: str,
    usual: Path,
    clock: Callable[[], datetime],
    new_id: Callable[[], str],
    failpoint: Failpoint,
    backups: Path | None = None,
) -> AsyncGenerator[tuple[SqliteStore, tuple[str, ...]]]:
    """The store and one warning for each thing its owner should know. ``backups``: the folder with
    those that fill in what a damaged file has lost. Raises ConfigError for a url that is none of
    ours."""
    if not url.startswith(_SQLITE):
        raise ConfigError(
            "store.url: several instances on PostgreSQL come in a later version; write sqlite:///${OHMO_HOME}/ohmo.db"
        )
    path = Path(url.removeprefix(_SQLITE)) if url != _SQLITE else usual
    async with open_sqlite(
        path,
        clock=clock,
        new_id=new_id,
        writer=uuid4().hex[:12],
        failpoint=failpoint,
        backups=backups,
    ) as store:
        detail = store.health.detail
        yield store, (detail,) if detail else ()
