"""What only Anthropic's wire has: breakpoints, thinking that is bound to its conversation, images
in results."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from ohmo.contracts.errors import Refused
from ohmo.contracts.messages import (
    CallResult,
    Image,
    ModelStep,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from tests.conformance.providers.rigs import Conversation, rig
from tests.platforms.model.script import Asked, Call, Turn

UNBOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a"
    " different conversation. Remove the block, or set"
    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


def marks(asked: Asked) -> list[str]:
    found = [
        f"tool {tool['name']}" for tool in asked.body.get("tools", ()) if "cache_control" in tool
    ]
    found += [
        f"system {number}"
        for number, block in enumerate(asked.body.get("system", ()))
        if "cache_control" in block
    ]
    for number, message in enumerate(asked.body["messages"]):
        found += [
            f"message {number}.{at}"
            for at, block in enumerate(message["content"])
            if "cache_control" in block
        ]
    return found


async def test_an_endpoint_of_ones_own_gets_the_key_as_the_api_names_it_and_as_a_bearer() -> None:
    """API overview, "Authentication": x-api-key. The SDK by itself sends only a bearer, which
    gateways that keep to that page refuse."""
    async with rig("anthropic") as made:
        await made.ask(Conversation(made.model).says("hello"))
        headers = {name.lower(): value for name, value in made.server.asked[-1].headers.items()}
        assert headers["authorization"] == f"Bearer {headers['x-api-key']}"


async def test_breakpoints_stand_after_the_last_tool_the_asked_section_and_the_newest_words() -> (
    None
):
    async with rig("anthropic") as made:
        talk = Conversation(made.model)
        talk.takes((await made.ask(talk.says("one"))).step)
        await made.ask(talk.says("two"))
        assert marks(made.server.asked[0]) == ["tool Bash", "system 0", "message 0.0"]
        assert marks(made.server.asked[1]) == ["tool Bash", "system 0", "message 2.0"]


async def test_more_blocks_than_a_look_back_keep_the_last_breakpoint_too() -> None:
    async with rig("anthropic") as made:
        made.server.next(
            Turn(calls=tuple(Call("Read", {"file_path": str(number)}) for number in range(30)))
        )
        talk = Conversation(made.model)
        for call in talk.takes((await made.ask(talk.says("all"))).step):
            talk.result(call, "x")
        await made.ask(talk.request())
        assert marks(made.server.asked[1]) == [
            "tool Bash",
            "system 0",
            "message 0.0",
            "message 2.29",
        ]


async def test_thinking_that_is_bound_to_another_conversation_is_left_out_and_later_thinking_is_kept() -> (
    None
):
    async with rig("anthropic") as made:
        talk = Conversation(made.model)
        made.server.next(Turn(thinking="old", text="a"))
        talk.takes((await made.ask(talk.says("one"))).step)
        made.server.next(Turn(status=400, message=UNBOUND), Turn(thinking="new", text="b"))
        talk.takes((await made.ask(talk.says("two"))).step)
        await made.ask(talk.says("three"))
        refused, again, later = (asked.raw for asked in made.server.asked[1:])
        assert b'"thinking":"old"' in refused
        assert b'"thinking":"old"' not in again
        assert b'"thinking":"old"' not in later
        assert b'"thinking":"new"' in later


async def test_thinking_that_is_refused_twice_is_a_refusal() -> None:
    async with rig("anthropic") as made:
        made.server.next(Turn(status=400, message=UNBOUND), Turn(status=400, message=UNBOUND))
        with pytest.raises(Refused):
            await made.ask(Conversation(made.model).says("one"))
        assert len(made.server.asked) == 2


async def test_images_are_sent_whole_and_a_lost_one_is_said_to_be_lost(tmp_path: Path) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"\x89PNG cat")
    for wire in ("anthropic", "openai"):
        async with rig(wire) as made:
            talk = Conversation(made.model)
            talk.steps += (
                UserStep(
                    (
                        Text("look"),
                        Image(picture, "image/png"),
                        Image(tmp_path / "dog.png", "image/png"),
                    ),
                    "ada",
                    "message",
                ),
                ModelStep((ToolCall("t.1", "Read", {}, "c1"),), made.model, "tools"),
                CallResult(ToolResult("t.1", "here", images=(Image(picture, "image/png"),))),
            )
            await made.ask(talk.request())
            raw = made.server.asked[-1].raw
            assert raw.count(base64.b64encode(b"\x89PNG cat")) == 2
            assert b"dog.png is no longer there" in raw


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        (
            "claude-sonnet-5-5",
            "high",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        (
            "claude-haiku-4-5-20251001",
            "medium",
            {"thinking": {"type": "enabled", "budget_tokens": 4096}},
        ),
        ("claude-haiku-4-5", "low", {}),
        ("claude-sonnet-5-5", None, {}),
    ],
)
async def test_effort_is_said_the_way_the_model_understands(
    model: str, effort: str | None, expected: dict[str, object]
) -> None:
    async with rig("anthropic") as made:
        request = replace(Conversation(model).says("hi"), effort=effort, max_output=8192)  # type: ignore[arg-type]
        await made.ask(request)
        body = made.server.asked[-1].body
        assert {key: body[key] for key in ("thinking", "output_config") if key in body} == expected
