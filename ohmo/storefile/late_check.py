"""Every page of a large store is read while the house is at work already, because a start that
waits for it would keep people waiting."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import structlog

from channels.record import record
from ohmo.storefile.inspection import FULL_CHECK_BYTES, fault_of, for_checks

log = structlog.get_logger("ohmo.store")


@record
class WholeReading:
    """When every page of the file is read: a file of up to ``at_once`` bytes before anybody uses
    it, a larger one ``rest`` seconds after the start, because those who wait are answered first."""

    at_once: int = FULL_CHECK_BYTES
    rest: float = 20.0


AS_USUAL = WholeReading()


async def late_check(path: Path, fatal: Callable[[str], None], rest: float) -> None:
    """After ``rest`` seconds. ``fatal`` hears one line when a page is damaged; the next start puts
    the file aside. Cancelled, it ends at once."""
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
        fatal(
            f"{path}: damaged ({fault}); the next start puts it aside and carries over what can be"
            " read: start ohmo again"
        )


def _fault(connection: sqlite3.Connection) -> str | None:
    try:
        return fault_of(connection, "quick_check(1)")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        ):
            return str(error)
        log.warning("store_not_checked", error=str(error))
        return None
