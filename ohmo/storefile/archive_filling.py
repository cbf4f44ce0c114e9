"""Fills a store that was carried over from a damaged file with what only its newest backup still
knows."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from ohmo.storefile.archive import DATABASE, BackupError, backups, unpack
from ohmo.storefile.restore_reconcile import settle
from ohmo.storefile.salvage import carry_over
from ohmo.storefile.staging_dir import workroom


def fill_in(folder: Path, store: Path, now: int) -> tuple[int, datetime | None]:
    """Rows that came from the newest whole backup in ``folder``, and when it was made; (0, None):
    there is none. ``now``: ms."""
    for one in reversed(backups(folder, datetime.fromtimestamp(now / 1_000, UTC))):
        with workroom(store.parent) as work:
            try:
                unpack(one.path, work)
            except (BackupError, OSError, sqlite3.Error):
                continue  # an older one may be whole
            copy = work / DATABASE
            if not copy.exists():
                continue
            settle(copy, now)
            return sum(carry_over(copy, store, now).values()), one.made
    return 0, None
