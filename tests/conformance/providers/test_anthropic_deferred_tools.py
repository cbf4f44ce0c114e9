"""Tools that Anthropic's endpoint keeps back itself: what is found is shown where it was found, and
not a byte before it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ohmo.contracts.messages import CallResult, CallStarted, ToolCall, ToolResult
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.providers.anthropic.client import AnthropicClient
from ohmo.providers.anthropic.wire import keeps_tools_back
from ohmo.providers.models import Endpoint
from tests.conformance.providers.rigs import TOOLS, Conversation, shared_prefix
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer, serving

MODEL = "claude-sonnet-5-5"
MARK = b',"cache_control":{"type":"ephemeral"}'
LATER = tuple(
    replace(TOOLS[0], name=name, deferred=True) for name in ("CronCreate", "CronList", "Brief")
)
EXTRA = "tools.3.defer_loading: Extra inputs are not permitted"


@asynccontextmanager
async def asking(*turns: Turn) -> AsyncIterator[tuple[ModelServer, AnthropicClient]]:
    async with serving(ModelServer(turns)) as server:
        client = AnthropicClient(
            Endpoint("anthropic", (MODEL,), server.url, "key"), references=True
        )
        try:
            yield server, client
        finally:
            await client.aclose()


async def ask(client: AnthropicClient, request: ModelRequest, found: tuple[str, ...] = ()) -> Reply:
    """``found``: what the session has found, in order."""
    shown = (*TOOLS, *(tool for name in found for tool in LATER if tool.name == name))
    events = [event async for event in client.stream(replace(request, tools=shown, deferred=LATER))]
    assert isinstance(events[-1], Reply)
    return events[-1]


def brings(talk: Conversation, call: ToolCall, *names: str) -> ModelRequest:
    talk.steps += (
        CallStarted(call.id, "d"),
        CallResult(ToolResult(call.id, "here they are", tools=names)),
    )
    return talk.request()


def deferred(asked: Asked) -> list[str]:
    return [tool["name"] for tool in asked.body["tools"] if tool.get("defer_loading")]


async def test_a_tool_that_is_found_changes_no_byte_before_it() -> None:
    search = Turn(
        thinking="hm",
        calls=(Call("ToolSearch", {"query": "cron"}), Call("Read", {"file_path": "a"})),
    )
    async with asking(search) as (server, client):
        talk = Conversation(MODEL)
        first, second = talk.takes((await ask(client, talk.says("remind me"))).step)
        talk.result(second, "content")
        await ask(client, brings(talk, first, "CronCreate", "CronList"), ("CronCreate", "CronList"))
        before, after = server.asked
        assert deferred(before) == deferred(after) == ["CronCreate", "CronList", "Brief"]
        assert [tool["name"] for tool in after.body["tools"] if "cache_control" in tool] == ["Bash"]
        old, new = before.raw.replace(MARK, b"")[: -len(b"]}")], after.raw.replace(MARK, b"")
        assert shared_prefix(old, new) == len(old)
        content = after.body["messages"][-1]["content"]
        assert [block["type"] for block in content] == ["tool_result", "tool_result", "text"]
        assert content[0]["content"] == [
            {"type": "tool_reference", "tool_name": name} for name in ("CronCreate", "CronList")
        ]
        assert content[2]["text"] == "here they are"


async def test_a_tool_whose_reference_was_left_out_with_its_exchange_is_sent_whole() -> None:
    async with asking(Turn(calls=(Call("ToolSearch", {"query": "cron"}),))) as (server, client):
        talk = Conversation(MODEL)
        (call,) = talk.takes((await ask(client, talk.says("remind me"))).step)
        talk.takes((await ask(client, brings(talk, call, "CronCreate"), ("CronCreate",))).step)
        kept = talk.says("and now?").steps[-1:]
        await ask(client, replace(talk.request(), steps=kept), ("CronCreate",))
        assert deferred(server.asked[-1]) == ["CronList", "Brief"]
        assert [tool["name"] for tool in server.asked[-1].body["tools"]][3:] == [
            "CronCreate",
            "CronList",
            "Brief",
        ]


async def test_an_endpoint_that_does_not_keep_tools_back_is_sent_those_that_were_found() -> None:
    search = Turn(calls=(Call("ToolSearch", {"query": "cron"}),))
    async with asking(Turn(status=400, message=EXTRA), search) as (server, client):
        talk = Conversation(MODEL)
        (call,) = talk.takes((await ask(client, talk.says("remind me"))).step)
        await ask(client, brings(talk, call, "CronCreate"), ("CronCreate",))
        _, again, later = server.asked
        assert deferred(again) == deferred(later) == []
        assert [tool["name"] for tool in again.body["tools"]] == ["Read", "Write", "Bash"]
        assert [
            tool["name"] for tool in later.body["tools"]
        ] == "Read Write Bash CronCreate".split()
        assert b"tool_reference" not in later.raw


@pytest.mark.parametrize(
    ("base", "models", "expected"),
    [
        (None, ("claude-haiku-5-5", "claude-sonnet-5-5"), True),
        ("https://api.anthropic.com", ("claude-haiku-4-5-20251001",), True),
        (None, ("claude-opus-4-1",), False),
        (None, ("claude-sonnet-5-5", "something-else"), False),
        ("https://gateway.example/v1", ("claude-sonnet-5-5",), False),
        ("http://127.0.0.1:1234", ("claude-sonnet-5-5",), False),
    ],
)
def test_only_anthropic_itself_is_asked_to_keep_tools_back(
    base: str | None, models: tuple[str, ...], expected: bool
) -> None:
    assert keeps_tools_back(Endpoint("anthropic", models, base)) is expected
