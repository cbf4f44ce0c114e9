"""Bodies: what goes in comes out; what is not understood is refused with its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.contract import (
    Address,
    Answer,
    Attachment,
    ChatId,
    Choice,
    Edited,
    Inbound,
    MessageId,
    Outbound,
    Part,
    Person,
    PersonId,
    Reacted,
    Receipt,
    TopicId,
)
from ohmo.contracts.arrivals import Occurrence, Wake
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    Image,
    ModelStep,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.outbox import PartState
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import ThreadSettings
from ohmo.store import codec

NOW = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
PLACE = Address("slack", "T1", ChatId("C1"), TopicId("17.1"))
ADA = Person(PersonId("ada"), "Ada", bot=True)
ODD = "NUL \0 lone \ud800 \udfff é 🜁 \x1b \u2028"
SAID = {"key": "k", "aliases": ("x",), "address": PLACE, "person": ADA, "at": NOW, "order": "1"}
ARRIVALS = [
    Inbound(
        **SAID,
        message=MessageId("m"),
        text=ODD,
        private=False,
        addressed=True,
        attachments=(Attachment("r", "n", "image/png", None),),
        album="a",
    ),
    Edited(**SAID, message=MessageId("m"), text=None),
    Reacted(**SAID, message=MessageId("m"), emoji="+1", added=False),
    Answer(**SAID, message=MessageId("m"), choice="yes", token="t"),
    Wake("job@1", "cron", PLACE, None, "ada", ODD, NOW, Occurrence("job", NOW)),
]
STEPS = [
    UserStep((Text(ODD), Image(Path("/a/b\udcff.png"), "image/png")), "ada", "message"),
    ModelStep(
        (
            Thinking("anthropic", '{"a":1}'),
            Text("x"),
            ToolCall("t.1", "Bash", {"a": [1, 2.5, None, True, {"b": ODD}]}, "f"),
        ),
        "m",
        "tools",
    ),
    CallStarted("t.1", "d"),
    CallResult(
        ToolResult("t.1", ODD, error=True, images=(Image(Path("x"), "y"),), spill=Path("/s"))
    ),
    Compaction("summary", 17),
]


@pytest.mark.parametrize("arrival", ARRIVALS, ids=lambda a: type(a).__name__)
def test_every_arrival_survives(arrival: object) -> None:
    text = codec.write_arrival(arrival)
    assert text.isascii()
    assert "\0" not in text
    assert codec.read_arrival(text) == arrival


@pytest.mark.parametrize("step", STEPS, ids=lambda s: type(s).__name__)
def test_every_step_survives(step: object) -> None:
    assert codec.read_step(codec.write_step(step)) == step


def test_posts_parts_questions_and_settings_survive() -> None:
    post = Outbound(
        PLACE,
        ODD,
        (Path("/f"),),
        (Choice("y", "Yes", "good"),),
        (PersonId("bob"),),
        plain=True,
        replaces=(Receipt(MessageId("m"), NOW),),
    )
    assert codec.read_outbound(codec.write_outbound(post)) == post
    parts = (
        PartState(Part("edit", ODD, MessageId("t")), Receipt(MessageId("r")), "h"),
        PartState(Part("post", "{}")),
    )
    assert codec.read_parts(codec.write_parts(parts)) == parts
    assert codec.read_parts(codec.write_parts(())) == ()
    question = Question("permission", "t", ODD, (Choice("y", "Yes"),), "digest")
    assert codec.read_question(codec.write_question(question)) == question
    chosen = ThreadSettings(mode="plan", title=ODD)
    assert codec.read_settings(codec.write_settings(chosen)) == chosen
    assert codec.write_settings(ThreadSettings()) == "{}"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"colour": 1}, "Inbound has no field colour"),
        ({"key": None}, "None is no str"),
        ({"private": 1}, "1 is no bool"),
        ({"at": "noon"}, "Inbound: Invalid isoformat"),
        ({"is": "Shouted"}, "'Shouted' is none of"),
        ({"attachments": {}}, "{} is no list"),
    ],
)
def test_what_is_not_understood_is_named(change: dict[str, object], line: str) -> None:
    body = json.loads(codec.write_arrival(ARRIVALS[0])) | change
    with pytest.raises(codec.Unreadable, match=line.replace("{}", r"\{\}")):
        codec.read_arrival(json.dumps(body))


def test_a_missing_field_is_named() -> None:
    body = json.loads(codec.write_arrival(ARRIVALS[1]))
    del body["message"]
    with pytest.raises(codec.Unreadable, match="Edited lacks message"):
        codec.read_arrival(json.dumps(body))
    with pytest.raises(codec.Unreadable, match="no JSON"):
        codec.read_arrival("{")


def test_an_older_row_reads_as_the_default_of_a_newer_field() -> None:
    body = json.loads(codec.write_arrival(ARRIVALS[0]))
    del body["attachments"], body["album"]
    assert codec.read_arrival(json.dumps(body)).attachments == ()


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_any_text_fits_a_column(text: str) -> None:
    stored = codec.column(text)
    stored.encode("utf-8")
    assert "\0" not in stored
    # two lone surrogates that make a pair come back as the character they make: JSON knows no other
    # reading
    assert codec.from_column(stored) == text.encode("utf-16", "surrogatepass").decode(
        "utf-16", "surrogatepass"
    )
