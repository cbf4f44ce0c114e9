"""Figure G5: a store that has grown old, killed while people wait: how soon the next life is ready
and answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.faults.daemon import Awake
from tests.faults.ledger import problems
from tests.faults.scene import Scene

# in an order that keeps their references
COPIED = ("threads", "seen", "inbox", "turns", "steps", "outbox", "usage")
OWN = {"turn", "id", "event_key", "target"}  # columns that name one exchange


async def grown(scene: Scene, *, sessions: int, messages: int) -> None:
    """One exchange through the real daemon, then copies of its rows until the store holds as much
    as was asked for."""
    await scene.daemon.start()
    await scene.says()
    await scene.answered()
    await scene.quiet()
    assert await scene.daemon.stop() == 0
    copied(scene.daemon.home / "ohmo.db", sessions=sessions, each=messages // sessions)


def copied(database: Path, *, sessions: int, each: int) -> None:
    """Every session a chat of its own, with ``each`` exchanges one after the other on its number
    line."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        rows = {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for table in COPIED
        }
        length = rows["threads"][0]["next_seq"] - rows["threads"][0]["session_seq"]
        for session in range(sessions):
            for number in range(each):
                for table in COPIED:
                    if table != "threads":
                        _insert(
                            connection,
                            table,
                            [
                                _copy(row, f"{session}", number, number * length)
                                for row in rows[table]
                            ],
                        )
                    elif not number:
                        _insert(
                            connection,
                            table,
                            [
                                _copy(row, f"{session}", 0, 0)
                                | {"next_seq": row["next_seq"] + each * length}
                                for row in rows[table]
                            ],
                        )
            connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _copy(row: dict[str, Any], session: str, number: int, shift: int) -> dict[str, Any]:
    """Names get the session's (and where there are several in it, the exchange's) number; places on
    the number line move along."""
    found = dict(row)
    for column, value in row.items():
        if column == "chat":
            found[column] = (
                f"{value}{int(session):05d}"  # a number on every platform that has numbers
            )
        elif column == "thread" and value is not None:
            found[column] = f"{value}.{session}"
        elif column in OWN and value is not None:
            found[column] = f"{value}.{session}.{number}"
        elif column in ("seq", "call") and value is not None:
            found[column] = value + shift if column == "seq" else f"{value}.{number}"
    return found


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        marks = ", ".join("?" * len(row))
        connection.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
        )


async def awakened(scene: Scene, *, waiting: int) -> Awake:
    """So many people have spoken and are not answered when the daemon is killed; the next life."""
    if not scene.daemon.alive:
        await scene.daemon.start()
    scene.model.patient = True  # pyright: ignore[reportAttributeAccessIssue]
    before = scene.model.count
    await scene.bursts(waiting, "#wait{60}")
    await scene.models_asked(before + waiting)
    await scene.daemon.kill()
    scene.model.patient = False  # pyright: ignore[reportAttributeAccessIssue]
    await scene.daemon.start(ready=False)
    awake = await scene.daemon.awake(within=30)
    await scene.answered()
    return awake


async def checked(scene: Scene) -> None:
    """The ledger without the transcripts of all the old threads, which are copies."""
    await scene.quiet()
    found = problems(scene.words, await scene.seen())
    _, audit = await scene.daemon.call("GET", "/api/v1/inbox/audit")
    found += [f"audit: {line}" for line in audit["problems"]]
    found += [] if await scene.daemon.stop() == 0 else ["SIGTERM did not end it with 0"]
    found += [f"L5: {line}" for line in scene.daemon.integrity()] + [
        f"L7: {line}" for line in await scene.daemon.left_behind()
    ]
    assert found == [], "\n".join([*found, scene.daemon.said[-3000:]])
