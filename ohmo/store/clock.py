"""The wall clock was set: what waits for a time is moved along, so that it waits as long as it
would have."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from ohmo.contracts.store import Hint
from ohmo.store.statements import Moment, Op

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
