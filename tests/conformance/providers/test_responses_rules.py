"""What only the Responses wire has: reasoning that goes back, items in order, words an endpoint does
not know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ohmo.contracts.errors import Overloaded
from ohmo.contracts.messages import (
    CallResult,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.providers.models import Endpoint
from ohmo.providers.openai.responses_wire import renderings
from ohmo.providers.openai.wire import speaks_responses
from tests.conformance.providers.rigs import Conversation, Rig, rig
from tests.platforms.model.responses_wire import fault, sealed
from tests.platforms.model.script import Call, Turn

PNG = bytes.fromhex("89504e470d0a1a0a") + b"rest"


@pytest.fixture
async def made() -> AsyncIterator[Rig]:
    async with rig("responses") as made:
        yield made


async def test_nothing_is_stored_and_what_was_thought_goes_back_before_what_it_led_to(
    made: Rig,
) -> None:
    talk = Conversation(made.model)
    quirks = frozenset({"phases"})
    calls = (Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"}))
    made.server.next(Turn(text="I look.", thinking='so "it" \\ ist', calls=calls, quirks=quirks))
    step = (await made.ask(talk.says("go"))).step
    assert step.stop == "tools"
    for call in talk.takes(step):
        talk.result(call, "content")
    made.server.next(Turn(text="done", thinking="well", quirks=quirks))
    talk.takes((await made.ask(talk.request())).step)
    await made.ask(talk.says("and?"))
    body = made.server.asked[-1].body
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    items = body["input"]
    kinds = [item.get("type", item.get("role")) for item in items]
    assert kinds == (
        ["user", "reasoning", "assistant", "function_call", "function_call"]
        + ["function_call_output"] * 2
        + ["reasoning", "assistant", "user"]
    )
    assert items[1]["encrypted_content"] == sealed('so "it" \\ ist')
    assert [item["phase"] for item in items if "phase" in item] == ["commentary", "final_answer"]
    thoughts = [block for block in step.blocks if isinstance(block, Thinking)]
    assert thoughts[0].opaque.encode() in made.server.asked[-1].raw


async def test_what_was_thought_is_left_out_where_nothing_came_of_it(made: Rig) -> None:
    talk = Conversation(made.model)
    made.server.next(Turn(thinking="long", empty=True, stop="max_output_tokens"))
    step = (await made.ask(talk.says("go"))).step
    assert step.stop == "length"
    talk.takes(step)
    assert (await made.ask(talk.says("and?"))).step.stop == "end"
    assert b'reasoning","' not in made.server.asked[-1].raw.split(b'"input"')[1]


async def test_a_refusal_and_a_filtered_answer_are_refusals(made: Rig) -> None:
    talk = Conversation(made.model)
    made.server.next(
        Turn(text="I will not.", kind="refusal"), Turn(text="a", stop="content_filter")
    )
    refused = (await made.ask(talk.says("go"))).step
    assert (refused.stop, refused.blocks) == ("refusal", (Text("I will not."),))
    assert (await made.ask(talk.says("go"))).step.stop == "refusal"


@pytest.mark.parametrize("kind", ["failed", "server_error", "rate_limit_exceeded"])
async def test_a_response_that_fails_in_the_middle_is_tried_again(made: Rig, kind: str) -> None:
    made.server.next(Turn(text="half", status=500, in_stream=True, kind=kind))
    with pytest.raises(Overloaded):
        await made.ask(Conversation(made.model).says("go"))


async def test_items_that_only_the_whole_response_holds_are_read(made: Rig) -> None:
    calls = (Call("Read", {"file_path": "a"}),)
    made.server.next(Turn(text="I look.", calls=calls, quirks=frozenset({"only_output"})))
    step = (await made.ask(Conversation(made.model).says("go"))).step
    assert isinstance(step.blocks[1], ToolCall)
    assert step.blocks[0] == Text("I look.")


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ("Unsupported parameter: 'prompt_cache_key'.", "prompt_cache_key"),
        ("Unknown parameter: 'include'.", "include"),
        ("Encrypted content is not supported with this model.", "include"),
        ("Unsupported parameter: 'reasoning.effort' is not supported.", "reasoning"),
    ],
)
async def test_what_an_endpoint_does_not_know_is_left_out_from_then_on(
    made: Rig, message: str, key: str
) -> None:
    talk = Conversation(made.model)
    made.server.next(Turn(status=400, message=message))
    talk.takes((await made.ask(replace(talk.says("one"), effort="high"))).step)
    await made.ask(replace(talk.says("two"), effort="high"))
    assert [key in asked.body for asked in made.server.asked] == [True, False, False]


@pytest.mark.parametrize(
    "message",
    [
        "The encrypted content gAAA... could not be verified.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Reasoning input items can only be provided to a reasoning or computer use model.",
    ],
)
async def test_thoughts_that_are_not_taken_any_more_are_left_out_and_later_ones_are_not(
    made: Rig, message: str
) -> None:
    talk = Conversation(made.model)
    made.server.next(Turn(text="one", thinking="first"), Turn(status=400, message=message))
    talk.takes((await made.ask(talk.says("go"))).step)
    made.server.next(Turn(text="two", thinking="second"))
    talk.takes((await made.ask(talk.says("on"))).step)
    await made.ask(talk.says("and on"))
    raw = made.server.asked[-1].raw.decode()
    assert (sealed("first") in raw, sealed("second") in raw) == (False, True)


async def test_pictures_go_along_also_those_of_a_result(made: Rig, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)
    talk = Conversation(made.model)
    talk.steps += (UserStep((Image(picture, "image/png"), Text("what?")), "ada", "message"),)
    made.server.next(Turn(calls=(Call("Read", {"file_path": "a.png"}),)))
    (call,) = talk.takes((await made.ask(talk.request())).step)
    shown = ToolResult(call.id, "a.png", images=(Image(picture, "image/png"),))
    talk.steps += (CallResult(shown),)
    await made.ask(talk.request())
    items = made.server.asked[-1].body["input"]
    assert [part["type"] for part in items[0]["content"]] == ["input_image", "input_text"]
    assert [part["type"] for part in items[-1]["output"]] == ["input_text", "input_image"]
    assert items[-1]["output"][1]["image_url"].startswith("data:image/png;base64,iVBOR")


async def test_all_requests_of_a_conversation_name_one_cache_and_others_another(made: Rig) -> None:
    keys: list[set[str]] = []
    for first in ("one", "two"):
        before = len(made.server.asked)
        talk = Conversation(made.model)
        for word in (first, "and?", "and then?"):
            talk.takes((await made.ask(talk.says(word))).step)
        keys.append({asked.body["prompt_cache_key"] for asked in made.server.asked[before:]})
    assert [len(each) for each in keys] == [1, 1]
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (Endpoint("openai", ("gpt-6-sol",)), True),
        (Endpoint("openai", ("gpt-6-sol",), "https://api.openai.com/v1"), True),
        (Endpoint("openai", ("gpt-4o-audio-preview",)), False),
        (Endpoint("openai", ("gpt-6-sol",), wire="chat"), False),
        (Endpoint("openai", ("gpt-6-sol",), "https://x.openai.azure.com/openai/v1"), False),
        (Endpoint("openai", ("m",), "http://127.0.0.1:1234", wire="responses"), True),
    ],
)
def test_openai_itself_is_asked_over_responses_and_nobody_else_unasked(
    endpoint: Endpoint, expected: bool
) -> None:
    assert speaks_responses(endpoint) is expected
    letters = [rendering.letter for rendering in renderings(endpoint)]
    assert letters == (["r", "o"] if expected else ["o", "r"])  # what was sent before is known too


CALL = {"type": "function_call", "call_id": "c", "name": "Read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}
SAID = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAx"}


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ([SAID, CALL, OUTPUT, SAID], None),
        ([SAID, THOUGHT, CALL, OUTPUT], None),
        ([SAID, OUTPUT], "No tool call found"),
        ([SAID, CALL, SAID], "No tool output found"),
        ([SAID, CALL], "No tool output found"),
        ([SAID, THOUGHT, SAID], "without its required following item"),
        ([SAID, THOUGHT], "without its required following item"),
        ([SAID, THOUGHT | {"encrypted_content": None}, CALL, OUTPUT], "not found"),
        ([SAID, CALL, OUTPUT, CALL, OUTPUT], "Duplicate"),
        ([{"role": "user", "content": []}], "is empty"),
    ],
)
def test_the_scripted_endpoint_keeps_the_documented_rules(
    items: list[dict[str, object]], complaint: str | None
) -> None:
    found = fault({"model": "m", "input": items, "store": False})
    assert (found is None) if complaint is None else complaint in str(found)
