"""Questions that park a turn: asked one at a time per thread, answered once, used once; and what is
allowed for longer."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.errors import Conflict
from ohmo.contracts.inwriter import Card, Closing
from ohmo.contracts.messages import ModelStep, Step, ToolCall
from ohmo.contracts.outbox import Ask, Asked, Grant, Lapsed, PostRow, Ruling
from ohmo.contracts.tool import Verdict
from ohmo.contracts.turns import Claim
from ohmo.store.codec import (
    column,
    from_column,
    read_arrival,
    read_question,
    read_step,
    write_question,
)
from ohmo.store.inbox import end
from ohmo.store.outbox import close, open_drafts, say_more, speak
from ohmo.store.statements import Moment, Op, Row, Undo, instant, milliseconds
from ohmo.store.threads import Home, Numbers, address_of, find_home, hold, lock_thread, touch

_COLUMNS = """a.id, a.call, a.body, a.cwd, a.thread, a.turn, t.channel, t.account, t.chat, t.topic,
u.person, a.state, a.deadline, a.asked_at"""
_FROM = f"""SELECT {_COLUMNS} FROM approvals a JOIN threads t ON t.thread = a.thread
JOIN turns u ON u.turn = a.turn"""
_OPEN = "a.state IN ('queued','asked')"


def asked_row(row: Row) -> Asked:
    number, call, body, cwd, thread, turn, *place, person, state, deadline, asked_at = row
    return Asked(
        ask=Ask(number, from_column(call), read_question(body), from_column(cwd)),
        thread=thread,
        turn=turn,
        address=address_of(tuple(place)),
        person=from_column(person),
        state=state,
        deadline=None if deadline is None else instant(deadline),
        asked_at=None if asked_at is None else instant(asked_at),
    )


_INSERT = """INSERT INTO approvals (id, thread, seq, turn, call, kind, body, hash, cwd, timeout,
state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued')"""


def park(
    at: Moment,
    claim: Claim,
    turn: str,
    asks: Sequence[Ask],
    *,
    timeout: float,
    card: Card,
    closing: Closing,
) -> Op[None]:
    if not asks:
        raise Conflict("a turn cannot be parked without a question")
    home = Home(claim.thread, claim.address)
    row = yield from hold(claim, len(asks), turn)
    numbers = Numbers({claim.thread: row[-1] - len(asks)})
    for ask in asks:
        question = ask.question
        yield (
            _INSERT,
            (
                *(
                    ask.id,
                    claim.thread,
                    numbers.take(claim.thread),
                    turn,
                    column(ask.call),
                    question.kind,
                    write_question(question),
                ),
                *(question.digest, column(ask.cwd), round(timeout * 1000)),
            ),
        )
    yield "UPDATE turns SET state = 'parked' WHERE turn = ?", (turn,)
    yield from close(at, home, (yield from open_drafts(turn)), closing)
    yield from _ask_next(at, home, turn, card)
    yield (
        "UPDATE threads SET owner = NULL, until = 0, ready_at = NULL, parked = 1 WHERE thread = ?",
        (claim.thread,),
    )


_ASK = "UPDATE approvals SET state = 'asked', asked_at = ?, deadline = ? + timeout WHERE id = ?"


def _ask_next(at: Moment, home: Home, turn: str, card: Card) -> Op[bool]:
    """The oldest question that is still queued is asked now. False: there is none."""
    queued = yield (
        """SELECT id FROM approvals WHERE thread = ? AND turn = ? AND state = 'queued' ORDER BY seq
        LIMIT 1""",
        (home.thread, turn),
    )
    if not queued:
        return False
    oldest = queued[0][0]
    yield _ASK, (at.now, at.now, oldest)
    rows = yield f"{_FROM} WHERE a.id = ?", (oldest,)
    row = card(asked_row(rows[0]))
    if row.id != oldest:
        raise Conflict(f"the card of question {oldest} must have its id")
    yield from say_more(at, home, [row], turn)
    at.asked(home.thread)
    return True


def _go_on(at: Moment, home: Home, turn: str, card: Card) -> Op[None]:
    """A question has ended: the next one is asked, or the turn runs on."""
    if (yield from _ask_next(at, home, turn, card)):
        return
    at.asked(home.thread)
    yield "UPDATE turns SET state = 'running' WHERE turn = ? AND state = 'parked'", (turn,)
    yield "UPDATE threads SET parked = 0, ready_at = ? WHERE thread = ?", (at.now, home.thread)
    at.ready(home.thread, home.address.channel, home.address.account)


_ANSWER = """UPDATE approvals SET state = ?, scope = ?, word = ?, person = ?, answered_at = ?
WHERE id = ? AND state = 'asked' AND deadline > ? RETURNING turn"""
Outcome = Literal["ok", "late", "unknown"]


def answer(
    at: Moment,
    ruling: Ruling,
    *,
    posts: Sequence[PostRow] = (),
    late: Sequence[PostRow] = (),
    card: Card,
    closing: Closing,
) -> Op[Outcome]:
    arrival = ruling.arrival
    known = yield "SELECT thread FROM approvals WHERE id = ?", (ruling.approval,)
    if not known:
        return (yield from _too_late(at, arrival, late, "unknown"))
    thread = str(known[0][0])
    for other in sorted({thread, arrival[0]} if arrival is not None else {thread}):
        yield from lock_thread(other, 0)
    home = yield from find_home(thread)
    assert home is not None  # it was locked
    if arrival is not None and (before := (yield from _said_before(arrival))) is not None:
        raise Undo(before)
    rows = yield (
        _ANSWER,
        (
            ruling.verdict,
            ruling.scope,
            column(ruling.word),
            column(ruling.person),
            at.now,
            ruling.approval,
            at.now,
        ),
    )
    if not rows:
        return (yield from _too_late(at, arrival, late, "late"))
    turn = rows[0][0]
    if ruling.grant is not None:
        yield from save_grant(ruling.grant)
    if arrival is not None:
        yield from end(at, *arrival, "answered")
    yield from close(at, home, [ruling.approval], closing)
    yield from say_more(at, home, posts, turn)
    yield from _go_on(at, home, turn, card)
    return "ok"


def _said_before(arrival: tuple[str, int]) -> Op[Outcome | None]:
    """The same answer handled again (its first outcome was not known): nothing may happen twice."""
    rows = yield (
        "SELECT ending FROM inbox WHERE thread = ? AND seq = ? AND state = 'ended'",
        arrival,
    )
    if not rows:
        return None
    return "ok" if rows[0][0] == "answered" else "late"


def _too_late(
    at: Moment, arrival: tuple[str, int] | None, late: Sequence[PostRow], outcome: Outcome
) -> Op[Outcome]:
    """Only the posts of ``late`` are written; those of a repetition are there already."""
    known: set[str] = set()
    for row in late:
        rows = yield "SELECT id FROM outbox WHERE id = ?", (row.id,)
        known.update(found[0] for found in rows)
    fresh = [row for row in late if row.id not in known]
    if arrival is not None:
        yield from lock_thread(arrival[0], 0)
        if not (yield from end(at, *arrival, "refused", "the question is closed")):
            raise Undo(outcome)
    for row in sorted(fresh, key=lambda r: r.id):
        thread, number = yield from touch(at, row.outbound.address, "", 1)
        yield from speak(
            at, Home(thread, row.outbound.address), Numbers({thread: number}), [row], None
        )
    return outcome


_SAID = (
    "turn = ? AND call = ? AND thread = ? AND used_at IS NULL AND state IN"
    " ('allowed','denied','expired')"
)
_CONSUME = f"""UPDATE approvals SET used_at = ? WHERE {_SAID} AND hash = ?
RETURNING state, scope, word, person"""
_OTHERWISE = f"SELECT state, scope, word, person FROM approvals WHERE {_SAID} ORDER BY seq"


def consume(at: Moment, claim: Claim, turn: str, call: str, digest: str) -> Op[Verdict | None]:
    yield from hold(claim, 0, turn)
    here = (turn, column(call), claim.thread)
    rows = yield _CONSUME, (at.now, *here, digest)
    if rows:
        return _verdict(rows[-1])
    rows = yield _OTHERWISE, here
    said = _verdict(rows[-1]) if rows else None
    raise Undo(
        replace(said, state="changed") if said is not None and said.state == "allowed" else said
    )


def _verdict(row: Row) -> Verdict:
    state, scope, word, person = row
    return Verdict(state, scope or "once", from_column(word or ""), from_column(person or ""))


def expire(at: Moment, card: Card, closing: Closing) -> Op[int]:
    overdue = yield (
        """SELECT id, thread FROM approvals WHERE state = 'asked' AND deadline <= ? ORDER BY thread
        LIMIT 100""",
        (at.now,),
    )
    count = 0
    for question, thread in overdue:
        yield from lock_thread(thread, 0)
        rows = yield (
            """UPDATE approvals SET state = 'expired', answered_at = ? WHERE id = ?
            AND state = 'asked' AND deadline <= ? RETURNING turn""",
            (at.now, question, at.now),
        )
        home = yield from find_home(thread)
        if rows and home is not None:
            yield from close(at, home, [question], closing)
            yield from _go_on(at, home, rows[0][0], card)
            count += 1
    return count


def next_deadline() -> Op[datetime | None]:
    rows = yield "SELECT MIN(deadline) FROM approvals WHERE state = 'asked'", ()
    return None if rows[0][0] is None else instant(rows[0][0])


def question(approval: str) -> Op[Asked | None]:
    rows = yield f"{_FROM} WHERE a.id = ? AND {_OPEN}", (approval,)
    return asked_row(rows[0]) if rows else None


def open_questions(thread: str | None = None) -> Op[list[Asked]]:
    if thread is None:
        rows = yield f"{_FROM} WHERE {_OPEN} ORDER BY a.thread, a.seq", ()
    else:
        rows = yield f"{_FROM} WHERE a.thread = ? AND {_OPEN} ORDER BY a.seq", (thread,)
    return [asked_row(row) for row in rows]


_LAPSED = f"""{_FROM} WHERE a.state = 'expired' AND a.kind = 'permission' AND (a.id = ?
OR a.thread = ?) ORDER BY a.deadline DESC, a.id DESC LIMIT 1"""


def lapsed(name: str) -> Op[Lapsed | None]:
    rows = yield _LAPSED, (name, name)
    if not rows:
        return None
    asked = asked_row(rows[0])
    steps = yield (
        "SELECT body FROM steps WHERE thread = ? AND turn = ? AND kind = 'model' ORDER BY seq DESC",
        (asked.thread, asked.turn),
    )
    began = yield (
        "SELECT body FROM inbox WHERE thread = ? AND turn = ? ORDER BY seq LIMIT 1",
        (asked.thread, asked.turn),
    )
    return lapsed_in(
        asked, [read_step(row[0]) for row in steps], read_arrival(began[0][0]) if began else None
    )


def lapsed_in(asked: Asked, steps: Sequence[Step], began: Arrival | None) -> Lapsed:
    """With the call as the model made it. ``began``: what the turn began with."""
    calls = [
        block
        for step in steps
        if isinstance(step, ModelStep)
        for block in step.blocks
        if isinstance(block, ToolCall)
    ]
    call = next((call for call in calls if call.id == asked.ask.call), None)
    job = began.terms.name if isinstance(began, Wake) and began.terms is not None else ""
    return Lapsed(asked, call, job)


def save_grant(grant: Grant) -> Op[None]:
    yield (
        "INSERT INTO grants (id, scope, rule, person, at) VALUES (?, ?, ?, ?, ?)",
        (
            grant.id,
            column(grant.scope),
            column(grant.rule),
            column(grant.person),
            milliseconds(grant.at),
        ),
    )


def grants() -> Op[list[Grant]]:
    rows = yield (
        "SELECT id, scope, rule, person, at FROM grants WHERE revoked_at IS NULL ORDER BY at, id",
        (),
    )
    return [
        Grant(number, from_column(scope), from_column(rule), from_column(person), instant(at))
        for number, scope, rule, person, at in rows
    ]


def revoke_grant(at: Moment, id: str) -> Op[bool]:
    rows = yield (
        "UPDATE grants SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING id",
        (at.now, id),
    )
    return bool(rows)
