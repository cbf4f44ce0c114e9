"""Whether a message has waited so long that its person is asked before it is answered. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from channels.contract import Choice, Inbound
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Work

CALL = "Late"  # the name under which the question stands; no tool has it
DIGEST = "late"  # of the question: whatever it is about
ANSWER = "Answer it"  # the choice that wants it answered
LONGEST = 300  # characters of the message that are shown


def late(work: Work, now: datetime, after: timedelta | None) -> Question | None:
    """What to ask; None: it is young enough, or nobody can be asked."""
    first = work.arrivals[0]
    if (
        after is None
        or not isinstance(first, Inbound)
        or first.person.bot
        or now - first.at <= after
    ):
        return None
    hours = round((now - first.at).total_seconds() / 3600)
    text = first.text if len(first.text) <= LONGEST else first.text[:LONGEST] + "…"
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    choices = (Choice("once", ANSWER, "good"), Choice("deny", "Leave it", "danger"))
    return Question(
        "permission",
        f"This has waited for {hours} h. Shall I still answer it?",
        quoted,
        choices,
        DIGEST,
    )
