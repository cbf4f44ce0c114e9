"""Owning a thread: the lease on its row, fenced by its generation."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.store import Claim, ThreadSettings
from ohmo.store.codec import column, read_settings, write_settings
from ohmo.store.statements import Moment, Op, Undo
from ohmo.store.thread_locks import WAITING, address_of, hold

# Two statements: what is picked is locked first, then taken with the fresh row. Readiness is a
# column of that row, never a subquery.
_PICK = """SELECT thread, owner FROM threads WHERE ready_at IS NOT NULL AND ready_at <= ? AND until <= ?
ORDER BY ready_at, thread LIMIT ? /*skip locked*/"""
_TAKE = """UPDATE threads SET owner = ?, until = ?, generation = generation + 1 WHERE thread = ?
RETURNING generation, channel, account, chat, topic, session_seq, settings"""
# The first condition on the state is the index's own: without it the index of open turns is not
# used.
_DIED = (
    "UPDATE turns SET starts = starts + 1 WHERE thread = ? AND state IN ('running','parked') AND"
    " state = 'running'"
)


# Beside an open turn nothing is idle. The newest step says when somebody was last answered; what
# waits now does not count.
_FORGET = """UPDATE threads SET session_seq = next_seq WHERE thread = ?
AND (SELECT at FROM steps s WHERE s.thread = threads.thread ORDER BY seq DESC LIMIT 1) < ?
AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.thread = threads.thread AND t.state IN ('running','parked')) RETURNING session_seq"""


def claim(
    at: Moment, owner: str, *, limit: int, ttl: float, idle: float | None = None
) -> Op[list[Claim]]:
    """``idle``: seconds of silence after which a thread begins a new session; None: never."""
    until = at.monotonic + ttl - 1.0  # of the holder's own clock: never later than what is stored
    picked = yield _PICK, (at.now, at.now, limit)
    claims: list[Claim] = []
    for thread, former in picked:
        rows = yield _TAKE, (owner, at.later(ttl), thread)
        generation, *place, session_seq, settings = rows[0]
        if former is not None and former != owner:
            yield _DIED, (thread,)
        if idle is not None and (begun := (yield _FORGET, (thread, at.now - round(idle * 1000)))):
            session_seq = begun[0][0]
        address = address_of(tuple(place))
        chosen = read_settings(settings)
        claims.append(Claim(thread, generation, until, owner, address, session_seq, chosen))
    return claims


def renew(at: Moment, claims: Sequence[Claim], ttl: float) -> Op[set[Claim]]:
    """``until > 0``: a lease that was given back while this renewal was on its way must not be
    armed again."""
    lost: set[Claim] = set()
    for one in sorted(claims, key=lambda c: c.thread):
        rows = yield (
            (
                "UPDATE threads SET until = ? WHERE thread = ? AND owner = ? AND generation = ? AND"
                " until > 0 RETURNING thread"
            ),
            (at.later(ttl), one.thread, one.owner, one.generation),
        )
        if not rows:
            lost.add(one)
    return lost


_RELEASE = f"""UPDATE threads SET owner = NULL, until = 0, ready_at = CASE
  WHEN parked = 1 THEN NULL
  WHEN EXISTS (SELECT 1 FROM turns t WHERE t.thread = threads.thread AND t.state IN ('running','parked')) THEN CAST(? AS BIGINT)
  WHEN EXISTS (SELECT 1 FROM inbox i WHERE i.thread = threads.thread AND {WAITING}) THEN CAST(? AS BIGINT)
  ELSE NULL END WHERE thread = ? RETURNING ready_at"""


def release(
    at: Moment,
    claim: Claim,
    turn: str | None = None,
    *,
    retry_after: float = 0.0,
    error: str | None = None,
) -> Op[None]:
    yield from hold(claim)
    if turn is not None and error is not None:
        yield (
            (
                "UPDATE turns SET attempts = attempts + 1, reason = ? WHERE turn = ? AND thread = ?"
                " AND state = 'running'"
            ),
            (column(error), turn, claim.thread),
        )
    again = at.later(retry_after)
    rows = yield _RELEASE, (again, again, claim.thread)
    if rows[0][0] is not None:
        at.ready(claim.thread, claim.address.channel, claim.address.account)


def reclaim(_: Moment, owner: str) -> Op[int]:
    """A thread that is held always has its time of readiness, so the small index finds them all."""
    rows = yield (
        (
            "SELECT thread FROM threads WHERE ready_at IS NOT NULL AND owner IS NOT NULL AND owner"
            " <> ? ORDER BY thread"
        ),
        (owner,),
    )
    for (thread,) in rows:
        yield (
            (
                "UPDATE threads SET owner = NULL, until = 0, generation = generation + 1 WHERE"
                " thread = ?"
            ),
            (thread,),
        )
        yield _DIED, (thread,)
    yield "UPDATE leases SET until = 0 WHERE owner <> ?", (owner,)
    return len(rows)


def choose(at: Moment, thread: str, settings: ThreadSettings) -> Op[bool]:
    rows = yield (
        "UPDATE threads SET settings = settings WHERE thread = ? RETURNING settings",
        (thread,),
    )  # locks the row
    if not rows:
        return False
    chosen = settings.over(read_settings(rows[0][0]))
    yield "UPDATE threads SET settings = ? WHERE thread = ?", (write_settings(chosen), thread)
    at.changed(thread)
    return True


def end_free(at: Moment, thread: str, until: datetime) -> Op[bool]:
    rows = yield (
        "UPDATE threads SET settings = settings WHERE thread = ? RETURNING settings",
        (thread,),
    )  # locks the row
    chosen = read_settings(rows[0][0]) if rows else ThreadSettings()
    if chosen.free_until != until:
        raise Undo(False)
    settings = replace(chosen, mode=None, free_until=None)
    yield "UPDATE threads SET settings = ? WHERE thread = ?", (write_settings(settings), thread)
    at.changed(thread)
    return True


_AT_REST = """SELECT 1 FROM threads t WHERE thread = ? AND ready_at IS NULL AND parked = 0 AND owner IS NULL
AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.thread = t.thread AND i.ended_at IS NULL)
AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.thread = t.thread AND o.ended_at IS NULL)"""


def forget(at: Moment, thread: str) -> Op[bool]:
    yield (
        "UPDATE threads SET settings = settings WHERE thread = ? RETURNING thread",
        (thread,),
    )  # locks the row
    if not (yield _AT_REST, (thread,)):
        raise Undo(False)
    for table in ("approvals", "outbox", "steps", "turns", "inbox"):
        yield f"DELETE FROM {table} WHERE thread = ?", (thread,)
    deleted = write_settings(ThreadSettings(shelf="deleted"))
    yield (
        "UPDATE threads SET settings = ?, session_seq = next_seq WHERE thread = ?",
        (deleted, thread),
    )
    at.changed(thread)
    return True


def must_hold(one: Claim) -> Op[None]:
    """Raises LeaseLost; locks nothing, for a look that writes nothing."""
    rows = yield (
        "SELECT 1 FROM threads WHERE thread = ? AND owner = ? AND generation = ?",
        (one.thread, one.owner, one.generation),
    )
    if not rows:
        raise LeaseLost
