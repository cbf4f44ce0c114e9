"""Bodies as an older ohmo wrote them, byte for byte, and what they mean today."""

from __future__ import annotations

import json

import pytest

from ohmo.contracts.messages import CallResult, Layer, ToolResult
from ohmo.store import codec


def result(text: str, *, error: bool = True) -> str:
    """As commit 0182705 wrote it."""
    said = {"call": "t.1", "text": text} | ({"error": True} if error else {})
    return json.dumps({"is": "CallResult", "result": said}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("Not allowed (deny: Bash(rm:*)): it is in the list", Layer.POLICY),
        ("Not allowed (mode: plan): plan mode: it may change something", Layer.POLICY),
        ("Not allowed (gate): the call could not be judged (KeyError: 'x')", Layer.UNJUDGED),
        ("Not allowed (approval): the person said no: use y. Do not try the same", Layer.PERSON),
        ("Not allowed (question): the person did not want to answer", Layer.PERSON),
        ("Not allowed (approval): nobody allowed it in time; it was not run.", Layer.LAPSED),
        ("Not allowed (question): nobody answered in time; go on", Layer.LAPSED),
        ("Not allowed (approval): what it would touch changed while", Layer.CHANGED),
        ("There is no tool named Dance. Tools: Do.", Layer.NO_TOOL),
        ("Edit: the arguments do not fit; nothing was run.\n- path", Layer.ARGUMENTS),
        ("Bash: arguments are not valid JSON: {", Layer.ARGUMENTS),
        ("Interrupted by a restart before it ran: not executed.", Layer.RESTART),
        ("Interrupted by a restart while it ran: its effect is unknown.", Layer.UNKNOWN),
        ("Stopped before it ran to its end: it had no effect.", Layer.STOPPED),
        ("Stopped before it ended: its effect is unknown.", Layer.UNKNOWN),
        ("exit code 1", None),
    ],
)
def test_a_result_written_before_says_by_which_layer_it_was_refused(
    text: str, layer: Layer | None
) -> None:
    step = codec.read_step(result(text))
    assert step == CallResult(ToolResult("t.1", text, error=True, refused=layer))
    assert codec.read_step(codec.write_step(step)) == step


def test_what_a_tool_printed_was_no_refusal_before_either() -> None:
    step = codec.read_step(result("Not allowed (deny): a page", error=False))
    assert step == CallResult(ToolResult("t.1", "Not allowed (deny): a page"))


def test_what_a_tool_says_of_itself_today_refuses_nothing() -> None:
    """The words of a refusal, from a tool: the field tells, and is written also when it is empty."""
    step = CallResult(ToolResult("t.1", "Not allowed (approval): the person said no", error=True))
    assert codec.read_step(codec.write_step(step)) == step
