"""How a card is answered, in words: where there are buttons, and where a platform has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from channels.contract import Hint, Outbound

_ONCE = "`/approve` or `/deny`"
_LONGER = "`/approve`, `/approve session`, `/approve always` or `/deny`"
_BUTTON = "Answer with a button, or say"
_THUMB = "Answer with 👍 or 👎 on this message, or say"  # as the commands, it means this very card
# Where the card of a job or a webhook stands is not its conversation: other words are no answer.
_JOB_BUTTON = "Answer with a button, or with 👍 or 👎, or say"
_JOB_THUMB = "Answer with 👍 or 👎, or say"

# With buttons, and without. A permission is never given by chance words.
_WORDS: Mapping[Hint, tuple[str, str]] = {
    Hint.DECIDE: (f"{_BUTTON} {_LONGER}.", f"{_THUMB} {_LONGER}."),
    Hint.DECIDE_ONCE: (f"{_BUTTON} {_ONCE}.", f"{_THUMB} {_ONCE}."),
    Hint.WANTED: (f"{_BUTTON} {_ONCE}.", f"{_THUMB} {_ONCE}."),
    Hint.DECIDE_JOB: (f"{_JOB_BUTTON} {_LONGER} here.", f"{_JOB_THUMB} {_LONGER} here."),
    Hint.DECIDE_ONCE_JOB: (f"{_JOB_BUTTON} {_ONCE} here.", f"{_JOB_THUMB} {_ONCE} here."),
    Hint.DECIDE_HOOK: (f"{_JOB_BUTTON} {_LONGER}.", f"{_JOB_THUMB} {_LONGER}."),
    Hint.DECIDE_ONCE_HOOK: (f"{_JOB_BUTTON} {_ONCE}.", f"{_JOB_THUMB} {_ONCE}."),
    Hint.REFUSE: (
        "Answer with a button or `/deny` to refuse it.",
        "Answer with 👎 on this message or `/deny` to refuse it.",
    ),
    Hint.CHOOSE: ("Answer with a button or in your own words.", "Answer in your own words."),
    Hint.CHOOSE_JOB: (
        "Answer with a button, or reply to this message in your own words.",
        "Say one of them, or reply to this message in your own words.",
    ),
    Hint.SAY: ("Answer in your own words.", "Answer in your own words."),
    Hint.SAY_JOB: (
        "Answer in reply to this message, in your own words.",
        "Answer in reply to this message, in your own words.",
    ),
    Hint.RUN_LATE: (
        "Press the button, or say `/approve`, to run it now.",
        "Say `/approve` to run it now.",
    ),
    Hint.RUN_LATE_JOB: ("Press the button to run it now.", ""),
    Hint.ANSWER_LATE: (
        "Press the button, or say `/approve`, to have it answered now.",
        "Say `/approve` to have it answered now.",
    ),
    Hint.RETRY: (
        "Press the button, or say `/retry`, to try it again.",
        "Say `/retry` to try it again.",
    ),
}
# These stand behind the last words of the message, the others below it.
_BEHIND = (Hint.RUN_LATE, Hint.RUN_LATE_JOB, Hint.ANSWER_LATE, Hint.RETRY)
_IN_WORDS = (Hint.CHOOSE, Hint.CHOOSE_JOB)  # words answer it, and its choices say which


def worded(said: Outbound, *, buttons: bool) -> Outbound:
    """``said`` with the words on how to answer it. Without ``buttons`` only the choices of a
    question that takes words are left."""
    if said.hint is None:
        return said
    how = _WORDS[said.hint][0 if buttons else 1]
    between = " " if said.hint in _BEHIND else "\n\n"
    choices = said.choices if buttons or said.hint in _IN_WORDS else ()
    return replace(said, text=f"{said.text}{between}{how}" if how else said.text, choices=choices)
