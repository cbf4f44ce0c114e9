"""The append-only log of a thread."""

from __future__ import annotations

from collections.abc import Sequence

from ohmo.contracts.messages import CallResult, CallStarted, Compaction, ModelStep, Step, UserStep
from ohmo.store.codec import column, read_step, write_step
from ohmo.store.numbers import Numbers
from ohmo.store.statements import Moment, Op

_KINDS: dict[type, str] = {UserStep: "user", ModelStep: "model", CallStarted: "started", CallResult: "result", Compaction: "compaction"}


def call_of(step: Step) -> str | None:
    """The call that a step starts or ends; once each, for ever."""
    match step:
        case CallStarted():
            return column(step.call)
        case CallResult():
            return column(step.result.call)
        case _:
            return None


def append(at: Moment, thread: str, numbers: Numbers, turn: str, steps: Sequence[Step]) -> Op[list[int]]:
    written: list[int] = []
    for step in steps:
        seq = numbers.take(thread)
        yield (
            "INSERT INTO steps (thread, seq, turn, kind, call, body, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (thread, seq, turn, _KINDS[type(step)], call_of(step), write_step(step), at.now),
        )
        written.append(seq)
    return written


def steps(thread: str, since: int) -> Op[list[tuple[int, Step]]]:
    rows = yield "SELECT seq, body FROM steps WHERE thread = ? AND seq >= ? ORDER BY seq", (thread, since)
    return [(seq, read_step(body)) for seq, body in rows]
