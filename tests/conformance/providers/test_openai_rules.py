"""What only the OpenAI wire has: dialects learnt from refusals, and the quirks of local servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ohmo.contracts.messages import ToolCall
from tests.conformance.providers.rigs import Conversation, rig
from tests.platforms.model.script import Call, Turn

TOOLS_NEED_NONE = (
    "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use"
    " function tools, use /v1/responses or set reasoning_effort to 'none'."
)


@pytest.mark.parametrize(
    "quirk", ["no_ids", "object_arguments", "no_usage", "no_index", "names_in_pieces"]
)
async def test_calls_of_servers_with_quirks_are_read(quirk: str) -> None:
    async with rig("openai") as made:
        calls = (Call("Read", {"file_path": "a"}), Call("Bash", {"command": "ls"}))
        made.server.next(Turn(text="so", calls=calls, quirks=frozenset({quirk})))
        talk = Conversation(made.model)
        read = talk.takes((await made.ask(talk.says("go"))).step)
        assert [(call.name, call.arguments) for call in read] == [
            ("Read", {"file_path": "a"}),
            ("Bash", {"command": "ls"}),
        ]
        for call in read:
            talk.result(call, "ok")
        assert (await made.ask(talk.request())).step.stop == "end"


async def test_an_optional_key_the_endpoint_does_not_know_is_left_out_from_then_on() -> None:
    async with rig("openai") as made:
        made.server.next(
            Turn(status=400, message="Unrecognized request argument supplied: stream_options"),
            Turn(
                status=400,
                message=(
                    "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
                    " 'max_completion_tokens' instead."
                ),
            ),
        )
        talk = Conversation(made.model)
        talk.takes((await made.ask(talk.says("one"))).step)
        await made.ask(talk.says("two"))
        assert len(made.server.asked) == 4
        for asked in made.server.asked[2:]:
            assert "stream_options" not in asked.body
            assert "max_tokens" not in asked.body
            assert asked.body["max_completion_tokens"] == 4096


async def test_a_model_that_takes_no_effort_beside_tools_is_asked_without() -> None:
    async with rig("openai") as made:
        made.server.next(Turn(status=400, message=TOOLS_NEED_NONE))
        await made.ask(replace(Conversation(made.model).says("one"), effort="high"))
        assert [asked.body["reasoning_effort"] for asked in made.server.asked] == ["high", "none"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [("gpt-6-sol", "none"), ("gpt-5.4-mini", "none"), ("gpt-5", None), ("qwen3", None)],
)
async def test_models_known_to_refuse_tools_with_effort_get_none_at_once(
    model: str, expected: str | None
) -> None:
    async with rig("openai") as made:
        await made.ask(Conversation(model).says("one"))
        assert made.server.asked[0].body.get("reasoning_effort") == expected


async def test_broken_arguments_become_a_value_that_quotes_them() -> None:
    async with rig("openai") as made:
        made.server.next(Turn(calls=(Call("Read", '{"file_path": "a'),)))
        (call,) = [
            block
            for block in (await made.ask(Conversation(made.model).says("go"))).step.blocks
            if isinstance(block, ToolCall)
        ]
        assert call.arguments == {"unreadable_arguments": '{"file_path": "a'}
