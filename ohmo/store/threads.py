"""Threads: ids by place, locks, the numbers given out under the lock, and who holds them.

A lease stands on the row of its thread, fenced by its generation."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from channels.contract import Address, ChatId, TopicId
from channels.record import record
from ohmo.ambient import base36
from ohmo.contracts.errors import Conflict, LeaseLost
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import Claim, ThreadSettings
from ohmo.store.codec import column, from_column, read_settings, write_settings
from ohmo.store.statements import Moment, Op, Row, Undo

MAILBOX = "kind IN ('message','wake')"
# ``ended_at IS NULL`` says nothing new: it is the condition of the small index of what is open.
WAITING = f"ended_at IS NULL AND state = 'waiting' AND {MAILBOX}"
TURN_OPEN = "state IN ('running','parked')"
TAKEN = "ended_at IS NULL AND state = 'taken'"


@lru_cache(4096)
def thread_id(address: Address, scope: str = "") -> str:
    """The same place has the same id on every instance, so that locks can be ordered before
    anything is read."""
    name = json.dumps([address.channel, address.account, address.chat, address.topic or "", scope])
    return base36(int.from_bytes(hashlib.sha256(name.encode()).digest()[:16]) % 36**22, 22)


def address_of(row: Row) -> Address:
    """From the columns channel, account, chat, topic."""
    return Address(
        row[0],
        row[1],
        ChatId(from_column(row[2])),
        TopicId(from_column(row[3])) if row[3] else None,
    )


_TOUCH = """INSERT INTO threads (thread, channel, account, chat, topic, person, next_seq, ready_at,
last_at, begins) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (channel, account, chat, topic, person) DO UPDATE SET
  next_seq = threads.next_seq + excluded.next_seq - 1, last_at = excluded.last_at,
  begins = CASE WHEN threads.begins = 0 AND excluded.begins > 0
    THEN threads.next_seq + excluded.begins - 1 ELSE threads.begins END,
  ready_at = CASE WHEN excluded.ready_at IS NULL OR threads.parked = 1 THEN threads.ready_at
    WHEN threads.ready_at IS NULL THEN excluded.ready_at
    WHEN threads.ready_at > excluded.last_at AND ? > threads.ready_at THEN ?
    ELSE threads.ready_at END
RETURNING thread, next_seq"""


def touch(
    at: Moment,
    address: Address,
    scope: str,
    count: int,
    ready_at: int | None = None,
    held_until: int | None = None,
    begins: int = 0,
) -> Op[tuple[str, int]]:
    """Make or lock the thread of a place and reserve ``count`` numbers: its id and the first
    number.

    ``ready_at``: it has work from then on. ``held_until``: a thread that waits for a time anyway
    waits at least so long. ``begins``: with which of these numbers, from 1,
    it begins when nothing was said yet; 0: with none."""
    place = (
        address.channel,
        address.account,
        column(address.chat),
        column(address.topic or ""),
        column(scope),
    )
    new = (thread_id(address, scope), *place, 1 + count, ready_at, at.now, begins)
    rows = yield _TOUCH, (*new, held_until, held_until)
    return rows[0][0], rows[0][1] - count


@dataclass(slots=True)
class Numbers:
    """What is left of the numbers reserved in each locked thread."""

    left: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, thread: str) -> int:
        number = self.left[thread]
        self.left[thread] = number + 1
        return number


@record
class Home:
    """The thread an operation is about, and its place."""

    thread: str
    address: Address

    def destination(self, row: PostRow) -> str:
        return (
            self.thread if row.outbound.address == self.address else thread_id(row.outbound.address)
        )


def reserve(
    at: Moment, home: Home, posts: Sequence[PostRow], count: int, lock: Callable[[int], Op[Row]]
) -> Op[tuple[Row, Numbers]]:
    """Lock the home thread by ``lock`` and the destinations of ``posts``, in order of thread, and
    number them.

    ``lock(n)`` reserves n numbers (``count`` and the posts at home) and returns a row that ends
    with the next free one."""
    elsewhere: dict[str, tuple[Address, int]] = {}
    for post in posts:
        if (thread := home.destination(post)) == home.thread:
            count += 1
        else:
            elsewhere[thread] = (post.outbound.address, elsewhere.get(thread, (None, 0))[1] + 1)
    numbers, row = Numbers(), ()
    for thread in sorted([home.thread, *elsewhere]):
        if thread == home.thread:
            row = yield from lock(count)
            numbers.left[thread] = row[-1] - count
        else:
            address, wanted = elsewhere[thread]
            _, numbers.left[thread] = yield from touch(at, address, "", wanted)
    return row, numbers


def more(home: Home, numbers: Numbers, count: int) -> Op[None]:
    """Further numbers of the home thread, which is locked already."""
    if count:
        rows = yield (
            "UPDATE threads SET next_seq = next_seq + ? WHERE thread = ? RETURNING next_seq",
            (count, home.thread),
        )
        numbers.left[home.thread] = rows[0][0] - count


_HOLD = """UPDATE threads SET next_seq = next_seq + ? WHERE thread = ? AND owner = ?
AND generation = ? RETURNING next_seq"""
_HOLD_TURN = """UPDATE threads SET next_seq = next_seq + ? WHERE thread = ? AND owner = ?
AND generation = ?
AND EXISTS (SELECT 1 FROM turns WHERE turn = ? AND turns.thread = threads.thread
AND state = 'running') RETURNING next_seq"""


def hold(claim: Claim, count: int = 0, turn: str | None = None) -> Op[Row]:
    """Lock, fence and number in one statement. Raises LeaseLost; Conflict when ``turn`` is not the
    running turn of a thread that is held."""
    lease = (claim.thread, claim.owner, claim.generation)
    if turn is None:
        rows = yield _HOLD, (count, *lease)
    else:
        rows = yield _HOLD_TURN, (count, *lease, turn)
    if not rows:
        held = yield (
            "SELECT 1 FROM threads WHERE thread = ? AND owner = ? AND generation = ?",
            lease,
        )
        raise Conflict(f"turn {turn} is not running") if held and turn is not None else LeaseLost()
    return rows[0]


def find_home(thread: str) -> Op[Home | None]:
    rows = yield "SELECT channel, account, chat, topic FROM threads WHERE thread = ?", (thread,)
    return Home(thread, address_of(rows[0])) if rows else None


def lock_thread(thread: str, count: int) -> Op[Row]:
    """Lock a thread that nobody needs to hold. Raises Conflict when there is none."""
    rows = yield (
        "UPDATE threads SET next_seq = next_seq + ? WHERE thread = ? RETURNING next_seq",
        (count, thread),
    )
    if not rows:
        raise Conflict(f"there is no thread {thread}")
    return rows[0]


_GIVE_BACK = f"""UPDATE threads SET owner = NULL, until = 0, parked = 0, last_at = ?,
ready_at = (SELECT CASE WHEN i.ready_at > ? THEN i.ready_at ELSE ? END FROM inbox i
  WHERE i.thread = threads.thread AND {WAITING} ORDER BY i.sort, i.seq LIMIT 1)
WHERE thread = ? RETURNING ready_at"""


def give_back(at: Moment, thread: str) -> Op[None]:
    """No turn is open any more: the lease ends, and the thread is ready when something waits.

    A statement of its own, after the lock: a subquery in the locking statement would not see what
    was committed while it waited."""
    rows = yield _GIVE_BACK, (at.now, at.now, at.now, thread)
    if rows[0][0] is not None:
        at.ready(thread)


# Two statements: what is picked is locked first, then taken with the fresh row. Readiness is a
# column of that row, never a subquery.
_PICK = """SELECT thread, owner FROM threads WHERE ready_at IS NOT NULL AND ready_at <= ?
AND until <= ?
ORDER BY ready_at, thread LIMIT ? /*skip locked*/"""
_TAKE = """UPDATE threads SET owner = ?, until = ?, generation = generation + 1 WHERE thread = ?
RETURNING generation, channel, account, chat, topic, session_seq, settings"""
# The first condition on the state is the index's own: without it the index of open turns is not
# used.
_DIED = """UPDATE turns SET starts = starts + 1 WHERE thread = ? AND state IN ('running','parked')
AND state = 'running'"""


# Beside an open turn nothing is idle. The newest step says when somebody was last answered; what
# waits now does not count.
_FORGET = """UPDATE threads SET session_seq = next_seq WHERE thread = ?
AND (SELECT at FROM steps s WHERE s.thread = threads.thread ORDER BY seq DESC LIMIT 1) < ?
AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.thread = threads.thread
AND t.state IN ('running','parked')) RETURNING session_seq"""


_SESSION = "UPDATE threads SET session_seq = ?, settings = ? WHERE thread = ?"
_NEXT_SESSION = """SELECT session_seq, settings, COALESCE((SELECT MIN(seq) FROM steps s
WHERE s.thread = threads.thread AND s.turn = ?), next_seq) FROM threads WHERE thread = ?"""
# What was allowed for a session is nothing once it was over.
_NO_GRANTS = "UPDATE grants SET revoked_at = ? WHERE scope = ? AND revoked_at IS NULL"


def other_session(at: Moment, thread: str, turn: str | None, resumes: int | None) -> Op[None]:
    """A new one, or ``resumes``. ``turn``: is open, and belongs to it."""
    rows = yield _NEXT_SESSION, (turn, thread)
    present, settings, begins = rows[0]
    chosen = write_settings(read_settings(settings).begun(present, begins, resumes))
    yield _SESSION, (begins if resumes is None else resumes, chosen, thread)
    if resumes is not None:
        yield _NO_GRANTS, (at.now, f"{thread}.{resumes}")


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
        chosen = read_settings(settings)
        if idle is not None and (begun := (yield _FORGET, (thread, at.now - round(idle * 1000)))):
            chosen = chosen.begun(session_seq, begun[0][0])
            session_seq = begun[0][0]
            yield _SESSION, (session_seq, write_settings(chosen), thread)
        address = address_of(tuple(place))
        claims.append(Claim(thread, generation, until, owner, address, session_seq, chosen))
    return claims


def renew(at: Moment, claims: Sequence[Claim], ttl: float) -> Op[set[Claim]]:
    """``until > 0``: a lease that was given back while this renewal was on its way must not be
    armed again."""
    lost: set[Claim] = set()
    for one in sorted(claims, key=lambda c: c.thread):
        rows = yield (
            """UPDATE threads SET until = ? WHERE thread = ? AND owner = ? AND generation = ?
            AND until > 0 RETURNING thread""",
            (at.later(ttl), one.thread, one.owner, one.generation),
        )
        if not rows:
            lost.add(one)
    return lost


_RELEASE = f"""UPDATE threads SET owner = NULL, until = 0, ready_at = CASE
  WHEN parked = 1 THEN NULL
  WHEN EXISTS (SELECT 1 FROM turns t WHERE t.thread = threads.thread
  AND t.state IN ('running','parked')) THEN CAST(? AS BIGINT)
  WHEN EXISTS (SELECT 1 FROM inbox i WHERE i.thread = threads.thread AND {WAITING})
  THEN CAST(? AS BIGINT)
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
            """UPDATE turns SET attempts = attempts + 1, reason = ? WHERE turn = ? AND thread = ?
            AND state = 'running'""",
            (column(error), turn, claim.thread),
        )
    again = at.later(retry_after)
    rows = yield _RELEASE, (again, again, claim.thread)
    if rows[0][0] is not None:
        at.ready(claim.thread, claim.address.channel, claim.address.account)


def reclaim(_: Moment, owner: str) -> Op[int]:
    """A thread that is held always has its time of readiness, so the small index finds them all."""
    rows = yield (
        """SELECT thread FROM threads WHERE ready_at IS NOT NULL AND owner IS NOT NULL
        AND owner <> ? ORDER BY thread""",
        (owner,),
    )
    for (thread,) in rows:
        yield (
            """UPDATE threads SET owner = NULL, until = 0, generation = generation + 1
            WHERE thread = ?""",
            (thread,),
        )
        yield _DIED, (thread,)
    yield "UPDATE leases SET until = 0 WHERE owner <> ?", (owner,)
    return len(rows)


_LOCKED = "UPDATE threads SET settings = settings WHERE thread = ? RETURNING settings"


def choose(at: Moment, thread: str, settings: ThreadSettings) -> Op[bool]:
    rows = yield _LOCKED, (thread,)
    if not rows:
        return False
    chosen = settings.over(read_settings(rows[0][0]))
    yield "UPDATE threads SET settings = ? WHERE thread = ?", (write_settings(chosen), thread)
    at.changed(thread)
    return True


def end_free(at: Moment, thread: str, until: datetime) -> Op[bool]:
    rows = yield _LOCKED, (thread,)
    chosen = read_settings(rows[0][0]) if rows else ThreadSettings()
    if chosen.free_until != until:
        raise Undo(False)
    settings = replace(chosen, mode=None, free_until=None)
    yield "UPDATE threads SET settings = ? WHERE thread = ?", (write_settings(settings), thread)
    at.changed(thread)
    return True


_AT_REST = """SELECT 1 FROM threads t WHERE thread = ? AND ready_at IS NULL AND parked = 0
AND owner IS NULL
AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.thread = t.thread AND i.ended_at IS NULL)
AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.thread = t.thread AND o.ended_at IS NULL)"""

# The names of those who spoke in it; who began another conversation is still called so there.
_FORGET_SPEAKERS = """DELETE FROM speakers WHERE (channel, account, person) IN (
  SELECT t.channel, t.account, i.person FROM threads t JOIN inbox i ON i.thread = t.thread
  WHERE t.thread = ?)
AND NOT EXISTS (SELECT 1 FROM threads o JOIN inbox i ON i.thread = o.thread AND i.seq = o.begins
  WHERE o.channel = speakers.channel AND o.account = speakers.account
  AND i.person = speakers.person AND o.thread <> ?)"""


def forget(at: Moment, thread: str) -> Op[bool]:
    yield _LOCKED, (thread,)
    if not (yield _AT_REST, (thread,)):
        raise Undo(False)
    yield _FORGET_SPEAKERS, (thread, thread)
    for table in ("approvals", "checkpoints", "outbox", "steps", "turns", "inbox"):
        yield f"DELETE FROM {table} WHERE thread = ?", (thread,)
    deleted = write_settings(ThreadSettings(shelf="deleted"))
    yield (
        "UPDATE threads SET settings = ?, session_seq = next_seq, begins = 0 WHERE thread = ?",
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
