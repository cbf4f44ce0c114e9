"""What is done to the store as a whole: letting go of what ended long ago, a clock that was set,
leases of what only one process may do, and the audit."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from ohmo.ambient import Failpoint, inert
from ohmo.contracts.reports import AuditReport
from ohmo.contracts.store import Hint
from ohmo.store.codec import column, read_settings
from ohmo.store.earlier_sessions import BATCH, SESSIONS, prune_gaps
from ohmo.store.known_people import look_through
from ohmo.store.statements import Driver, MakeOp, Moment, Op, Rows, Value, milliseconds, query
from ohmo.store.threads import TURN_OPEN

SEEN_DAYS = 30
_DAY = 86_400_000
_ORPHAN = 600_000  # ms that an edit waits for an original that never came

# An edit whose message no longer waits can never be applied.
_EDITS = f"""UPDATE inbox
SET state = 'ended', ending = 'noted', reason = 'no message to edit', ended_at = ?
WHERE (thread, seq) IN (
  SELECT e.thread, e.seq
  FROM inbox e
  WHERE e.ended_at IS NULL
    AND e.state = 'waiting'
    AND e.kind = 'edit'
    AND e.at < ?
    AND NOT EXISTS (
      SELECT 1 FROM inbox m
      WHERE m.thread = e.thread
        AND m.message = e.message
        AND m.kind = 'message'
        AND m.ended_at IS NULL
        AND m.state = 'waiting')
  LIMIT {BATCH})
RETURNING seq"""
_INBOX = f"""DELETE FROM inbox
WHERE (thread, seq) IN (
  SELECT thread, seq
  FROM inbox
  WHERE state = 'ended'
    AND ended_at < ?
  ORDER BY ended_at
  LIMIT {BATCH})
RETURNING seq"""
# A row that another one replaces goes after it, never before.
_OUTBOX = f"""DELETE FROM outbox
WHERE id IN (
  SELECT o.id
  FROM outbox o
  WHERE o.ended_at IS NOT NULL
    AND o.ended_at < ?
    AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.target = o.id)
  ORDER BY o.ended_at
  LIMIT {BATCH})
RETURNING id"""
# Of each job the last run that came to an end stays: the next one may be compared with it.
_OCCURRENCES = f"""DELETE FROM occurrences
WHERE (job, due) IN (
  SELECT o.job, o.due
  FROM occurrences o
  WHERE o.state <> 'claimed'
    AND o.at < ?
    AND NOT (
      o.state = 'done'
      AND o.due = (
        SELECT MAX(d.due) FROM occurrences d WHERE d.job = o.job AND d.state = 'done'))
  ORDER BY o.at
  LIMIT {BATCH})
RETURNING due"""
# What was allowed for a session is nothing once the session is over.
_GRANTS = f"""DELETE FROM grants
WHERE id IN (
  SELECT grants.id
  FROM grants
  JOIN threads t ON t.thread = substr(grants.scope, 1, 22)
  WHERE substr(grants.scope, 23, 1) = '.'
    AND grants.scope <> t.thread || '.' || CAST(t.session_seq AS TEXT)
  LIMIT {BATCH})
RETURNING id"""

# Turns and names of events are not kept in order of time as well: every message would pay for it.
# They are walked in the order of their key.
_OLD_TURNS = "u.turn > ? AND u.turn <= ? AND u.ended IS NOT NULL AND u.ended < ?"
_TURN_AT = f"SELECT turn FROM turns WHERE turn > ? ORDER BY turn LIMIT 1 OFFSET {BATCH - 1}"
_LAST_TURN = "SELECT MAX(turn) FROM turns WHERE turn > ?"
# The log of the present session stays, however old: it is what the model knows.
_STEPS = f"""DELETE FROM steps
WHERE (thread, seq) IN (
  SELECT s.thread, s.seq
  FROM turns u
  JOIN steps s ON s.thread = u.thread
    AND s.turn = u.turn
  JOIN threads t ON t.thread = u.thread
  WHERE {_OLD_TURNS}
    AND s.seq < t.session_seq
  LIMIT {BATCH})
RETURNING seq"""
_APPROVALS = f"""DELETE FROM approvals
WHERE id IN (
  SELECT a.id
  FROM turns u
  JOIN approvals a ON a.turn = u.turn
  WHERE {_OLD_TURNS}
  LIMIT {BATCH})
RETURNING id"""
_TURNS = f"""DELETE FROM turns
WHERE turn IN (
  SELECT u.turn
  FROM turns u
  WHERE {_OLD_TURNS}
    AND NOT EXISTS (
      SELECT 1 FROM steps s
      WHERE s.thread = u.thread
        AND s.turn = u.turn)
    AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.turn = u.turn)
  LIMIT {BATCH})
RETURNING turn"""
# What a turn cost outlives it in the books by day; its own total serves its budget alone.
_TURN_TOTALS = """DELETE FROM spending
WHERE scope = 'turn'
  AND name > ?
  AND name <= ?
  AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = spending.name)"""
_NAME = "channel, account, {key}"
_NAME_AT = f"""SELECT {_NAME}
FROM {{table}}
WHERE ({_NAME}) > (?, ?, ?)
ORDER BY {_NAME}
LIMIT 1 OFFSET {BATCH - 1}"""
_LAST_NAME = f"""SELECT {_NAME}
FROM {{table}}
WHERE ({_NAME}) > (?, ?, ?)
ORDER BY channel DESC, account DESC, {{key}} DESC
LIMIT 1"""
_OLD_NAMES = f"""DELETE FROM {{table}}
WHERE ({_NAME}) > (?, ?, ?)
  AND ({_NAME}) <= (?, ?, ?)
  AND {{time}} < ?
RETURNING {{time}}"""
_SEEN = {"table": "seen", "key": "event_key", "time": "at"}
_SPEAKERS = {"table": "speakers", "key": "person", "time": "day"}
# Conversations whose beginning went: they begin with what is left.
_BEGUN = f"""SELECT thread
FROM threads t
WHERE thread > ?
  AND begins > 0
  AND NOT EXISTS (
    SELECT 1 FROM inbox i
    WHERE i.thread = t.thread
      AND i.seq = t.begins)
ORDER BY thread
LIMIT {BATCH}"""


def _delete(failpoint: Failpoint, statement: str, *values: Value) -> Op[int]:
    rows = yield statement, values
    if rows:
        failpoint("prune.step")  # gone, and not committed
    return len(rows)


def _stop(statement: str, last: str, start: Sequence[Value]) -> Op[Sequence[Value] | None]:
    """The key at which the next stretch ends; None: there is nothing behind ``start``."""
    rows = yield statement, tuple(start)
    if not rows:
        rows = yield last, tuple(start)
    return rows[0] if rows and rows[0][0] is not None else None


async def prune(
    driver: Driver, before: datetime, transcripts: datetime | None, failpoint: Failpoint = inert
) -> int:
    """Returns how many rows went or were ended. ``transcripts``: the log of a conversation may
    have an earlier limit of its own.

    A post may go only after the one that replaced it has gone; the name of an event outlives its
    body, so that it stays a duplicate."""
    limit = milliseconds(before)
    logs = limit if transcripts is None else min(limit, milliseconds(transcripts))
    delete = partial(_delete, failpoint)
    total = await _until_nothing_goes(driver, lambda at: delete(_EDITS, at.now, at.now - _ORPHAN))
    total += await _until_nothing_goes(driver, lambda _: delete(_GRANTS))
    for statement in (_INBOX, _OUTBOX, _OCCURRENCES):
        total += await _until_nothing_goes(driver, lambda _, s=statement: delete(s, limit))
    thread = ""
    while rows := await driver.read(lambda _, after=thread: query(SESSIONS, after), slow=True):
        for thread, present, settings in rows:
            if not read_settings(settings).gaps(present):
                continue
            total += await _until_nothing_goes(
                driver, lambda _, thread=thread: prune_gaps(delete, thread, logs)
            )
    start = tuple[Value, ...](("",))
    while (
        stop := await driver.read(lambda _, a=start: _stop(_TURN_AT, _LAST_TURN, a), slow=True)
    ) is not None:
        for statement in (_STEPS, _APPROVALS, _TURNS):
            total += await _until_nothing_goes(
                driver, lambda _, s=statement, a=start, b=stop: delete(s, *a, *b, logs)
            )
        await driver.write(lambda _, a=start, b=stop: query(_TURN_TOTALS, *a, *b))
        start = tuple(stop)
    total += await _prune_names(driver, _SEEN, limit, SEEN_DAYS * _DAY, delete)
    total += await _prune_names(driver, _SPEAKERS, limit - _DAY, 0, delete)
    thread = ""
    while rows := await driver.read(lambda _, after=thread: query(_BEGUN, after), slow=True):
        await driver.write(lambda _, rows=rows: _unread(rows))
        thread = rows[-1][0]
    await look_through(driver)
    return total


async def _until_nothing_goes(driver: Driver, batch: MakeOp[int]) -> int:
    total = 0
    while (count := await driver.write(batch)) > 0:
        total += count
    return total


async def _prune_names(
    driver: Driver, names: Mapping[str, str], before: int, kept: int, delete: Callable[..., Op[int]]
) -> int:
    """Those of ``names`` (a table, the last column of its key, its time) that are older; ``kept``:
    for so many ms at least."""
    stretch, last = _NAME_AT.format(**names), _LAST_NAME.format(**names)
    old = _OLD_NAMES.format(**names)
    total, start = 0, tuple[Value, ...](("", "", ""))
    while (
        stop := await driver.read(lambda _, start=start: _stop(stretch, last, start), slow=True)
    ) is not None:
        total += await driver.write(
            lambda at, a=start, b=stop: delete(old, *a, *b, min(before, at.now - kept))
        )
        start = tuple(stop)
    return total


def _unread(rows: Rows) -> Op[None]:
    for (thread,) in rows:
        yield "UPDATE threads SET begins = NULL WHERE thread = ?", (thread,)


def begin_life(life: str) -> Op[None]:
    """In the log before anything else that a process writes: see ``ohmo.storefile.wal_check``."""
    yield (
        """INSERT INTO meta (name, value) VALUES ('life', ?) ON CONFLICT (name) DO UPDATE
        SET value = excluded.value""",
        (life,),
    )


def lease(at: Moment, name: str, owner: str, ttl: float) -> Op[int | None]:
    """Renewing one's own keeps the generation, also when it ran out and nobody took it."""
    rows = yield (
        """INSERT INTO leases (name, owner, until, generation) VALUES (?, ?, ?, 1)
    ON CONFLICT (name) DO UPDATE SET
          owner = excluded.owner, until = excluded.until,
          generation = CASE WHEN leases.owner = excluded.owner THEN leases.generation
          ELSE leases.generation + 1 END
        WHERE leases.owner = excluded.owner OR leases.until <= ? RETURNING generation""",
        (name, owner, at.later(ttl), at.now),
    )
    return rows[0][0] if rows else None


def unlease(_: Moment, name: str, owner: str) -> Op[None]:
    yield "UPDATE leases SET owner = '', until = 0 WHERE name = ? AND owner = ?", (name, owner)


JUMP = 300_000  # ms that a clock may be corrected by without anybody noticing
_WAITS = (
    ("threads", "ready_at", "ready_at IS NOT NULL"),
    ("threads", "until", "until > 0"),
    ("inbox", "ready_at", "ended_at IS NULL AND state = 'waiting'"),
    ("approvals", "deadline", "state = 'asked'"),
    ("outbox", "ready_at", "ended_at IS NULL"),
    ("outbox", "expires", "ended_at IS NULL"),
    ("people", "expires", "expires IS NOT NULL"),
    ("leases", "until", "until > 0"),
)


def rebase(at: Moment, seconds: float | None) -> Op[float]:
    """None: from the newest row, when it lies more than ``JUMP`` ahead. Returns the seconds."""
    delta = 0 if seconds is None else round(seconds * 1000)
    if seconds is None:
        rows = yield "SELECT MAX(last_at) FROM threads", ()
        newest = rows[0][0]
        delta = int(at.now - newest) if newest is not None and newest - at.now > JUMP else 0
    if delta:
        for table, name, where in _WAITS:
            yield f"UPDATE {table} SET {name} = {name} + ? WHERE {where}", (delta,)
        # Otherwise the next start would find the same newest row, and move everything once more.
        yield "UPDATE threads SET last_at = ? WHERE last_at > ?", (at.now, at.now + JUMP)
        at.hints.append(Hint("any"))
    return delta / 1000


def link(previous: str, n: int, at: int, kind: str, body: str) -> str:
    """The hash of one link: it binds everything before it."""
    return hashlib.sha256(json.dumps([previous, n, at, kind, body]).encode()).hexdigest()


def audit(at: Moment, kind: str, body: str) -> Op[None]:
    writer = at.instance.writer
    rows = yield "SELECT n, hash FROM audit WHERE writer = ? ORDER BY n DESC LIMIT 1", (writer,)
    n, previous = (rows[0][0] + 1, rows[0][1]) if rows else (1, "")
    kind, body = column(kind), column(body)
    yield (
        "INSERT INTO audit (writer, n, at, kind, body, hash) VALUES (?, ?, ?, ?, ?, ?)",
        (writer, n, at.now, kind, body, link(previous, n, at.now, kind, body)),
    )


_LAWS: Sequence[tuple[str, str]] = (
    (
        "an arrival is taken by a turn that is not open",
        f"""SELECT i.thread, i.seq FROM inbox i WHERE i.ended_at IS NULL AND i.state = 'taken'
        AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = i.turn AND u.thread = i.thread
        AND u.{TURN_OPEN})""",
    ),
    (
        "a message waits in a thread that nobody will look at",
        """SELECT i.thread, i.seq FROM inbox i JOIN threads t ON t.thread = i.thread
        WHERE i.ended_at IS NULL AND i.state = 'waiting' AND i.kind IN ('message','wake')
        AND t.ready_at IS NULL AND t.parked = 0""",
    ),
    (
        "a running turn stands in a thread that nobody will look at",
        """SELECT u.thread, 0 FROM turns u JOIN threads t ON t.thread = u.thread
        WHERE u.state = 'running' AND t.ready_at IS NULL""",
    ),
    (
        "a parked turn has no open question",
        """SELECT u.thread, 0 FROM turns u WHERE u.state = 'parked'
        AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.turn = u.turn AND a.state = 'asked')""",
    ),
    (
        "a question is open in a turn that is not parked",
        """SELECT a.thread, a.seq FROM approvals a WHERE a.state IN ('queued','asked')
        AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = a.turn AND u.state = 'parked')""",
    ),
    (
        "a thread is marked parked without a parked turn, or the other way round",
        """SELECT t.thread, 0 FROM threads t
        WHERE (t.parked = 1) <> EXISTS (SELECT 1 FROM turns u WHERE u.thread = t.thread
        AND u.state = 'parked' AND u.state IN ('running','parked'))""",
    ),
    (
        "a turn is done and none of its arrivals was answered",
        """SELECT i.thread, MIN(i.seq) FROM inbox i JOIN turns u ON u.turn = i.turn
    WHERE u.state = 'done' AND i.turn IS NOT NULL
        AND (i.ending IS NULL OR i.ending <> 'noted')
        GROUP BY i.thread, i.turn HAVING SUM(CASE WHEN i.ending = 'answered' THEN 1
        ELSE 0 END) <> 1""",
    ),
)


def audit_report() -> Op[AuditReport]:
    ended = yield "SELECT ending, COUNT(*) FROM inbox WHERE state = 'ended' GROUP BY ending", ()
    live = yield "SELECT state, COUNT(*) FROM inbox WHERE ended_at IS NULL GROUP BY state", ()
    posts = yield "SELECT state, COUNT(*) FROM outbox GROUP BY state", ()
    problems: list[str] = []
    for law, breaches in _LAWS:
        rows = yield breaches, ()
        problems += [
            f"{law}: thread {thread}" + (f", number {seq}" if seq else "") for thread, seq in rows
        ]
    writers = yield "SELECT DISTINCT writer FROM audit ORDER BY writer", ()
    for (writer,) in writers:
        key: tuple[Value, ...] = (writer,)
        links = yield "SELECT n, at, kind, body, hash FROM audit WHERE writer = ? ORDER BY n", key
        previous = ""
        for expected, (n, at, kind, body, proof) in enumerate(links, 1):
            if n != expected or proof != link(previous, n, at, kind, body):
                problems.append(f"the audit chain of {writer} is broken at {n}")
                break
            previous = proof
    endings: dict[str, int] = {row[0]: row[1] for row in ended}
    on_the_way: dict[str, int] = {row[0]: row[1] for row in live}
    return AuditReport(
        accepted=sum(endings.values()) + sum(on_the_way.values()),
        endings=endings,
        waiting=on_the_way.get("waiting", 0),
        taken=on_the_way.get("taken", 0),
        posts={row[0]: row[1] for row in posts},
        problems=tuple(problems),
    )
