"""Threads by place: their ids, their locks, and the numbers that are handed out under the lock."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from channels.contract import Address, ChatId, TopicId
from channels.record import record
from ohmo.contracts.errors import Conflict, LeaseLost
from ohmo.contracts.store import Claim, PostRow
from ohmo.ids import base36
from ohmo.store.codec import column, from_column
from ohmo.store.statements import Moment, Op, Row

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


_TOUCH = """INSERT INTO threads (thread, channel, account, chat, topic, person, next_seq, ready_at, last_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (channel, account, chat, topic, person) DO UPDATE SET
  next_seq = threads.next_seq + excluded.next_seq - 1, last_at = excluded.last_at,
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
) -> Op[tuple[str, int]]:
    """Make or lock the thread of a place and reserve ``count`` numbers: its id and the first
    number.

    ``ready_at``: it has work from then on. ``held_until``: a thread that waits for a time anyway
    waits at least so long."""
    place = (
        address.channel,
        address.account,
        column(address.chat),
        column(address.topic or ""),
        column(scope),
    )
    rows = yield (
        _TOUCH,
        (thread_id(address, scope), *place, 1 + count, ready_at, at.now, held_until, held_until),
    )
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


_HOLD = (
    "UPDATE threads SET next_seq = next_seq + ? WHERE thread = ? AND owner = ? AND generation = ?"
    " RETURNING next_seq"
)
_HOLD_TURN = """UPDATE threads SET next_seq = next_seq + ? WHERE thread = ? AND owner = ? AND generation = ?
AND EXISTS (SELECT 1 FROM turns WHERE turn = ? AND turns.thread = threads.thread AND state = 'running') RETURNING next_seq"""


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
