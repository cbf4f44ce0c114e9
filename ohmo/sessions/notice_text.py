"""What the house itself says in a thread when a turn does not end with an answer."""

from __future__ import annotations

from channels.contract import Choice

NO_ANSWER = "(The model gave an empty answer.)"
LEFT_OUT = (
    "This conversation is longer than the model's window: from now on its oldest part is left out."
    " Nothing is deleted; /new begins afresh."
)
STOPPED_TOOL = "Stopped before it ended: its effect is unknown."
NOT_RUN = "Stopped before it ran to its end: it had no effect."
CUT_OFF = (
    "(A person stopped the answer here. They have read what was said so far; do not go on with it"
    " unasked.)"
)
TOO_LATE = "its deadline had passed before it could run"
_AGAIN = "again:"


BOT_LOOP = (
    "I have answered this bot {turns} times in a row and pause now. Anybody who is not a bot can go"
    " on by writing here."
)
STILL_WANTED = "(This message is old; its person was asked and still wants it answered.)"


def unreadable(reason: str) -> str:
    """A stored message that means nothing any more."""
    return (
        f"A message here cannot be read any more ({reason.rstrip('.')}). It failed for good; please"
        " say it again."
    )


def failed(reason: str, *, guest: bool = False) -> str:
    """A turn that failed. A ``guest`` reads nothing of what lies behind it."""
    if guest:
        return "I could not finish this. The owner is told why."
    return f"I could not finish this: {reason.rstrip('.')}."


def waiting(reason: str, *, guest: bool = False) -> str:
    """A turn whose model or file cannot be had now."""
    why = "" if guest else f" ({reason.rstrip('.')})"
    return f"I cannot go on yet{why}. Your message is kept and answered as soon as it can be."


def again(turn: str) -> Choice:
    """The button below a failure: everything that failed with this turn."""
    return Choice(f"{_AGAIN}{turn}", "Try again")


def parse_again(choice: str) -> str | None:
    """The turn that shall be tried again; None: another button."""
    return choice.removeprefix(_AGAIN) if choice.startswith(_AGAIN) else None


def overdue(minutes: float) -> str:
    """A turn that met its deadline."""
    return f"the limit of {minutes:g} minutes for one turn was reached"
