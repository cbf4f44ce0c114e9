"""A home with a store that holds something, for backups and damage."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ohmo.ambient import inert
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.recovery import create


def furnished(home: Path, messages: int = 20) -> Path:
    """Returns the database. Even messages are answered, odd ones wait; each has a thread of its
    own."""
    database = home / "ohmo.db"
    create(database, inert, MIGRATIONS)
    with closing(sqlite3.connect(database)) as connection, connection:
        for n in range(messages):
            say(connection, n, waiting=bool(n % 2))
        connection.execute(
            "INSERT INTO trusts (kind, name, digest, person, at) VALUES ('skill', 'x', 'd', 'p', 1)"
        )
    for name, text in (
        ("config.yaml", "owner: []\n"),
        ("SOUL.md", "soul"),
        ("memory/a/note.md", "note"),
        ("skills/x/SKILL.md", "skill"),
        (".env", "A=1\n"),
    ):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home / "media").mkdir()
    (home / "media" / "big").write_text("x")
    (home / "state" / "matrix").mkdir(parents=True)
    with (
        closing(sqlite3.connect(home / "state" / "matrix" / "crypto.db")) as connection,
        connection,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE keys (name TEXT)")
        connection.execute("INSERT INTO keys VALUES ('k')")
    return database


def say(connection: sqlite3.Connection, n: int, *, waiting: bool) -> None:
    connection.execute(
        "INSERT INTO threads (thread, channel, account, chat, topic, person, next_seq, ready_at)"
        " VALUES (?, 'telegram', '1', ?, '', '', 2, ?)",
        (f"t{n}", f"c{n}", 1 if waiting else None),
    )
    state, ending, ended = ("waiting", None, None) if waiting else ("ended", "answered", 5)
    connection.execute(
        "INSERT INTO inbox (thread, seq, sort, kind, message, album, person, said_at, at, ready_at,"
        " body, state, ending, ended_at) VALUES (?, 1, '1', 'message', 'm', '', '1', 1, 1, 1, ?, ?,"
        " ?, ?)",
        (f"t{n}", f'{{"marker": "m-{n}"}}', state, ending, ended),
    )


def markers(database: Path) -> dict[int, str]:
    """What became of each message."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT body, COALESCE(ending, state) FROM inbox").fetchall()
    return {int(body.split("m-")[1].rstrip('"}')): what for body, what in rows}
