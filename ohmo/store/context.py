"""What was said in a place without addressing the agent: handed over once, to the next turn there."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always bound

from __future__ import annotations

from dataclasses import replace

from channels.contract import Edited, Inbound, Reacted
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.store import NOT_ADDRESSED
from ohmo.store.codec import from_column, read_arrival
from ohmo.store.numbers import thread_id
from ohmo.store.statements import Moment, Op

MOST = 50  # messages
OLDEST = 86_400_000  # ms
REACH = 400  # numbers of a thread that are looked back: the cost does not grow with its age
_FRESH = """thread = ? AND seq > ? AND seq < ? AND ending = 'noted' AND turn IS NULL AND (kind = 'reaction' OR (kind = 'message' AND reason = ?))"""
_HEARD = f"SELECT message, kind, body FROM inbox WHERE {_FRESH} AND said_at >= ? ORDER BY seq DESC LIMIT {MOST}"
# Only this operation writes the turn of a row that has ended, so the place above needs no lock: a row is marked by one turn alone.
_HANDED = f"UPDATE inbox SET turn = ? WHERE {_FRESH}"
_EDIT = "SELECT body FROM inbox WHERE thread = ? AND message = ? AND kind = 'edit' ORDER BY sort DESC, seq DESC LIMIT 1"


def overheard(at: Moment, thread: str, turn: str, before: int, first: Arrival) -> Op[list[Inbound | Reacted]]:
    """Words and reactions up to number ``before`` that no turn was told of, oldest first, as they stand now; what was deleted is left out.

    A call that begins a thread of its own on itself is told what was said in the place above it."""
    if not isinstance(first, Inbound):
        return []
    found = yield from _in_thread(at, thread, turn, before)
    if first.address.topic is not None and first.address.topic == first.message:
        rows = yield "SELECT person FROM threads WHERE thread = ?", (thread,)
        above = thread_id(replace(first.address, topic=None), from_column(rows[0][0]))
        rows = yield "SELECT next_seq FROM threads WHERE thread = ?", (above,)
        if rows:
            found = [*(yield from _in_thread(at, above, turn, rows[0][0])), *found]
    return found


def _in_thread(at: Moment, thread: str, turn: str, before: int) -> Op[list[Inbound | Reacted]]:
    fresh = (thread, before - REACH, before, NOT_ADDRESSED)
    rows = yield _HEARD, (*fresh, at.now - OLDEST)
    if not rows:
        return []
    yield _HANDED, (turn, *fresh)
    found: list[Inbound | Reacted] = []
    for message, kind, body in reversed(rows):
        arrival = read_arrival(body)
        if kind == "message" and message:
            edits = yield _EDIT, (thread, message)
            if edits and isinstance(arrival, Inbound):
                edit = read_arrival(edits[0][0])
                arrival = replace(arrival, text=edit.text) if isinstance(edit, Edited) and edit.text is not None else None
        if isinstance(arrival, Inbound | Reacted):
            found.append(arrival)
    return found
