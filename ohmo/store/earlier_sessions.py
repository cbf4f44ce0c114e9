"""What lies between the stretches of a session that was gone on with belongs to others, and goes
with its time."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Callable

from ohmo.store.codec import read_settings
from ohmo.store.statements import Op

BATCH = 200
SESSIONS = f"""SELECT thread, session_seq, settings
FROM threads
WHERE thread > ?
  AND settings LIKE '%"stretches"%'
ORDER BY thread
LIMIT {BATCH}"""
_PRESENT = "UPDATE threads SET settings = settings WHERE thread = ? RETURNING session_seq, settings"
_GAP = f"""DELETE FROM steps
WHERE thread = ?
  AND seq IN (
    SELECT s.seq
    FROM steps s
    JOIN turns u ON u.turn = s.turn
      AND u.thread = s.thread
    WHERE s.thread = ?
      AND s.seq >= ?
      AND s.seq < ?
      AND u.ended IS NOT NULL
      AND u.ended < ?
    LIMIT {BATCH})
RETURNING seq"""


def prune_gaps(delete: Callable[..., Op[int]], thread: str, before: int) -> Op[int]:
    """At most ``BATCH`` steps of turns that ended ``before`` (ms), by ``delete``; how many went."""
    rows = yield _PRESENT, (thread,)  # locked: nobody goes on with another one meanwhile
    present, settings = rows[0]
    for begins, end in read_settings(settings).gaps(present):
        if count := (yield from delete(_GAP, thread, thread, begins, end, before)):
            return count
    return 0
