"""Everything the store knows of one message, turn or post."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from channels.record import record
from ohmo.contracts.messages import Usage
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import ArrivalInfo, StepInfo, ThreadInfo
from ohmo.contracts.tool import Question
from ohmo.store.codec import column, from_column, read_question, read_step
from ohmo.store.listing import ARRIVAL, POST, arrival_info, thread
from ohmo.store.outbox import out_row
from ohmo.store.statements import Moment, Op, instant

_MOST_STEPS = 400
_MOST_ROWS = 200


@record
class ModelCall:
    """One call of a model, as it was booked."""

    at: datetime
    usage: Usage


@record
class AskedThen:
    """A question of a turn and what was said to it. ``state``: of its row; ``person``: who
    answered."""

    call: str
    at: datetime | None  # when it was asked
    question: Question
    state: str
    scope: str
    word: str
    person: str
    answered: datetime | None


@record
class TurnTrace:
    """All that is stored of one turn. ``starts``: 1 + the deaths of the process it went through;
    ``left_out``: steps beyond the bound."""

    turn: str
    state: str
    person: str
    starts: int
    attempts: int  # exceptions that ended an earlier try
    began: datetime
    ended: datetime | None
    reason: str
    steps: tuple[StepInfo, ...]
    left_out: int


@record
class Trace:
    """Everything one message caused. ``turn``: None: it had none."""

    thread: ThreadInfo
    arrivals: tuple[ArrivalInfo, ...]
    turn: TurnTrace | None
    calls: tuple[ModelCall, ...]
    questions: tuple[AskedThen, ...]
    posts: tuple[OutRow, ...]
    log: tuple[Mapping[str, object], ...] = ()  # lines of the log about the turn, oldest first


class Traces(Protocol):
    def trace(self, id: str) -> Awaitable[Trace | None]:
        """Of a message (THREAD/SEQ, or its id on its platform), a turn or a post; None: nothing is
        called so."""
        ...


def trace(at: Moment, id: str) -> Op[Trace | None]:
    """``id``: THREAD/SEQ, a turn, a post, or what a platform calls a message."""
    found = yield from _found(id)
    if found is None:
        return None
    home, seq, turn = found
    info = yield from thread(at, home)
    if info is None:
        return None
    arrivals = yield from _arrivals(home, seq, turn)
    if turn is None:
        turn = next((one.turn for one in arrivals if one.turn is not None), None)
        if turn is not None:
            arrivals = yield from _arrivals(home, seq, turn)
    told = (yield from _turn(home, turn)) if turn is not None else None
    calls = (yield from _calls(home, turn, told)) if turn is not None else ()
    questions = (yield from _questions(turn)) if turn is not None else ()
    rows = yield (
        f"{POST} WHERE o.thread = ? AND (o.turn = ? OR o.id = ?) ORDER BY o.seq LIMIT {_MOST_ROWS}",
        (home, turn or "", id),
    )
    return Trace(info, arrivals, told, calls, questions, tuple(map(out_row, rows)))


def _found(id: str) -> Op[tuple[str, int | None, str | None] | None]:
    """Thread, number of the arrival and turn."""
    home, slash, number = id.rpartition("/")
    if slash and number.isascii() and number.isdigit() and len(number) < 19:
        return home, int(number), None
    rows = yield "SELECT thread, turn FROM turns WHERE turn = ?", (id,)
    if rows:
        return rows[0][0], None, id
    rows = yield "SELECT thread, turn FROM outbox WHERE id = ?", (id,)
    if rows:
        return rows[0][0], None, rows[0][1]
    rows = yield (
        "SELECT thread, seq, turn FROM inbox WHERE message = ? ORDER BY at DESC LIMIT 1",
        (column(id),),
    )
    if rows:
        return rows[0][0], rows[0][1], rows[0][2]
    return None


def _arrivals(home: str, seq: int | None, turn: str | None) -> Op[tuple[ArrivalInfo, ...]]:
    rows = yield (
        f"{ARRIVAL} WHERE thread = ? AND (seq = ? OR turn = ?) ORDER BY seq LIMIT {_MOST_ROWS}",
        (home, -1 if seq is None else seq, turn or ""),
    )
    return tuple(map(arrival_info, rows))


def _turn(home: str, turn: str) -> Op[TurnTrace | None]:
    rows = yield (
        "SELECT state, person, starts, attempts, began, ended, reason FROM turns WHERE turn = ?",
        (turn,),
    )
    if not rows:
        return None
    state, person, starts, attempts, began, ended, reason = rows[0]
    count = yield "SELECT COUNT(*) FROM steps WHERE thread = ? AND turn = ?", (home, turn)
    steps = yield (
        f"""SELECT seq, turn, at, body FROM steps WHERE thread = ? AND turn = ?
        ORDER BY seq LIMIT {_MOST_STEPS}""",
        (home, turn),
    )
    return TurnTrace(
        turn=turn,
        state=state,
        person=from_column(person),
        starts=starts,
        attempts=attempts,
        began=instant(began),
        ended=None if ended is None else instant(ended),
        reason=from_column(reason or ""),
        steps=tuple(StepInfo(seq, of, instant(at), read_step(body)) for seq, of, at, body in steps),
        left_out=max(0, int(count[0][0]) - len(steps)),
    )


def _calls(home: str, turn: str, told: TurnTrace | None) -> Op[tuple[ModelCall, ...]]:
    first = "" if told is None else told.began.astimezone(UTC).date().isoformat()
    rows = yield (
        f"""SELECT at, model, purpose, input, cached, written, output, micro_usd FROM usage
        WHERE day >= ? AND thread = ? AND turn = ? ORDER BY at, id LIMIT {_MOST_STEPS}""",
        (first, home, turn),
    )
    return tuple(
        ModelCall(instant(at), Usage(from_column(model), *rest)) for at, model, *rest in rows
    )


def _questions(turn: str) -> Op[tuple[AskedThen, ...]]:
    rows = yield (
        f"""SELECT call, asked_at, body, state, scope, word, person, answered_at FROM approvals
        WHERE turn = ? ORDER BY seq LIMIT {_MOST_ROWS}""",
        (turn,),
    )
    return tuple(
        AskedThen(
            call=from_column(call),
            at=None if asked is None else instant(asked),
            question=read_question(body),
            state=state,
            scope=scope or "",
            word=from_column(word or ""),
            person=from_column(person or ""),
            answered=None if answered is None else instant(answered),
        )
        for call, asked, body, state, scope, word, person, answered in rows
    )
