"""Bodies as an older ohmo wrote them, byte for byte, and what they mean today."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from channels.contract import Hint
from ohmo.approvals.cards import worded
from ohmo.approvals.lapsing import lapsing
from ohmo.contracts.messages import CallResult, Layer, ToolResult
from ohmo.contracts.outbox import OutRow, PostRow
from ohmo.store import codec

BIRTH = datetime(2026, 1, 5, tzinfo=UTC)


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
    """The words of a refusal, from a tool: the field tells, and is written also when it is
    empty."""
    step = CallResult(ToolResult("t.1", "Not allowed (approval): the person said no", error=True))
    assert codec.read_step(codec.write_step(step)) == step


def post(text: str, *labels: str, card: bool = True) -> str:
    """As commit 0182705 wrote it: the text says how it is answered."""
    choices = [{"value": f"{number}:q", "label": label} for number, label in enumerate(labels)]
    address = {"channel": "slack", "account": "T1", "chat": "C1"}
    body: dict[str, object] = {"address": address, "text": text}
    body |= ({"choices": choices} if choices else {}) | ({"card": True} if card else {})
    return json.dumps(body, separators=(",", ":"))


ALLOW = ("Allow once", "Deny")
LONGER = "`/approve`, `/approve session`, `/approve always` or `/deny`"
CARDS = [
    (f"Answer with a button, or say {LONGER}.", ALLOW, Hint.DECIDE),
    ("Answer with a button, or say `/approve` or `/deny`.", ALLOW, Hint.DECIDE_ONCE),
    ("Answer with a button, or say `/approve` or `/deny`.", ("Answer it", "Leave it"), Hint.WANTED),
    (f"Answer with a button, or with 👍 or 👎, or say {LONGER} here.", ALLOW, Hint.DECIDE_JOB),
    (
        "Answer with a button, or with 👍 or 👎, or say `/approve` or `/deny`.",
        ALLOW,
        Hint.DECIDE_ONCE_HOOK,
    ),
    ("Answer with a button or `/deny` to refuse it.", ("Deny",), Hint.REFUSE),
    ("Answer with a button or in your own words.", ("red", "blue"), Hint.CHOOSE),
    ("Answer in your own words.", (), Hint.SAY),
    ("Answer in reply to this message, in your own words.", (), Hint.SAY_JOB),
]


@pytest.mark.parametrize(("words", "labels", "hint"), CARDS)
def test_a_card_written_before_says_how_it_is_answered(
    words: str, labels: tuple[str, ...], hint: Hint
) -> None:
    said = codec.read_outbound(post(f"**Bash: ls**\n\nAnswer nothing\n\n{words}", *labels))
    assert (said.text, said.hint, said.card) == ("**Bash: ls**\n\nAnswer nothing", hint, True)
    assert worded(said, buttons=True).text.endswith(f"\n\n{words}")
    assert codec.read_outbound(codec.write_outbound(said)) == said


@pytest.mark.parametrize(
    ("words", "late"),
    [
        (CARDS[0][0], "Run it now"),
        (CARDS[3][0], "Run it now"),
        (CARDS[4][0], None),
        (CARDS[5][0], None),
        ("Answer with a button, or with `ohmo approvals approve q1` or `deny`.", "Run it now"),
        ("Answer with a button, or with 👍 or 👎.", "Run it now"),
    ],
)
def test_of_a_card_written_before_the_same_calls_can_be_run_late(
    words: str, late: str | None
) -> None:
    said = codec.read_outbound(post(f"**Bash: ls**\n\n{words}", *ALLOW))
    row = PostRow("a" * 22, "message", said)
    over = lapsing(lambda: "b" * 22)(
        OutRow(row, "thread", 1, "turn", "sent", (), 0, BIRTH, BIRTH, BIRTH)
    ).outbound
    assert [choice.label for choice in over.choices] == ([late] if late else [])
    assert over.text.startswith("**Bash: ls**\n\n_No answer in time: ")


def test_what_could_be_answered_late_or_tried_again_before_still_can() -> None:
    late = post("**Bash**\n\n_No answer in time: not run._ Press the button to run it now.", "Run")
    assert codec.read_outbound(late).hint is Hint.RUN_LATE_JOB
    retry = "Press the button, or say `/retry`, to try it again."
    failure = codec.read_outbound(post(f"Half.\n\n_I failed: x. {retry}_", "Try", card=False))
    assert (failure.text, failure.hint, failure.card) == (
        "Half.\n\n_I failed: x._",
        Hint.RETRY,
        False,
    )
    assert worded(failure, buttons=True).text == f"Half.\n\n_I failed: x._ {retry}"


def test_nothing_else_is_taken_out_of_a_text() -> None:
    for body in (
        post("**Bash**\n\n_Denied by Ada_"),
        post("Answer in your own words.", card=False),
    ):
        assert codec.read_outbound(body).hint is None
        assert codec.read_outbound(body).text == json.loads(body)["text"]
