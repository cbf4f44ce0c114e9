"""Looks at a store file nobody may change: for the doctor, for backups, for ``ohmo store
check``."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import structlog

from channels.record import record
from ohmo.contracts.errors import StoreError
from ohmo.database.migrations import MIGRATIONS, NewerSchema, newest
from ohmo.database.writer import run
from ohmo.store.maintenance import audit_report

_DAMAGES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CODE = re.compile(r"error code=(\d+)")  # of PRAGMA integrity_check, for a page of a tree
_UNREAD = "failed to get page"  # the same for a page of a list
# they do not grow with every message
STEADY = {"meta", "threads", "approvals", "grants", "people", "jobs", "leases", "cursors"}
PASSING = "PRAGMA cache_size = -256"  # KiB: who walks through a whole store meets each page once
FULL_CHECK_BYTES = 64 << 20  # up to this size the indexes are compared with their tables too


def reading(path: Path) -> sqlite3.Connection:
    """Read-only. The caller closes it. Raises sqlite3.Error."""
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30, isolation_level=None
    )


def problem(path: Path) -> str | None:
    """What is wrong with the file, in a few words; None: nothing. Raises NewerSchema, sqlite3.Error
    (it cannot be read just now)."""
    return problem_of(path, newest(MIGRATIONS))


def problem_of(path: Path, known: int, *, most: int | None = None) -> str | None:
    """What is wrong with the file, in a few words; None: nothing. Opened read-only, so that a newer
    store stays as it is. ``most``: of a file of more bytes only the tables that do not grow with
    every message are read."""
    if not path.exists():
        return "the file is gone, only its log is there"
    if path.stat().st_size == 0:
        return "the file is empty"
    try:
        with closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=30)
        ) as connection:
            connection.execute(PASSING)
            tables = {
                row[0]
                for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
            if "meta" not in tables or "threads" not in tables:
                return "it is not a store of ohmo"
            schema = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
            if schema is None or not str(schema[0]).isdigit():
                return "its version cannot be read"
            if int(schema[0]) > known:
                raise NewerSchema(int(schema[0]), known)
            checks = [check_of(path)]
            if most is not None and path.stat().st_size > most:
                checks = [f"quick_check({name})" for name in sorted(STEADY & tables)]
            with closing(for_checks(path)) as checking:
                for check in checks:
                    if (fault := fault_of(checking, check)) is not None:
                        return fault
            return None
    except UnicodeDecodeError:
        return "a name in its schema cannot be read"
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGES:
            return str(error)
        raise


def check_of(path: Path) -> str:
    """The check that reads the whole file."""
    return "integrity_check(1)" if path.stat().st_size <= FULL_CHECK_BYTES else "quick_check(1)"


def for_checks(path: Path) -> sqlite3.Connection:
    """A read-only connection knows no CHECK constraints (sqlite3AddCheckConstraint leaves them
    out), and would not see a state that is none. Another one, which closes after it, keeps this one
    from folding the log into the file. Any thread may interrupt it. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        path.resolve().as_uri() + "?mode=rw",
        uri=True,
        timeout=30,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


def fault_of(connection: sqlite3.Connection, check: str) -> str | None:
    """The first damage that a check of SQLite's names, on one line. Raises sqlite3.Error; an
    OperationalError when a page could not be read just now: that is the disk, and a store that is
    whole must not be put aside for it."""
    faults = [str(row[0]) for row in connection.execute(f"PRAGMA {check}")]
    if faults == ["ok"]:
        return None
    fault = faults[0].replace("\n", " ")
    code: int | None = None
    if _UNREAD in fault:  # pages that a file does not have are told in other words
        code = sqlite3.SQLITE_IOERR_READ
    named = _CODE.search(fault)
    if named is not None and int(named[1]) & 0xFF not in _DAMAGES:
        code = int(named[1])
    if code is None:
        return fault
    error = sqlite3.OperationalError(fault)
    error.sqlite_errorcode = code
    raise error


def version(path: Path) -> int:
    """Of the schema. Raises NewerSchema, sqlite3.Error."""
    with closing(reading(path)) as connection:
        row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    schema = 0
    if row is not None and str(row[0]).isdigit():
        schema = int(row[0])
    if schema > newest(MIGRATIONS):
        raise NewerSchema(schema, newest(MIGRATIONS))
    return schema


def broken_laws(connection: sqlite3.Connection) -> tuple[str, ...]:
    """What ``ohmo inbox audit`` would name: states that contradict each other, broken audit
    chains."""
    connection.execute("BEGIN")
    try:
        return run(connection, audit_report()).problems
    finally:
        connection.execute("ROLLBACK")


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Rows per table."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER"
        " BY 1"
    ).fetchall()
    rows: dict[str, int] = {}
    for (table,) in tables:
        counted = connection.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()  # noqa: S608
        rows[str(table)] = int(counted[0])
    return rows


log = structlog.get_logger("ohmo.store")


@record
class WholeCheck:
    """When every page of the file is read: a file of up to ``at_once`` bytes before anybody uses
    it, a larger one ``rest`` seconds after the start, because those who wait are answered first."""

    at_once: int = FULL_CHECK_BYTES
    rest: float = 20.0


AS_USUAL = WholeCheck()


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


def compact(path: Path) -> tuple[int, int]:
    """Bytes before and after. The caller owns the home. Raises StoreError."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
            before = _size(path)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return before, _size(path)
    except sqlite3.Error as error:
        raise StoreError(
            f"{path}: cannot be made smaller ({error}); it takes as much free disk as the store is"
            " large"
        ) from error


def _size(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)
