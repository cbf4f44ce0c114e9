"""The few words that differ between the engines."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(1024)
def sqlite_statement(sql: str) -> str:
    """Tables whose key is the row need no second tree in SQLite."""
    return sql.replace("/*without rowid*/", "WITHOUT ROWID")


@lru_cache(1024)
def postgres_statement(sql: str) -> str:
    """Numbered values; rows that another instance is taking are left out; text sorts by its bytes,
    as in SQLite, whatever the locale."""
    if sql.startswith("CREATE TABLE"):
        sql = sql.replace(" TEXT", ' TEXT COLLATE "C"')
    parts = sql.replace("/*skip locked*/", "FOR UPDATE SKIP LOCKED").split("?")
    return "".join(part if number == 0 else f"${number}{part}" for number, part in enumerate(parts))
