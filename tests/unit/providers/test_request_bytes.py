"""The bytes of conversations are kept, bounded, and never mixed up; a picture is announced as what
it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    Image,
    ModelStep,
    Step,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.providers.anthropic.wire import MessagesWire, marked
from ohmo.providers.openai.responses_wire import ResponsesWire
from ohmo.providers.openai.wire import CompletionsWire
from ohmo.providers.request_bytes import GONE, ConversationCache, Unseen, Wire, true_type
from tests.platforms.model.responses_wire import fault as responses_fault
from tests.platforms.model.validity import anthropic_fault, openai_fault

WIRES = (MessagesWire(), CompletionsWire(), ResponsesWire())
THOUGHTS = {
    "anthropic": '{"type":"thinking","thinking":"t","signature":"s"}',
    "openai-responses": '{"type":"reasoning","id":"rs_1","encrypted_content":"gAAAA"}',
    "openai-chat": '{"reasoning_content":"t"}',
    "other": "{}",
}


def no_picture(_: Image) -> Unseen:
    return GONE


def said(text: str, person: str = "ada") -> UserStep:
    return UserStep((Text(text),), person, "message")


def answered(text: str) -> ModelStep:
    return ModelStep((Text(text),), "m", "end")


def written(conversations: ConversationCache, steps: Sequence[Step]) -> bytes:
    body, tail = conversations.write(conversations.open(tuple(steps)), no_picture)
    return b"[" + bytes(body) + (b"," if body and tail else b"") + tail + b"]"


def test_two_conversations_that_begin_alike_stay_apart() -> None:
    conversations = ConversationCache(MessagesWire())
    one: list[Step] = [said("hi")]
    two: list[Step] = [said("hi")]
    for number in range(5):
        for name, steps in (("one", one), ("two", two)):
            text = written(conversations, steps)
            assert text == written(ConversationCache(MessagesWire()), steps)
            steps += [answered(f"{name} {number}"), said(f"go on {number}")]


def test_what_all_are_told_first_is_not_compared_with_all_of_them() -> None:
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    cache = ConversationCache(MessagesWire())
    talks: list[tuple[Step, ...]] = []
    for number in range(50):
        today = UserStep((Text(Counted("It is Tuesday.")),), "house", "context")
        talks.append((today, said(f"word {number}")))
    for _ in range(3):
        for number, talk in enumerate(talks):
            written(cache, talk)
            today = UserStep((Text(Counted("It is Tuesday.")),), "house", "context")
            talks[number] = (today, *talk[1:], answered("yes"), said("more"))
    assert 0 < compared <= 3 * 50


def test_the_quietest_conversations_leave_when_the_bound_is_reached_and_come_back_equal() -> None:
    cache = ConversationCache(MessagesWire(), limit=20_000)
    conversations = [
        [said(f"{number}"), answered("x" * 3_000), said("more"), answered("y"), said("more")]
        for number in range(20)
    ]
    first = [written(cache, steps) for steps in conversations]
    assert len(cache._conversations) <= 7
    assert [written(cache, steps) for steps in conversations] == first


def test_history_that_was_cut_begins_a_conversation_of_its_own() -> None:
    conversations = ConversationCache(MessagesWire())
    steps: list[Step] = [said("one"), answered("1"), said("two"), answered("2"), said("three")]
    written(conversations, steps)
    cut = [Compaction("they counted", 3), *steps[2:]]
    messages = json.loads(written(conversations, cut))
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[0]["content"][0]["text"].endswith("they counted")


@pytest.mark.parametrize("wire", WIRES, ids=type)
def test_history_that_begins_with_the_model_is_still_a_conversation(wire: Wire) -> None:
    conversations = ConversationCache(wire)
    steps: list[Step] = [answered("1")]
    for number in range(3):
        messages = json.loads(written(conversations, steps))
        if isinstance(wire, MessagesWire):
            assert anthropic_fault({"model": "m", "max_tokens": 1, "messages": messages}) is None
        assert written(conversations, steps) == written(ConversationCache(wire), steps)
        steps += [said("two"), answered(f"{number}")]


CALLS = st.lists(st.sampled_from(["call_0", "", "a.b", "toolu_1"]), max_size=3)
TEXTS = st.text(max_size=8)


@st.composite
def conversations(draw: st.DrawFn) -> list[Step]:
    """What a transcript may hold, and a little more: results missing, out of order, of unknown
    calls; empty words; several people."""
    steps: list[Step] = [said(draw(TEXTS))]
    count = 0
    for _ in range(draw(st.integers(0, 6))):
        blocks: list[Text | Thinking | ToolCall] = (
            [Text(draw(TEXTS))] if draw(st.booleans()) else []
        )
        thinkers = draw(st.lists(st.sampled_from(sorted(THOUGHTS)), max_size=2))
        blocks += [Thinking(thinker, THOUGHTS[thinker]) for thinker in thinkers]
        blocks += [Text(draw(TEXTS))] if draw(st.booleans()) else []
        results: list[Step] = []
        for foreign in draw(CALLS):
            count += 1
            blocks.append(ToolCall(f"turn.{count}", "Read", {"t": draw(TEXTS)}, foreign))
            if draw(st.integers(0, 3)):
                results += [
                    CallStarted(f"turn.{count}", "d"),
                    CallResult(ToolResult(f"turn.{count}", draw(TEXTS), draw(st.booleans()))),
                ]
        steps.append(ModelStep(tuple(blocks), "m", "tools" if results else "end"))
        extra: list[Step] = [said(draw(TEXTS), "bob") for _ in range(draw(st.integers(0, 2)))]
        if draw(st.integers(0, 5)) == 0:
            extra.append(CallResult(ToolResult("gone.1", "x")))
        steps += draw(st.permutations([*results, *extra]))
    return steps


@pytest.mark.parametrize("wire", WIRES, ids=type)
@given(data=st.data())
def test_whatever_a_transcript_holds_the_endpoint_accepts_it_and_growing_gives_the_same_bytes(
    wire: Wire, data: st.DataObject
) -> None:
    steps = data.draw(conversations())
    grown = ConversationCache(wire)
    kept = b""
    for end in range(1, len(steps) + 1):
        kept = written(grown, steps[:end])
        messages = json.loads(kept)
        match wire:
            case MessagesWire():
                fault = anthropic_fault({"model": "m", "max_tokens": 1, "messages": messages})
            case ResponsesWire():
                fault = responses_fault({"model": "m", "input": messages, "store": False})
            case _:
                fault = openai_fault({"messages": messages})
        assert fault is None
    assert grown.rendered <= 2 * len(steps)
    assert kept == written(ConversationCache(wire), steps)


@given(conversations())
def test_breakpoints_change_nothing_but_themselves(steps: list[Step]) -> None:
    conversations = ConversationCache(MessagesWire())
    body, tail = conversations.write(conversations.open(tuple(steps)), no_picture)
    plain = b"[" + bytes(body) + (b"," if body else b"") + tail + b"]"
    with_marks = json.loads(b"[" + b"".join(marked(body, tail)) + b"]")
    marks = [
        block.pop("cache_control")
        for message in with_marks
        for block in message["content"]
        if "cache_control" in block
    ]
    assert 1 <= len(marks) <= 2
    assert with_marks == json.loads(plain)


def test_equal_conversations_of_new_objects_keep_their_bytes_too() -> None:
    conversations = ConversationCache(MessagesWire())
    steps: list[Step] = [said("one"), answered("1"), said("two"), answered("2"), said("three")]
    written(conversations, steps)
    before = conversations.rendered
    again = [replace(step) for step in steps]
    written(conversations, again)
    assert conversations.rendered - before <= 2  # the open exchange only


HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBP",
}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("announced", HEADS)
def test_the_first_bytes_decide(kind: str, announced: str) -> None:
    assert true_type(base64.b64encode(HEADS[kind] + b"rest").decode(), announced) == kind


def test_what_nobody_knows_stays_as_announced() -> None:
    assert true_type(base64.b64encode(b"something else").decode(), "image/png") == "image/png"
