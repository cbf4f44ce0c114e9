"""What the house itself says in a thread when a turn does not end with an answer."""

from __future__ import annotations

NO_ANSWER = "(The model gave an empty answer.)"
LEFT_OUT = (
    "This conversation is longer than the model's window: from now on its oldest part is left out. Nothing is deleted; /new begins afresh."
)
STOPPED_TOOL = "Stopped before it ended: its effect is unknown."
NOT_RUN = "Stopped before it ran to its end: it had no effect."
TOO_LATE = "its deadline had passed before it could run"
WAITING = "I cannot go on yet ({reason}). Your message is kept and answered as soon as it can be."


BOT_LOOP = "I have answered this bot {turns} times in a row and pause now. Anybody who is not a bot can go on by writing here."
STILL_WANTED = "(This message is old; its person was asked and still wants it answered.)"


def unreadable(reason: str) -> str:
    """A stored message that means nothing any more."""
    return f"A message here cannot be read any more ({reason.rstrip('.')}). It is kept as a dead letter; please say it again."


def failed(reason: str) -> str:
    """A turn that ended in a dead letter."""
    return f"I could not finish this: {reason.rstrip('.')}. Your message is kept as a dead letter; the owner can bring it back with `ohmo inbox retry`."


def overdue(minutes: float) -> str:
    """A turn that met its deadline."""
    return f"the limit of {minutes:g} minutes for one turn was reached"
