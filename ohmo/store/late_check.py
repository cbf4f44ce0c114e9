"""Every page of a large store is read while the house is at work already, because a start that waits for it would keep people waiting."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import structlog

from ohmo.store.inspection import fault_of, for_checks

log = structlog.get_logger("ohmo.store")
REST = 20.0  # seconds after the start: those who wait are answered first


async def late_check(path: Path, fatal: Callable[[str], None], *, rest: float = REST) -> None:
    """``fatal`` hears one line when a page is damaged; the next start puts the file aside. Cancelled, it ends at once."""
    await asyncio.sleep(rest)
    with closing(for_checks(path)) as connection:
        reading = asyncio.ensure_future(asyncio.to_thread(_fault, connection))
        try:
            fault = await asyncio.shield(reading)
        except asyncio.CancelledError:
            connection.interrupt()
            await asyncio.wait([reading])
            raise
    if fault is not None:
        log.error("store_damaged", path=str(path), fault=fault)
        fatal(f"{path}: damaged ({fault}); the next start puts it aside and carries over what can be read: start ohmo again")


def _fault(connection: sqlite3.Connection) -> str | None:
    try:
        return fault_of(connection, "quick_check(1)")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return str(error)
        log.warning("store_not_checked", error=str(error))
        return None
