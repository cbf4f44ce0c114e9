"""Fills a store that was carried over from a damaged file with what only its newest backup still knows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from ohmo.store.archive import DATABASE, BackupError, backups, unpack
from ohmo.store.salvage import carry_over
from ohmo.store.workroom import workroom

# What was open when the backup was made has gone on since: it is neither answered again nor silently dropped, its end is told.
_SETTLE = (
    """UPDATE inbox SET state = 'ended', ending = 'dead', turn = NULL, ended_at = {now},
    reason = 'it was open in the backup; say it again if it was never answered' WHERE state IN ('waiting','taken')""",
    "UPDATE turns SET state = 'failed', ended = {now}, reason = 'it was open in the backup' WHERE state IN ('running','parked')",
    "UPDATE outbox SET state = 'dropped', ended_at = {now}, error = 'it was open in the backup' WHERE state IN ('ready','sending')",
    "UPDATE approvals SET state = 'void' WHERE state IN ('queued','asked')",
    "UPDATE threads SET owner = NULL, until = 0, ready_at = NULL, parked = 0",
    "DELETE FROM leases",
)


def fill_in(folder: Path, store: Path, now: int) -> tuple[int, datetime | None]:
    """Rows that came from the newest whole backup in ``folder``, and when it was made; (0, None): there is none. ``now``: ms."""
    for one in reversed(backups(folder)):
        with workroom(store.parent) as work:
            try:
                unpack(one.path, work)
            except (BackupError, OSError, sqlite3.Error):
                continue  # an older one may be whole
            copy = work / DATABASE
            if not copy.exists():
                continue
            with closing(sqlite3.connect(copy)) as connection, connection:
                for statement in _SETTLE:
                    connection.execute(statement.format(now=int(now)))
            return sum(carry_over(copy, store, now).values()), one.made
    return 0, None
