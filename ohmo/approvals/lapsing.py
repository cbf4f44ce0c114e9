"""How an approval times out: its deadline, what happens at it, and what a late answer does.

``permissions.approval_timeout`` of config.yaml says for how long a question stays open; a job's run
asks until its own deadline, and whether an old message is still wanted is asked for a week. The
store notes the deadline when the card is asked and ends what is overdue (``expire``); its card says
so and, where that is possible, has a button for a late answer: a new request, which runs first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from channels.contract import Choice, Hint
from channels.record import record
from ohmo.approvals.cards import closing
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.store import Closing, OutRow, PostRow
from ohmo.ids import NewId

_RUN = "run:"


@record
class _Lapse:
    """What a card says when nobody answered in time. ``label``: of the button for a late answer,
    ``hint``: how else to give it; none: it is too late for good."""

    note: str
    label: str = ""
    hint: Hint | None = None


_RUN_LATE = _Lapse("No answer in time: not run.", "Run it now", Hint.RUN_LATE)
_RUN_LATE_JOB = replace(_RUN_LATE, hint=Hint.RUN_LATE_JOB)
_GONE = _Lapse("No answer in time: denied")
_LAPSES: Mapping[Hint | None, _Lapse] = {
    Hint.DECIDE: _RUN_LATE,
    Hint.DECIDE_ONCE: _RUN_LATE,
    Hint.DECIDE_JOB: _RUN_LATE_JOB,
    Hint.DECIDE_ONCE_JOB: _RUN_LATE_JOB,
    Hint.REFUSE: _Lapse("No answer in time: not run."),
    Hint.WANTED: _Lapse("No answer in time: left unanswered.", "Answer it now", Hint.ANSWER_LATE),
}


def lapsing(new_id: NewId) -> Closing:
    """Takes the place of a card that nobody answered in time. A permission can still be given, and
    an old message still be wanted, as a new request."""

    @in_writer
    def close(row: OutRow) -> PostRow:
        lapse = _LAPSES.get(row.row.outbound.hint, _GONE)
        made = closing(new_id, lapse.note)(row)
        if lapse.hint is None:
            return made
        button = Choice(f"{_RUN}{row.row.id}", lapse.label)
        said = replace(made.outbound, choices=(button,), hint=lapse.hint)
        return replace(made, outbound=said)

    return close


def parse_run(choice: str) -> str | None:
    """The id of the question whose late answer a button gives; None: another button."""
    return choice.removeprefix(_RUN) if choice.startswith(_RUN) else None
