"""Letting go of what ended long ago, in small batches, so that nobody waits for it."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always bound

from __future__ import annotations

from ohmo.store.statements import Moment, Op

BATCH = 200
SEEN_DAYS = 30
_DAY = 86_400_000
_ORPHAN = 600_000  # ms that an edit waits for an original that never came

# An edit whose message no longer waits can never be applied.
_EDITS = f"""UPDATE inbox SET state = 'ended', ending = 'noted', reason = 'no message to edit', ended_at = ? WHERE (thread, seq) IN (
  SELECT e.thread, e.seq FROM inbox e WHERE e.state = 'waiting' AND e.kind = 'edit' AND e.at < ? AND NOT EXISTS (
    SELECT 1 FROM inbox m WHERE m.thread = e.thread AND m.message = e.message AND m.kind = 'message' AND m.state = 'waiting') LIMIT {BATCH})
RETURNING seq"""
_INBOX = f"""DELETE FROM inbox WHERE (thread, seq) IN (
  SELECT thread, seq FROM inbox WHERE state = 'ended' AND ended_at < ? ORDER BY ended_at LIMIT {BATCH}) RETURNING seq"""
# A row that another one replaces goes after it, never before.
_OUTBOX = f"""DELETE FROM outbox WHERE id IN (
  SELECT o.id FROM outbox o WHERE o.ended_at IS NOT NULL AND o.ended_at < ? AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.target = o.id)
  ORDER BY o.ended_at LIMIT {BATCH}) RETURNING id"""
# The log of the present session stays, however old: it is what the model knows.
_STEPS = f"""DELETE FROM steps WHERE (thread, seq) IN (
  SELECT s.thread, s.seq FROM turns u JOIN steps s ON s.thread = u.thread AND s.turn = u.turn JOIN threads t ON t.thread = u.thread
  WHERE u.ended IS NOT NULL AND u.ended < ? AND s.seq < t.session_seq LIMIT {BATCH}) RETURNING seq"""
_APPROVALS = f"""DELETE FROM approvals WHERE id IN (
  SELECT a.id FROM turns u JOIN approvals a ON a.turn = u.turn WHERE u.ended IS NOT NULL AND u.ended < ? LIMIT {BATCH}) RETURNING id"""
_TURNS = f"""DELETE FROM turns WHERE turn IN (
  SELECT u.turn FROM turns u WHERE u.ended IS NOT NULL AND u.ended < ?
  AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.thread = u.thread AND s.turn = u.turn)
  AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.turn = u.turn) LIMIT {BATCH}) RETURNING turn"""
# Of each job the last run that came to an end stays: the next one may be compared with it.
_OCCURRENCES = f"""DELETE FROM occurrences WHERE (job, due) IN (
  SELECT o.job, o.due FROM occurrences o WHERE o.state <> 'claimed' AND o.at < ? AND NOT (o.state = 'done' AND o.due = (
    SELECT MAX(d.due) FROM occurrences d WHERE d.job = o.job AND d.state = 'done')) ORDER BY o.at LIMIT {BATCH}) RETURNING due"""
_SEEN = f"""DELETE FROM seen WHERE (channel, account, event_key) IN (
  SELECT channel, account, event_key FROM seen WHERE at < ? ORDER BY at LIMIT {BATCH}) RETURNING seq"""


def note_orphans(at: Moment) -> Op[int]:
    rows = yield _EDITS, (at.now, at.now - _ORPHAN)
    return len(rows)


# What was allowed for a session is nothing once the session is over.
_GRANTS = f"""DELETE FROM grants WHERE id IN (SELECT grants.id FROM grants JOIN threads t ON t.thread = substr(grants.scope, 1, 22)
  WHERE substr(grants.scope, 23, 1) = '.' AND grants.scope <> t.thread || '.' || CAST(t.session_seq AS TEXT) LIMIT {BATCH}) RETURNING id"""


def forget_grants(at: Moment) -> Op[int]:
    del at
    rows = yield _GRANTS, ()
    return len(rows)


_PARTS = (_INBOX, _OUTBOX, _STEPS, _APPROVALS, _TURNS, _OCCURRENCES)
PARTS = len(_PARTS) + 1
TRANSCRIPT = (2, 3, 4)  # steps, their approvals, their turns


def prune_batch(at: Moment, before: int, part: int) -> Op[int]:
    """One batch of one table; 0: there is no more. A name outlives its body, so that it stays a duplicate."""
    if part < len(_PARTS):
        rows = yield _PARTS[part], (before,)
    else:
        rows = yield _SEEN, (min(before, at.now - SEEN_DAYS * _DAY),)
    return len(rows)
