"""Jobs and their occurrences: a slot is claimed with its wake, ends with its arrival, or is passed
over with a reason."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ohmo.contracts.arrivals import Occurrence
from ohmo.contracts.cron import Cause, JobRow, OccurrenceRow, Passed, Report, State
from ohmo.store.codec import column, from_column, read_job, write_job
from ohmo.store.statements import Moment, Op, Row, Undo, Value, instant, milliseconds
from ohmo.store.threads import lock_thread

_COLUMNS = "job, name, origin, body, revision, enabled, next_at, person"


def job_row(row: Row) -> JobRow:
    job, name, origin, body, revision, enabled, next_at, person = row
    following = None if next_at is None else instant(next_at)
    return JobRow(
        job,
        from_column(name),
        origin,
        read_job(body),
        revision,
        bool(enabled),
        following,
        from_column(person),
    )


def jobs() -> Op[list[JobRow]]:
    rows = yield f"SELECT {_COLUMNS} FROM jobs ORDER BY name", ()
    return [job_row(row) for row in rows]


def save_job(at: Moment, row: JobRow, *, over: int | None = None) -> Op[bool]:
    next_at = None if row.next_at is None else milliseconds(row.next_at)
    told: tuple[Value, ...] = (
        row.origin,
        write_job(row.body),
        row.revision,
        int(row.enabled),
        next_at,
        column(row.person),
    )
    if over is None:
        rows = yield (
            f"""INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
            RETURNING job""",
            (row.job, column(row.name), *told),
        )
    else:
        rows = yield (
            """UPDATE jobs SET origin = ?, body = ?, revision = ?, enabled = ?, next_at = ?,
    person = ?
            WHERE job = ? AND revision = ? RETURNING job""",
            (*told, row.job, over),
        )
    if rows:
        at.scheduled()
    return bool(rows)


_WAITING = """SELECT o.thread, o.seq FROM occurrences o JOIN inbox i ON i.thread = o.thread
AND i.seq = o.seq
WHERE o.job = ? AND o.state = 'claimed' AND i.state = 'waiting' ORDER BY o.thread, o.seq"""
_STOP = """UPDATE inbox SET state = 'ended', ending = 'stopped', reason = ?, ended_at = ?
WHERE thread = ? AND seq = ? AND state = 'waiting'"""
REMOVED = "the job was removed"


def remove_job(at: Moment, job: str) -> Op[bool]:
    waiting = yield _WAITING, (job,)
    for thread in sorted({str(row[0]) for row in waiting}):
        yield from lock_thread(thread, 0)
    for thread, seq in waiting:
        yield _STOP, (REMOVED, at.now, thread, seq)
        yield from settle(at, thread, Report(REMOVED, failed=True, cause="removed"))
    rows = yield "DELETE FROM jobs WHERE job = ? RETURNING job", (job,)
    if not rows:
        raise Undo(False)
    at.scheduled()
    return True


_MOVE = "UPDATE jobs SET next_at = ? WHERE job = ? AND revision = ? AND next_at = ? RETURNING job"


def _moved(row: JobRow, next_at: datetime | None) -> Op[bool]:
    if row.next_at is None:
        return False
    following = None if next_at is None else milliseconds(next_at)
    rows = yield _MOVE, (following, row.job, row.revision, milliseconds(row.next_at))
    return bool(rows)


def pass_over(
    at: Moment, row: JobRow, passed: Sequence[Passed], next_at: datetime | None
) -> Op[bool]:
    if not (yield from _moved(row, next_at)):
        raise Undo(False)
    for one in passed:
        yield (
            """INSERT INTO occurrences (job, due, state, cause, reason, at, ended)
            VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING""",
            (
                row.job,
                milliseconds(one.due),
                one.state,
                one.cause,
                column(one.reason),
                at.now,
                at.now,
            ),
        )
    at.scheduled()
    return True


def rebase_job(at: Moment, row: JobRow, next_at: datetime | None) -> Op[bool]:
    if not (yield from _moved(row, next_at)):
        raise Undo(False)
    yield (
        "DELETE FROM occurrences WHERE job = ? AND due > ? AND state IN ('skipped','missed')",
        (row.job, at.now),
    )
    at.scheduled()
    return True


_BESIDE_ITS_HOUR: Mapping[str, tuple[Cause, str]] = {
    "catch_up": ("caught_up", "caught up"),
    "hand": ("by_hand", "run by hand"),
}


def claim(at: Moment, occurrence: Occurrence, thread: str, seq: int) -> Op[bool]:
    """In the transaction that stores the wake, under its thread's lock. False: the slot is somebody
    else's, or the job is not what it was."""
    due = milliseconds(occurrence.due)
    if occurrence.revision:
        if occurrence.by == "hand":
            rows = yield "SELECT job FROM jobs WHERE job = ?", (occurrence.job,)
        else:
            following = None if occurrence.following is None else milliseconds(occurrence.following)
            rows = yield _MOVE, (following, occurrence.job, occurrence.revision, due)
        if not rows:
            return False
    cause, reason = _BESIDE_ITS_HOUR.get(occurrence.by, (None, None))
    rows = yield (
        """INSERT INTO occurrences (job, due, state, cause, reason, at, thread, seq)
        VALUES (?, ?, 'claimed', ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING due""",
        (occurrence.job, due, cause, reason, at.now, thread, seq),
    )
    if rows and occurrence.fresh:
        yield (
            """UPDATE threads SET session_seq = ? WHERE thread = ? AND NOT EXISTS (
            SELECT 1 FROM turns u WHERE u.thread = threads.thread
            AND u.state IN ('running','parked'))""",
            (seq, thread),
        )
    at.scheduled()
    return bool(rows)


def claim_again(at: Moment, occurrence: Occurrence, seq: int) -> Op[None]:
    """Its wake was brought back as a new arrival of the same thread."""
    yield (
        """UPDATE occurrences SET state = 'claimed', cause = NULL, seq = ?, ended = NULL,
        attempts = attempts + 1 WHERE job = ? AND due = ? AND state = 'failed'""",
        (seq, occurrence.job, milliseconds(occurrence.due)),
    )
    at.scheduled()


def ended_as(ending: str, report: Report) -> State:
    """What the ending of its arrival makes of an occurrence."""
    return "done" if ending in ("answered", "merged") and not report.failed else "failed"


_ENDED = """SELECT o.job, o.due, i.ending, i.reason, i.turn, u.began FROM occurrences o
JOIN inbox i ON i.thread = o.thread AND i.seq = o.seq
LEFT JOIN turns u ON u.turn = i.turn WHERE o.thread = ? AND o.state = 'claimed'
AND i.state = 'ended' ORDER BY o.job, o.due"""
_SETTLE = """UPDATE occurrences SET state = ?, cause = COALESCE(?, cause),
reason = COALESCE(?, reason), turn = ?, started = ?, ended = ?, preview = ?, digest = ?
WHERE job = ? AND due = ?"""


def settle(at: Moment, thread: str, report: Report) -> Op[None]:
    """Every occurrence of a locked thread whose arrival has ended comes to its end."""
    rows = yield _ENDED, (thread,)
    for job, due, ending, reason, turn, began in rows:
        why = column(report.reason) or reason
        how = (ended_as(ending, report), report.cause, why)
        seen = (column(report.preview) or None, report.digest or None)
        yield _SETTLE, (*how, turn, began, at.now, *seen, job, due)
    if rows:
        at.scheduled()


_OCCURRENCE = """SELECT o.job, o.due, o.state, o.reason, COALESCE(o.turn, i.turn), o.at,
COALESCE(o.started, u.began), o.ended, o.preview,
o.digest, o.thread, o.seq, o.attempts, o.cause FROM occurrences o LEFT
JOIN inbox i ON i.thread = o.thread AND i.seq = o.seq
LEFT JOIN turns u ON u.turn = i.turn"""


def _occurrence(row: Row) -> OccurrenceRow:
    job, due, state, reason, turn, at, started, ended, preview, *rest = row
    return OccurrenceRow(
        job,
        instant(due),
        state,
        None if reason is None else from_column(reason),
        turn,
        instant(at),
        None if started is None else instant(started),
        None if ended is None else instant(ended),
        None if preview is None else from_column(preview),
        *rest,
    )


def occurrences(job: str, *, limit: int = 50) -> Op[list[OccurrenceRow]]:
    rows = yield f"{_OCCURRENCE} WHERE o.job = ? ORDER BY o.due DESC LIMIT ?", (job, limit)
    return [_occurrence(row) for row in rows]


def claimed() -> Op[list[OccurrenceRow]]:
    rows = yield f"{_OCCURRENCE} WHERE o.state = 'claimed' ORDER BY o.job, o.due", ()
    return [_occurrence(row) for row in rows]
