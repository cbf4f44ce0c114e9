"""What was said in a place without addressing the agent: handed over once, to the next turn
there."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from channels.contract import (
    Edited,
    Inbound,
    MessageId,
    Outbound,
    Person,
    PersonId,
    Reacted,
    TopicId,
)
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.store import BY_A_BOT, NOT_ADDRESSED
from ohmo.store.codec import from_column, read_arrival, read_outbound, read_parts
from ohmo.store.outbox import receipts
from ohmo.store.statements import Moment, Op, instant
from ohmo.store.thread_locks import thread_id

MOST = 50  # messages
OLDEST = 86_400_000  # ms
OWN = 100  # posts of ours among which the message a thread hangs on is looked for
REACH = 400  # numbers of a thread that are looked back: the cost does not grow with its age
_FRESH = """thread = ? AND seq > ? AND seq < ? AND ending = 'noted' AND turn IS NULL AND (kind = 'reaction' OR (kind = 'message' AND reason = ?))"""
_HEARD = (
    f"SELECT message, kind, body FROM inbox WHERE {_FRESH} AND said_at >= ? ORDER BY seq DESC LIMIT"
    f" {MOST}"
)
# Only this operation writes the turn of a row that has ended, so the place above needs no lock: a
# row is marked by one turn alone.
_HANDED = f"UPDATE inbox SET turn = ? WHERE {_FRESH}"
# The message a thread hangs on: a person pointed at it by calling there, so that it may be a
# program's; not a stranger's.
_ROOT = """SELECT body FROM inbox WHERE thread = ? AND message = ? AND kind = 'message'
AND (ending IN ('answered','merged') OR (ending = 'noted' AND reason IN (?, ?))) ORDER BY seq DESC LIMIT 1"""
_SAID = (
    "SELECT body, parts, at FROM outbox WHERE thread = ? AND kind <> 'draft' AND state = 'sent'"
    f" ORDER BY seq DESC LIMIT {OWN}"
)
_EDIT = (
    "SELECT body FROM inbox WHERE thread = ? AND message = ? AND kind = 'edit' ORDER BY sort DESC,"
    " seq DESC LIMIT 1"
)


def overheard(
    at: Moment, thread: str, turn: str, before: int, first: Arrival
) -> Op[list[Inbound | Reacted]]:
    """Words and reactions up to number ``before`` that no turn was told of, oldest first, as they
    stand now; what was deleted is left out.

    A call that begins a thread of its own on itself is told what was said in the place above it;
    the first one in any other thread is told the message that the thread hangs on."""
    if not isinstance(first, Inbound):
        return []
    found = yield from _in_thread(at, thread, turn, before)
    topic = first.address.topic
    if topic is None:
        return found
    rows = yield "SELECT person FROM threads WHERE thread = ?", (thread,)
    above = thread_id(replace(first.address, topic=None), from_column(rows[0][0]))
    if topic == first.message:
        rows = yield "SELECT next_seq FROM threads WHERE thread = ?", (above,)
        return [*(yield from _in_thread(at, above, turn, rows[0][0])), *found] if rows else found
    begun = yield "SELECT 1 FROM steps WHERE thread = ? AND kind = 'user' LIMIT 1", (thread,)
    return found if begun else [*(yield from _root(above, topic)), *found]


def _root(above: str, topic: TopicId) -> Op[list[Inbound | Reacted]]:
    """As it stands now; nothing when it was deleted, is not known, or is no message (a topic of
    Telegram, a forum)."""
    rows = yield _ROOT, (above, topic, NOT_ADDRESSED, BY_A_BOT)
    for (body,) in rows:
        arrival = yield from _as_it_stands(above, topic, read_arrival(body))
        return [arrival] if arrival is not None else []
    for body, parts, said_at in (yield _SAID, (above,)):
        if any(one.message == topic for one in receipts(read_parts(parts))):
            return [own_words(read_outbound(body), MessageId(topic), instant(said_at))]
    return []


def own_words(said: Outbound, message: MessageId, at: datetime) -> Inbound:
    """A message of ours, as one that was overheard."""
    me = Person(PersonId(said.address.account), "you", bot=True)
    return Inbound(
        key=message,
        address=said.address,
        person=me,
        at=at,
        order="",
        message=message,
        text=said.text,
        private=False,
        addressed=False,
    )


def _in_thread(at: Moment, thread: str, turn: str, before: int) -> Op[list[Inbound | Reacted]]:
    fresh = (thread, before - REACH, before, NOT_ADDRESSED)
    rows = yield _HEARD, (*fresh, at.now - OLDEST)
    if not rows:
        return []
    yield _HANDED, (turn, *fresh)
    found: list[Inbound | Reacted] = []
    for message, kind, body in reversed(rows):
        arrival = read_arrival(body)
        stands = (
            (yield from _as_it_stands(thread, message, arrival))
            if kind == "message" and message
            else arrival
        )
        if isinstance(stands, Inbound | Reacted):
            found.append(stands)
    return found


def _as_it_stands(thread: str, message: str, arrival: Arrival) -> Op[Inbound | None]:
    """With its newest edit; None: deleted."""
    if not isinstance(arrival, Inbound):
        return None
    edits = yield _EDIT, (thread, message)
    if not edits:
        return arrival
    edit = read_arrival(edits[0][0])
    return (
        replace(arrival, text=edit.text)
        if isinstance(edit, Edited) and edit.text is not None
        else None
    )
