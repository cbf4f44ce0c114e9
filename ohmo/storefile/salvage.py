"""Carrying over what can still be read from a damaged store, and reconciling the store of a backup
with what happened after the backup was made.

What was open then has gone on since: it is neither done again nor dropped in silence. Messages and
answers that were open become dead letters, which a person sees and may bring back; from the store
that is replaced, as far as it can be read, is learnt what it had heard and said since."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from channels.record import record
from ohmo.database.migrations import TABLES, NewerSchema
from ohmo.storefile.archive import DATABASE, BackupError, backups, unpack
from ohmo.storefile.inspection import problem
from ohmo.storefile.lock import staging_dir

# What points at something that could not be read would break every later write; what ran must be
# looked at again.
_REPAIRS = (
    # a lease that could not be read begins anew; its cursors must not fence it off
    "UPDATE cursors SET generation = 0",
    *(
        f"DELETE FROM {table} WHERE thread NOT IN (SELECT thread FROM threads)"
        for table in ("inbox", "turns", "steps", "outbox", "approvals")
    ),
    """UPDATE outbox
    SET target = NULL
    WHERE target IS NOT NULL
      AND target NOT IN (SELECT id FROM outbox)""",
    """UPDATE inbox
    SET state = 'waiting', turn = NULL
    WHERE state = 'taken'
      AND NOT EXISTS (
        SELECT 1 FROM turns u
        WHERE u.turn = inbox.turn
          AND u.state IN ('running','parked'))""",
    """UPDATE turns
    SET state = 'running'
    WHERE state = 'parked'
      AND NOT EXISTS (
        SELECT 1 FROM approvals a
        WHERE a.turn = turns.turn
          AND a.state = 'asked')""",
    """UPDATE turns
    SET state = 'failed', ended = :now, reason = 'its arrivals could not be read'
    WHERE state IN ('running','parked')
      AND NOT EXISTS (
        SELECT 1 FROM inbox i
        WHERE i.turn = turns.turn
          AND i.state = 'taken')""",
    """UPDATE approvals
    SET state = 'void'
    WHERE state IN ('queued','asked')
      AND NOT EXISTS (
        SELECT 1 FROM turns u
        WHERE u.turn = approvals.turn
          AND u.state = 'parked')""",
    """UPDATE threads
    SET owner = NULL,
      until = 0,
      generation = generation + 1,
      parked = EXISTS (
        SELECT 1 FROM turns u WHERE u.thread = threads.thread AND u.state = 'parked'),
      next_seq = MAX(next_seq, 1 + MAX(
        COALESCE((SELECT MAX(seq) FROM inbox WHERE thread = threads.thread), 0),
        COALESCE((SELECT MAX(seq) FROM steps WHERE thread = threads.thread), 0),
        COALESCE((SELECT MAX(seq) FROM outbox WHERE thread = threads.thread), 0),
        COALESCE((SELECT MAX(seq) FROM approvals WHERE thread = threads.thread), 0)))""",
    """UPDATE threads
    SET ready_at = CASE
      WHEN parked = 1 THEN NULL
      WHEN EXISTS (
        SELECT 1 FROM turns u WHERE u.thread = threads.thread AND u.state = 'running')
      THEN :now
      WHEN EXISTS (
        SELECT 1 FROM inbox i
        WHERE i.thread = threads.thread
          AND i.state = 'waiting'
          AND i.kind IN ('message','wake'))
      THEN :now
      END""",
)


def salvage(damaged: Path, store: Path, now: int) -> dict[str, int]:
    """Rows carried over per table from ``damaged`` (left as it is) into the new, empty
    ``store``."""
    with staging_dir(store.parent) as folder:
        copy = folder / damaged.name
        for part in damaged.parent.iterdir():
            if part.name in (damaged.name, damaged.name + "-wal") and part.is_file():
                shutil.copy(part, copy.with_name(part.name))
        return carry_over(copy, store, now) if copy.exists() else {}


def carry_over(copy: Path, store: Path, now: int) -> dict[str, int]:
    """Rows of ``copy``, a file that may be written to, that ``store`` does not have yet; then what
    points nowhere is repaired."""
    saved: dict[str, int] = {}
    with (
        closing(sqlite3.connect(copy)) as old,
        closing(sqlite3.connect(store, isolation_level=None)) as new,
    ):
        old.text_factory = partial(str, encoding="utf-8", errors="replace")
        new.execute("PRAGMA synchronous = FULL")
        new.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            count = 0
            for columns, row in _rows(old, table):
                names = ", ".join(columns)
                marks = ", ".join("?" * len(columns))
                # names come from the schema of the file and must be columns here, otherwise the
                # statement fails and the row is left
                with suppress(sqlite3.Error):
                    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
                    count += new.execute(insert, row).rowcount
            if count:
                saved[table] = count
        _execute(new, _REPAIRS, now)
        new.execute("COMMIT")
    return saved


def _rows(
    old: sqlite3.Connection, table: str
) -> Iterator[tuple[tuple[str, ...], tuple[object, ...]]]:
    """From both ends towards the damage, and past it by looking up the numbers between."""
    for query in (
        f"SELECT * FROM {table}",
        f"SELECT * FROM {table} NOT INDEXED ORDER BY rowid DESC",
        f"SELECT * FROM {table} ORDER BY 1 DESC",
    ):
        try:
            cursor = old.execute(query)
            columns = tuple(str(part[0]) for part in cursor.description)
            while (row := cursor.fetchone()) is not None:
                yield columns, row
            return
        except (sqlite3.Error, UnicodeDecodeError):  # also the name of a column may be damaged
            continue


def _execute(connection: sqlite3.Connection, statements: Iterable[str], now: int) -> None:
    for statement in statements:
        connection.execute(statement, {"now": now} if ":now" in statement else {})


def fill_in(folder: Path, store: Path, now: int) -> tuple[int, datetime | None]:
    """Rows that came from the newest whole backup in ``folder``, and when it was made; (0, None):
    there is none. ``now``: ms."""
    for backup in reversed(backups(folder, datetime.fromtimestamp(now / 1_000, UTC))):
        with staging_dir(store.parent) as work:
            try:
                unpack(backup.path, work)
            except (BackupError, OSError, sqlite3.Error):
                continue  # an older one may be whole
            copy = work / DATABASE
            if not copy.exists():
                continue
            reconcile(copy, now)
            return sum(carry_over(copy, store, now).values()), backup.made
    return 0, None


@record
class Reconciled:
    """``open``: messages that became dead letters. ``unsent``: answers of which nobody knows that
    they came, dead letters as well. ``later``: whether the store that is replaced said what came
    after the backup."""

    open: int
    later: bool
    unsent: int = 0


def reconcile(copy: Path, now: int, replaced: Path | None = None) -> Reconciled:
    """``copy``: the store of a backup, changed in place. ``replaced``: the store that it takes the
    place of, only read. ``now``: ms. Raises sqlite3.Error, OSError."""
    with closing(sqlite3.connect(copy, isolation_level=None, uri=True)) as store:
        store.execute("PRAGMA foreign_keys = ON")
        attached = False
        with suppress(sqlite3.Error, OSError, NewerSchema):
            attached = replaced is not None and replaced.is_file() and problem(replaced) is None
        if attached and replaced is not None:
            store.execute("ATTACH ? AS later", (f"{replaced.resolve().as_uri()}?mode=ro",))
        store.execute("BEGIN IMMEDIATE")
        _execute(store, _OPENED, now)
        if attached:
            try:
                store.execute("SAVEPOINT later")
                _execute(store, _LATER, now)
                for table, strange in (("inbox", _LETTERS), ("outbox", _POSTS)):
                    strays = store.execute(_STRAYS.format(table=table, strange=strange))
                    for thread, seq in strays.fetchall():
                        ((fresh,),) = store.execute(_NEXT, (thread,)).fetchall()
                        store.execute("INSERT INTO moved VALUES (?, ?, ?)", (thread, seq, fresh))
                _execute(store, _DEAD, now)
            except sqlite3.Error:  # of another form, or a page of it cannot be read
                store.execute("ROLLBACK TO later")
                attached = False
        became_dead = "SELECT COUNT(*) FROM main.{} WHERE ended_at = ? AND {} = 'dead'"
        messages = store.execute(became_dead.format("inbox", "ending"), (now,)).fetchone()[0]
        posts = store.execute(became_dead.format("outbox", "state"), (now,)).fetchone()[0]
        store.execute("COMMIT")
    return Reconciled(messages, attached, posts)


# --- What was open when the backup was made. Every backup of a working daemon may hold such rows.

_OPENED = (
    # Messages that waited or were in a turn: nobody knows whether they were answered since.
    """UPDATE inbox
    SET state = 'ended', ending = 'dead', turn = NULL, ended_at = :now,
      reason = 'it was open in the backup; say it again if it was never answered'
    WHERE state IN ('waiting','taken')""",
    # Turns that ran or waited for an answer: their process is long gone.
    """UPDATE turns
    SET state = 'failed', ended = :now, reason = 'it was open in the backup'
    WHERE state IN ('running','parked')""",
    # Posts on their way: they may have come. A draft was replaced by its turn's end since.
    """UPDATE outbox
    SET state = CASE WHEN kind = 'draft' THEN 'dropped' ELSE 'dead' END, ended_at = :now,
      error = 'it was on its way when the backup was made, and may have come since'
    WHERE state IN ('ready','sending')""",
    # Questions whose turns have just ended.
    "UPDATE approvals SET state = 'void' WHERE state IN ('queued','asked')",
    # Runs of jobs that were not over: left so, their job would never run again.
    """UPDATE occurrences
    SET state = 'failed', reason = 'it was open in the backup'
    WHERE state = 'claimed'""",
    # Threads that were held, ready or parked: nothing in them is open any more.
    "UPDATE threads SET owner = NULL, until = 0, ready_at = NULL, parked = 0",
    # Leases of the process that made the backup, or of one before it.
    "DELETE FROM leases",
)

# --- What only the replaced store knows. It is attached as ``later`` and only read.

_LEFT = "(ended_at IS NULL OR state = 'dead')"  # posts that nobody has read
_UNHEARD = "(ended_at IS NULL OR ending = 'dead')"  # messages that nobody has answered
# An arrival and the same one in another store. What a platform said has its name there, anything
# else bears its key.
_SAME = """i.thread = l.thread AND i.message = l.message AND i.kind = l.kind
AND ((l.message <> '' AND i.sort = l.sort) OR i.body = l.body)"""

_LATER = (
    # Events heard since the backup: they are no news when a platform tells them again.
    """INSERT OR IGNORE INTO main.seen
    SELECT channel, account, event_key, thread, seq, at FROM later.seen""",
    # Jobs that have run since: their next slot lies behind those runs.
    """UPDATE main.jobs
    SET next_at = l.next_at
    FROM later.jobs l
    WHERE l.job = main.jobs.job
      AND l.revision = main.jobs.revision
      AND l.next_at > main.jobs.next_at""",
    # People who were shown out since the backup stay out.
    """INSERT OR REPLACE INTO main.people
      (channel, account, person, name, role, code_hash, expires, by, at)
    SELECT channel, account, person, name, role, code_hash, expires, by, at
    FROM later.people
    WHERE role = 'revoked'""",
    # Where each thread of the backup ended, before it is moved on: see ``_STRAYS``.
    "CREATE TEMP TABLE ends AS SELECT thread, next_seq FROM main.threads",
    # Rows that get another number there.
    """CREATE TEMP TABLE moved
    (thread TEXT, seq INTEGER, fresh INTEGER, PRIMARY KEY (thread, seq))""",
    # Threads that went on: no number and no generation is given out twice.
    """UPDATE main.threads
    SET next_seq = MAX(main.threads.next_seq, l.next_seq),
      generation = MAX(main.threads.generation, l.generation)
    FROM later.threads l
    WHERE l.thread = main.threads.thread""",
    # Threads begun since the backup in which something is unanswered or unsaid.
    f"""INSERT OR IGNORE INTO main.threads
      (thread, channel, account, chat, topic, person, next_seq, generation)
    SELECT thread, channel, account, chat, topic, person, next_seq, generation
    FROM later.threads
    WHERE thread IN (SELECT thread FROM later.inbox WHERE {_UNHEARD})
      OR thread IN (SELECT thread FROM later.outbox WHERE {_LEFT})""",
    # Messages that were open in the backup and have ended otherwise since: no dead letters.
    f"""UPDATE main.inbox AS i
    SET ending = l.ending, reason = l.reason
    FROM later.inbox l
    WHERE i.ending = 'dead'
      AND l.ending <> 'dead'
      AND {_SAME}""",
    # Posts that were on their way in the backup and were said since.
    """UPDATE main.outbox
    SET state = 'dropped'
    WHERE ended_at = :now
      AND id IN (
        SELECT id FROM later.outbox WHERE state IN ('sent','dropped'))""",
)

# The number of a row in its thread. A store that took another way since (another home, an older
# restore) has given it to something else: then the row gets the next one that is free.
_STRAYS = """SELECT l.thread, l.seq
FROM later.{table} l
JOIN temp.ends e ON e.thread = l.thread
  AND l.seq < e.next_seq
WHERE {strange}"""
_NEXT = "UPDATE main.threads SET next_seq = next_seq + 1 WHERE thread = ? RETURNING next_seq - 1"
_NUMBER = """COALESCE(
(SELECT m.fresh FROM temp.moved m WHERE m.thread = l.thread AND m.seq = l.seq), l.seq)"""

_KNOWN = "thread IN (SELECT thread FROM main.threads)"
_INBOX = "thread, sort, kind, message, album, person, said_at, at, ready_at, body"
_POST = "id, thread, channel, account, turn, body, attempts, at, ready_at, expires, ttl"
_LETTERS = f"{_UNHEARD} AND l.{_KNOWN} AND NOT EXISTS (SELECT 1 FROM main.inbox i WHERE {_SAME})"
# Whole and as a message of its own: what an edit would replace may not be known here.
_POSTS = f"""{_LEFT} AND l.kind <> 'draft' AND l.{_KNOWN}
AND NOT EXISTS (SELECT 1 FROM main.outbox o WHERE o.id = l.id)"""

_DEAD = (
    # Messages that came after the backup and were not answered.
    f"""INSERT INTO main.inbox
      ({_INBOX}, seq, state, ending, reason, ended_at)
    SELECT {_INBOX}, {_NUMBER}, 'ended', 'dead',
      COALESCE(reason, 'it was open in the store that was replaced; say it again'), :now
    FROM later.inbox l
    WHERE {_LETTERS}""",
    # Posts that were written after the backup and not said.
    f"""INSERT INTO main.outbox
      ({_POST}, seq, kind, state, ended_at, error)
    SELECT {_POST}, {_NUMBER}, 'message', 'dead', :now,
      COALESCE(error, 'it was not sent before the store was replaced')
    FROM later.outbox l
    WHERE {_POSTS}""",
    # Names of events whose rows have got another number above.
    """UPDATE main.seen AS s
    SET seq = m.fresh
    FROM temp.moved m
    JOIN later.seen l ON l.thread = m.thread
      AND l.seq = m.seq
    WHERE s.channel = l.channel
      AND s.account = l.account
      AND s.event_key = l.event_key
      AND s.thread = m.thread
      AND s.seq = m.seq""",
)
