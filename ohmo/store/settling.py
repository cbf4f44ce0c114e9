"""What was open when a backup was made has gone on since: it is neither done again nor dropped in silence, its end is told."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always bound

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from channels.record import record
from ohmo.store.inspection import problem
from ohmo.store.schema import NewerSchema

_OPEN = """UPDATE inbox SET state = 'ended', ending = 'dead', turn = NULL, ended_at = :now,
  reason = 'it was open in the backup; say it again if it was never answered' WHERE state IN ('waiting','taken')"""
_REST = (
    "UPDATE turns SET state = 'failed', ended = :now, reason = 'it was open in the backup' WHERE state IN ('running','parked')",
    """UPDATE outbox SET state = CASE WHEN kind = 'draft' THEN 'dropped' ELSE 'dead' END, ended_at = :now,
    error = 'it was on its way when the backup was made, and may have come since' WHERE state IN ('ready','sending')""",
    "UPDATE approvals SET state = 'void' WHERE state IN ('queued','asked')",
    "UPDATE occurrences SET state = 'failed', reason = 'it was open in the backup' WHERE state = 'claimed'",  # else its job never runs again
    "UPDATE threads SET owner = NULL, until = 0, ready_at = NULL, parked = 0",
    "DELETE FROM leases",
)
_INBOX = "thread, seq, sort, kind, message, album, person, said_at, at, ready_at, body"
_POST = "id, thread, seq, channel, account, turn, body, attempts, at, ready_at, expires, ttl"
_LEFT = "(ended_at IS NULL OR state = 'dead')"  # posts that nobody has read
_UNHEARD = "(ended_at IS NULL OR ending = 'dead')"  # messages that nobody has answered
_KNOWN = "thread IN (SELECT thread FROM main.threads)"
# What the store that is replaced had heard since is no news when a platform tells it again, its jobs have run, and whoever was shown out stays out.
_LATER = (
    "INSERT OR IGNORE INTO main.seen SELECT channel, account, event_key, thread, seq, at FROM later.seen",
    """UPDATE main.jobs SET next_at = l.next_at FROM later.jobs l
    WHERE l.job = main.jobs.job AND l.revision = main.jobs.revision AND l.next_at > main.jobs.next_at""",
    """INSERT OR REPLACE INTO main.people (channel, account, person, name, role, code_hash, expires, by, at)
    SELECT channel, account, person, name, role, code_hash, expires, by, at FROM later.people WHERE role = 'revoked'""",
    """UPDATE main.threads SET next_seq = MAX(main.threads.next_seq, l.next_seq), generation = MAX(main.threads.generation, l.generation)
    FROM later.threads l WHERE l.thread = main.threads.thread""",
    f"""INSERT OR IGNORE INTO main.threads (thread, channel, account, chat, topic, person, next_seq, generation)
    SELECT thread, channel, account, chat, topic, person, next_seq, generation FROM later.threads
    WHERE thread IN (SELECT thread FROM later.inbox WHERE {_UNHEARD}) OR thread IN (SELECT thread FROM later.outbox WHERE {_LEFT})""",
    """UPDATE main.inbox SET ending = l.ending, reason = l.reason FROM later.inbox l WHERE main.inbox.ending = 'dead' AND l.ending <> 'dead'
    AND l.thread = main.inbox.thread AND l.seq = main.inbox.seq AND l.at = main.inbox.at AND l.message IS main.inbox.message""",
    f"""INSERT OR IGNORE INTO main.inbox ({_INBOX}, state, ending, reason, ended_at)
    SELECT {_INBOX}, 'ended', 'dead', COALESCE(reason, 'it was open in the store that was replaced; say it again'), :now
    FROM later.inbox WHERE {_UNHEARD} AND {_KNOWN}""",
    "UPDATE main.outbox SET state = 'dropped' WHERE ended_at = :now AND id IN (SELECT id FROM later.outbox WHERE state IN ('sent','dropped'))",
    # whole and as a message of its own: what an edit would replace may not be known here
    f"""INSERT OR IGNORE INTO main.outbox ({_POST}, kind, state, ended_at, error)
    SELECT {_POST}, 'message', 'dead', :now, COALESCE(error, 'it was not sent before the store was replaced')
    FROM later.outbox WHERE {_LEFT} AND kind <> 'draft' AND {_KNOWN}""",
)


@record
class Settled:
    """``open``: messages that became dead letters. ``unsent``: answers of which nobody knows that they came, dead letters as well.
    ``later``: whether the store that is replaced said what came after the backup."""

    open: int
    later: bool
    unsent: int = 0


def settle(copy: Path, now: int, replaced: Path | None = None) -> Settled:
    """``copy``: the store of a backup, changed in place. ``replaced``: the store that it takes the place of, only read. ``now``: ms.
    Raises sqlite3.Error, OSError."""
    with closing(sqlite3.connect(copy, isolation_level=None, uri=True)) as store:
        store.execute("PRAGMA foreign_keys = ON")
        told = replaced is not None and _readable(replaced)
        if told and replaced is not None:
            store.execute("ATTACH ? AS later", (f"{replaced.resolve().as_uri()}?mode=ro",))
        store.execute("BEGIN IMMEDIATE")
        for statement in (_OPEN, *_REST):
            store.execute(statement, {"now": now} if ":now" in statement else {})
        if told:
            try:
                store.execute("SAVEPOINT later")
                for statement in _LATER:
                    store.execute(statement, {"now": now} if ":now" in statement else {})
            except sqlite3.Error:  # of another form, or a page of it cannot be read
                store.execute("ROLLBACK TO later")
                told = False
        messages, posts = _dead(store, now)
        store.execute("COMMIT")
    return Settled(messages, told, posts)


def _dead(store: sqlite3.Connection, now: int) -> tuple[int, int]:
    """Messages and posts that became dead letters at this moment."""
    inbox, outbox = (
        store.execute(f"SELECT COUNT(*) FROM main.{table} WHERE ended_at = ? AND {column} = 'dead'", (now,)).fetchone()[0]
        for table, column in (("inbox", "ending"), ("outbox", "state"))
    )
    return int(inbox), int(outbox)


def _readable(path: Path) -> bool:
    with suppress(sqlite3.Error, OSError, NewerSchema):
        return path.is_file() and problem(path) is None
    return False
