"""Bodies written by an older ohmo, which said in sentences what is a field today: the one place that
knows those sentences. Pure."""

from __future__ import annotations

import re
from typing import Any, cast

from ohmo.contracts.messages import Layer

Body = dict[str, Any]  # as JSON

# How the result of a call began that was not run, in the order in which they are tried.
_REFUSALS = (
    (r"Not allowed \((?:approval|question)\): nobody (?:allowed it|answered) in time", Layer.LAPSED),
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
    result = body.get("result")
    if not isinstance(result, dict) or "refused" in result:
        return body
    known = cast("Body", result)
    return {**body, "result": {**known, "refused": _layer(known)}}


def _layer(result: Body) -> str | None:
    text = result.get("text")
    if not result.get("error") or not isinstance(text, str):
        return None
    return next((layer for begins, layer in _REFUSALS if re.match(begins, text)), None)
