"""What state the store file is in before anybody uses it: made, brought forward, or put aside, and
never silently empty."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from channels.durable import settle_path, take_place
from channels.errors import Unavailable
from channels.record import record
from ohmo.ambient import Failpoint
from ohmo.database.migrations import migrate, newest, sqlite_statement
from ohmo.database.writer import failure
from ohmo.store.statements import milliseconds
from ohmo.storefile.inspection import FULL_CHECK_BYTES, problem_of
from ohmo.storefile.salvage import fill_in, salvage
from ohmo.storefile.wal_check import clear, known_file, log_of, lost_log, missing, no_file, remember

Migrations = Mapping[int, Sequence[str]]
WHY = "why.txt"  # beside what was put aside
# a commit writes whole pages: a message costs about 60 KB so, and 170 KB with pages of 4096 bytes
PAGE_SIZE = 1024


@record
class Health:
    """``new``: made. ``sound``: checked. ``replaced``: it was damaged, lies in ``quarantined``, and
    what could be read was carried over.

    ``detail``: one line for the owner. ``saved``: rows carried over per table. ``whole``: every
    page was read; else that is still to be done."""

    state: Literal["new", "sound", "replaced"]
    detail: str = ""
    quarantined: Path | None = None
    saved: Mapping[str, int] | None = None
    whole: bool = True


def examine(
    path: Path,
    clock: Callable[[], datetime],
    failpoint: Failpoint,
    migrations: Migrations,
    backups: Path | None = None,
    most: int = FULL_CHECK_BYTES,
) -> Health:
    """Blocking. ``backups``: the folder whose newest whole one fills in what a damaged file has
    lost. ``most``: bytes of a file that is read whole before anybody uses it; a larger one only
    when it is under suspicion, for that takes seconds (see ``late_check``). After it, the file
    exists, is sound and has the present schema. Raises NewerSchema (file untouched), Unavailable
    (disk)."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    known = newest(migrations)
    successor = _successor(path)
    try:
        if os.path.lexists(successor):
            if _cells(path) and successor.is_file() and _seen_twice(successor, known) is None:
                health = _put_aside(path)
                bring_forward(path, failpoint, migrations)
                remember(path)
                return health
            if os.path.lexists(path):
                clear(successor)
            else:  # it may be all there is: it is kept
                cell = _new_cell(path, successor.name, clock())
                cell.mkdir(parents=True, exist_ok=True, mode=0o700)
                successor.replace(cell / successor.name)
        if missing(path) and not os.path.lexists(known_file(path)):
            create(path, failpoint, migrations)
            remember(path)
            return Health("new")
        whole = suspicion(path).exists() or not path.exists()
        if not whole and path.stat().st_size <= most:
            whole = True
        problem = no_file(path)
        if problem is None and path.exists():
            lost = lost_log(path) if path.stat().st_size else None
            problem = _seen_twice(path, known, None if whole else most) or lost
        elif problem is None:
            only = ", only its log is there" if log_of(path).exists() else ""
            problem = f"the file is gone{only}"
        if problem is None:
            bring_forward(path, failpoint, migrations)
            health = Health("sound", whole=whole)
        else:
            health = _replace(path, problem, clock(), failpoint, migrations, backups)
        clear(suspicion(path))
        remember(path)
        return health
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"{path}: {failure(error, str(path))}") from error


def _seen_twice(path: Path, known: int, most: int | None = None) -> str | None:
    """SQLite calls a page of the schema that the disk did not give "malformed": only what is seen
    twice counts as a damage."""
    if problem_of(path, known, most=most) is None:
        return None
    return problem_of(path, known, most=most)


def suspicion(path: Path) -> Path:
    """A file that stands while the store is under suspicion: the next start reads every page of
    it."""
    return path.with_name(path.name + "-suspect")


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def create(path: Path, failpoint: Failpoint, migrations: Migrations) -> None:
    """Made aside and moved into place whole: an empty file under the store's name is always a
    damage, never a first start cut short."""
    into_place(_made(path, failpoint, migrations), path)


def _made(path: Path, failpoint: Failpoint, migrations: Migrations) -> Path:
    """A new store beside ``path``."""
    draft = path.with_name(path.name + ".new")
    for leftover in (draft, _log(draft), draft.with_name(draft.name + "-shm")):
        clear(leftover)
    draft.touch(mode=0o600)
    bring_forward(draft, failpoint, migrations)
    return draft


def into_place(draft: Path, path: Path) -> None:
    """A whole store under another name, on the disk before anybody relies on it. Raises OSError,
    sqlite3.Error."""
    with closing(sqlite3.connect(draft, isolation_level=None, timeout=30)) as connection:
        # closing would do it too, and keep silent when it fails
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if _log(draft).exists() and _log(draft).stat().st_size:
        raise OSError(errno.EIO, "its log could not be folded into it", str(draft))
    settle_path(draft)
    take_place(draft, path)


def bring_forward(path: Path, failpoint: Failpoint, migrations: Migrations) -> None:
    """Every missing migration in one transaction: killed in the middle, the file is as old as it
    was."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        op = migrate(failpoint, migrations)
        try:
            sql, values = next(op)
            while True:
                sql, values = op.send(connection.execute(sqlite_statement(sql), values).fetchall())
        except StopIteration:
            connection.execute("COMMIT")


def _replace(
    path: Path,
    problem: str,
    now: datetime,
    failpoint: Failpoint,
    migrations: Migrations,
    backups: Path | None,
) -> Health:
    """A new store is made of what can still be read, and only when it is whole the damaged file
    goes aside: a start that dies or fails in the middle finds the damage again, or the whole new
    store."""
    cell = _new_cell(path, path.name, now)
    draft = _made(path, failpoint, migrations)
    saved = salvage(path, draft, milliseconds(now))
    rows = sum(saved.values())
    more = "There is no backup to fill in from. "
    if backups is not None:
        filled, made = fill_in(backups, draft, milliseconds(now))
        if made is not None:
            more = f"{filled} more came from the backup of {made:%Y-%m-%d %H:%M} UTC. "
    left = "it was put" if os.path.lexists(path) else "what is left of it was put"
    detail = (
        f"{path}: damaged ({problem}); {left} aside in {cell}, and {rows} rows could be carried"
        f" over into a new store. {more}Messages may be missing: compare with `ohmo inbox audit`,"
        " and look into the quarantine before you delete it"
    )
    cell.mkdir(parents=True, exist_ok=True, mode=0o700)
    (cell / WHY).write_text(detail, encoding="utf-8")
    into_place(draft, _successor(path))
    return replace(_put_aside(path), saved=saved)


def _successor(path: Path) -> Path:
    """The whole store that is to take the place of a damaged one."""
    return path.with_name(path.name + ".whole")


def _new_cell(path: Path, name: str, now: datetime) -> Path:
    """A folder in the quarantine for what is called ``name``, not yet made."""
    folder = path.parent / "quarantine"
    # whatever took its name stays, under another one
    if os.path.lexists(folder) and not folder.is_dir():
        folder.replace(folder.with_name(f"quarantine-{now:%Y%m%dT%H%M%S}"))
    fraction = milliseconds(now) % 1000
    return folder / f"{name}-{now:%Y%m%dT%H%M%S}-{fraction:03d}"


def _cells(path: Path) -> list[Path]:
    """What was put aside before, each with its reason."""
    return [
        cell
        for cell in (path.parent / "quarantine").glob(f"{path.name}-*")
        if (cell / WHY).is_file()
    ]


def _put_aside(path: Path) -> Health:
    """The second half of ``_replace``, by whoever comes to it."""
    cell = max(_cells(path))
    for part in (path, _log(path), path.with_name(path.name + "-shm")):
        if os.path.lexists(part):
            part.replace(cell / part.name)
    into_place(_successor(path), path)
    return Health("replaced", (cell / WHY).read_text(encoding="utf-8"), cell)
