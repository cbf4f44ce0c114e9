"""A store with many conversations: the one that is there, again and again under other names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

NUMBERS = "WITH RECURSIVE many(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM many WHERE n < ?)"
ROWS = {  # columns that differ from conversation to conversation
    "threads": {"thread": "thread || n", "chat": "chat || n", "last_at": "last_at - n * 60000"},
    "inbox": {
        "thread": "thread || n",
        "message": "message || n",
        "turn": "turn || n",
        "body": "replace(body, 'conversation', 'conversation ' || n)",
    },
    "turns": {"turn": "turn || n", "thread": "thread || n"},
    "steps": {"thread": "thread || n", "turn": "turn || n"},
    "outbox": {
        "id": "id || n",
        "thread": "thread || n",
        "turn": "turn || n",
        "target": "target || n",
    },
}


def multiply(database: Path, times: int) -> None:
    """The first conversation of a store that nobody has open, ``times`` more, each a minute older
    than the one before."""
    with closing(sqlite3.connect(database)) as store, store:
        [thread] = store.execute(
            "SELECT thread FROM threads WHERE channel = 'web' ORDER BY last_at DESC LIMIT 1"
        ).fetchone()
        for table, other in ROWS.items():
            columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(other.get(column, column) for column in columns)
            said = (
                f"INSERT INTO {table} ({', '.join(columns)}) {NUMBERS} SELECT {values} FROM"
                f" {table}, many WHERE thread = ?"
            )
            store.execute(said, (times, thread))
