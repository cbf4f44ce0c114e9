"""Bodies written by an older ohmo, which said in sentences what is a field today: the one place
that knows those sentences. Pure."""

from __future__ import annotations

import re
from typing import Any, cast

from channels.contract import Hint
from ohmo.contracts.messages import Layer

Body = dict[str, Any]  # as JSON

# How the result of a call began that was not run, in the order in which they are tried.
_REFUSALS = (
    (r"Not allowed \(approval\): nobody allowed it in time", Layer.LAPSED),
    (r"Not allowed \(question\): nobody answered in time", Layer.LAPSED),
    (r"Not allowed \(approval\): what it would touch changed", Layer.CHANGED),
    (r"Not allowed \((?:approval|question)\)", Layer.PERSON),
    (r"Not allowed \(gate\)", Layer.UNJUDGED),
    (r"Not allowed \(", Layer.POLICY),
    (r"There is no tool named ", Layer.NO_TOOL),
    (r"[\w-]+: (?:the arguments do not fit; nothing was run|arguments are not valid JSON)",
     Layer.ARGUMENTS),
    (r"Interrupted by a restart before it ran", Layer.RESTART),
    (r"Interrupted by a restart while it ran", Layer.UNKNOWN),
    (r"Stopped before it ran to its end", Layer.STOPPED),
    (r"Stopped before it ended: its effect is unknown", Layer.UNKNOWN),
)  # fmt: skip


def step(body: Body) -> Body:
    """A result that does not say by which layer it was refused."""
    written = body.get("result")
    if not isinstance(written, dict) or "refused" in written:
        return body
    result = cast("Body", written)
    text = result.get("text")
    refused: str | None = None
    if result.get("error") and isinstance(text, str):
        refused = next((layer for begins, layer in _REFUSALS if re.match(begins, text)), None)
    return {**body, "result": {**result, "refused": refused}}


# How the text of a card ended that waits for an answer, or of what could still be answered late.
_LONGER = "`/approve`, `/approve session`, `/approve always` or `/deny`"
_ONCE = "`/approve` or `/deny`"
_JOB = "Answer with a button, or with 👍 or 👎, or say "
_WANTED = "Answer it"  # the label of the button that wants an old message answered
_HINTS = (
    (f"Answer with a button, or say {_LONGER}.", Hint.DECIDE),
    (f"Answer with a button, or say {_ONCE}.", Hint.DECIDE_ONCE),
    (f"{_JOB}{_LONGER} here.", Hint.DECIDE_JOB),
    (f"{_JOB}{_ONCE} here.", Hint.DECIDE_ONCE_JOB),
    (f"{_JOB}{_LONGER}.", Hint.DECIDE_HOOK),
    (f"{_JOB}{_ONCE}.", Hint.DECIDE_ONCE_HOOK),
    ("Answer with a button, or with 👍 or 👎.", Hint.DECIDE_ONCE_JOB),
    ("Answer with a button or `/deny` to refuse it.", Hint.REFUSE),
    ("Answer with a button or in your own words.", Hint.CHOOSE),
    ("Answer with a button, or reply to this message in your own words.", Hint.CHOOSE_JOB),
    ("Answer in your own words.", Hint.SAY),
    ("Answer in reply to this message, in your own words.", Hint.SAY_JOB),
    ("Press the button, or say `/approve`, to run it now.", Hint.RUN_LATE),
    ("Press the button, or say `/approve`, to have it answered now.", Hint.ANSWER_LATE),
    ("Press the button to run it now.", Hint.RUN_LATE_JOB),
    ("Press the button, or say `/retry`, to try it again.", Hint.RETRY),
)
_BY_COMMAND = re.compile(
    r"Answer with a button, or with `ohmo approvals approve \S+` or `deny`\.\Z"
)


def outbound(body: Body) -> Body:
    """A card, or a failure with a button, that says in its text how it is answered."""
    text = body.get("text")
    choices = cast("list[Body]", body.get("choices") or [])
    if "hint" in body or not isinstance(text, str) or not (choices or body.get("card")):
        return body
    slant = "_" if text.endswith("._") else ""
    text = _BY_COMMAND.sub(_HINTS[1][0], text.removesuffix(slant))
    ending = next((pair for pair in _HINTS if text.endswith(pair[0])), None)
    if ending is None:
        return body
    words, hint = ending
    if hint is Hint.DECIDE_ONCE and _WANTED in [str(choice.get("label")) for choice in choices]:
        hint = Hint.WANTED
    text = f"{text.removesuffix(words).rstrip()}{slant}"
    return {**body, "text": text, "hint": hint, "card": hint is not Hint.RETRY}
