"""Makes the file of a store small."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ohmo.contracts.errors import StoreError


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
