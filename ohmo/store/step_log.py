"""The append-only log of a thread."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence

from ohmo.contracts.looking import TurnCost
from ohmo.contracts.messages import CallResult, CallStarted, Compaction, ModelStep, Step, UserStep
from ohmo.store.codec import column, read_step, write_step
from ohmo.store.statements import Moment, Op, instant
from ohmo.store.threads import TAKEN, Numbers

_KINDS: dict[type, str] = {
    UserStep: "user",
    ModelStep: "model",
    CallStarted: "started",
    CallResult: "result",
    Compaction: "compaction",
}


def call_of(step: Step) -> str | None:
    """The call that a step starts or ends; once each, for ever."""
    match step:
        case CallStarted():
            return column(step.call)
        case CallResult():
            return column(step.result.call)
        case _:
            return None


def append(
    at: Moment, thread: str, numbers: Numbers, turn: str, steps: Sequence[Step]
) -> Op[list[int]]:
    written: list[int] = []
    for step in steps:
        seq = numbers.take(thread)
        yield (
            (
                "INSERT INTO steps (thread, seq, turn, kind, call, body, at) VALUES (?, ?, ?, ?, ?,"
                " ?, ?)"
            ),
            (thread, seq, turn, _KINDS[type(step)], call_of(step), write_step(step), at.now),
        )
        written.append(seq)
    return written


def steps(thread: str, since: int) -> Op[list[tuple[int, Step]]]:
    rows = yield (
        "SELECT seq, body FROM steps WHERE thread = ? AND seq >= ? ORDER BY seq",
        (thread, since),
    )
    return [(seq, read_step(body)) for seq, body in rows]


_SPENT = """SELECT CAST(COALESCE(SUM(input + cached + written), 0) AS BIGINT), CAST(COALESCE(SUM(output), 0) AS BIGINT) FROM usage
WHERE day BETWEEN ? AND ? AND turn = ?"""


def turn_cost(at: Moment, thread: str, turn: str) -> Op[TurnCost]:
    """Bounded by the turn itself: what came before its first message, or was spent on other days,
    is not looked at. For a turn that is taken up again."""
    known = yield "SELECT began FROM turns WHERE turn = ?", (turn,)
    if not known:
        return TurnCost((), 0, 0, 0.0)
    began = known[0][0]
    first = yield (
        f"SELECT MIN(seq) FROM inbox WHERE thread = ? AND turn = ? AND {TAKEN}",
        (thread, turn),
    )
    rows = yield (
        "SELECT body FROM steps WHERE thread = ? AND seq > ? AND turn = ? ORDER BY seq",
        (thread, first[0][0] if first[0][0] is not None else 0, turn),
    )
    days = (instant(began).date().isoformat(), instant(max(began, at.now)).date().isoformat())
    spent = yield _SPENT, (*days, turn)
    tokens_in, tokens_out = spent[0]
    return TurnCost(
        tuple(read_step(row[0]) for row in rows),
        tokens_in,
        tokens_out,
        max(0, at.now - began) / 1000,
    )
