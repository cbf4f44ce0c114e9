"""What was kept of folders before turns changed them: rows, oldest first."""

from __future__ import annotations

from collections.abc import Collection

from ohmo.contracts.turns import Checkpoint
from ohmo.store.codec import column, from_column, read_settings
from ohmo.store.statements import Moment, Op, instant, milliseconds

_KEEP = """INSERT INTO checkpoints (id, thread, turn, repo, tree, bytes, at)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"""


def keep_checkpoint(_: Moment, row: Checkpoint) -> Op[None]:
    kept = (row.id, row.thread, row.turn, column(row.repo), row.tree, row.size)
    yield _KEEP, (*kept, milliseconds(row.at))


def checkpoints(thread: str | None = None) -> Op[list[Checkpoint]]:
    where = "" if thread is None else " AND thread = ?"
    rows = yield (
        f"""SELECT id, thread, turn, repo, tree, bytes, at FROM checkpoints
        WHERE gone_at IS NULL{where} ORDER BY at, id""",  # noqa: S608 - of constants
        () if thread is None else (thread,),
    )
    return [
        Checkpoint(id_, of, turn, from_column(repo), tree, size, instant(at))
        for id_, of, turn, repo, tree, size, at in rows
    ]


def session_turns(thread: str) -> Op[set[str]]:
    rows = yield "SELECT session_seq, settings FROM threads WHERE thread = ?", (thread,)
    session, settings = rows[0] if rows else (0, "{}")
    chosen = read_settings(settings)
    turns = yield (
        "SELECT turn, MIN(seq) FROM steps WHERE thread = ? AND seq >= ? GROUP BY turn",
        (thread, session),
    )
    return {turn for turn, first in turns if chosen.holds(session, first)}


def drop_checkpoints(at: Moment, ids: Collection[str]) -> Op[None]:
    for each in ids:
        yield "UPDATE checkpoints SET gone_at = ? WHERE id = ? AND gone_at IS NULL", (at.now, each)
