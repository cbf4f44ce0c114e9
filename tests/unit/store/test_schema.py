"""The list of tables that a move and a rescue copy is the schema's own."""

from __future__ import annotations

import re
import sqlite3

from ohmo.database.migrations import MIGRATIONS, TABLES, sqlite_statement


def test_every_table_of_the_schema_is_copied() -> None:
    with sqlite3.connect(":memory:") as store:
        for number in sorted(MIGRATIONS):
            for statement in MIGRATIONS[number]:
                store.execute(sqlite_statement(statement))
        rows = store.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name: sql for name, sql in rows if not name.startswith("sqlite_")}
    assert sorted(TABLES) == sorted(tables)
    for table, sql in tables.items():
        for parent in re.findall(r"REFERENCES (\w+)", sql):
            assert TABLES.index(parent) <= TABLES.index(table), f"{table} before its {parent}"
