"""Bytes no documentation allows: whatever an endpoint sends ends in an answer or in an error of the
model's own classes, in bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ohmo.contracts.errors import BadKey, ProviderError
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.providers.anthropic.client import AnthropicClient
from ohmo.providers.models import Endpoint
from ohmo.providers.openai.client import OpenAIClient

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
REQUEST = ModelRequest("m", (), (), (UserStep((Text("hi"),), "ada", "message"),), 10, None, "turn")
START = {"type": "message_start", "message": {"model": "m", "usage": {}}}
ODD = [
    "[1, 2]",
    '"text"',
    "null",
    "17",
    "{broken",
    "{}",
    "[" * 100_000,
    '{"type": "content_block_delta"}',
    '{"type": "content_block_delta", "index": "x", "delta": {"type": "text_delta", "text": "a"}}',
    '{"type": "content_block_delta", "index": 0, "delta": null}',
    (
        '{"type": "content_block_delta", "index": 5, "delta": {"type": "signature_delta",'
        ' "signature": "x"}}'
    ),
    '{"type": "content_block_start", "index": 0}',
    '{"type": "content_block_start", "index": 0, "content_block": "x"}',
    '{"type": "message_start"}',
    '{"type": "message_start", "message": []}',
    '{"type": "message_delta", "delta": "x"}',
    '{"type": "message_delta", "delta": {}, "usage": []}',
    '{"type": "response.output_item.done"}',
    '{"type": "response.output_item.done", "output_index": 0, "item": "x"}',
    '{"type": "response.output_item.done", "output_index": {}, "item": {}}',
    '{"type": "response.completed", "response": "x"}',
    '{"type": "response.completed", "response": {"output": [null], "usage": "x"}}',
    '{"type": "response.completed", "response": {"output": [{"type": "message", "content": 7}]}}',
    '{"type": "response.incomplete", "response": {"incomplete_details": "x"}}',
    '{"type": "response.failed", "response": []}',
    '{"type": "error"}',
    '{"choices": "x"}',
    '{"choices": [null]}',
    '{"choices": [{"delta": "x"}]}',
    '{"choices": [{"delta": {"tool_calls": "x"}}]}',
    '{"choices": [{"delta": {"tool_calls": [null]}}]}',
    '{"choices": [{"delta": {"tool_calls": [{"function": "x", "index": {}}]}}]}',
    '{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": "x"}',
    (
        '{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage":'
        ' {"prompt_tokens": "x"}}'
    ),
    '{"error": "x"}',
    '{"error": {"message": {"a": 1}, "code": [1]}}',
    '{"type": "error", "error": null}',
]


def kind_of(line: str) -> str:
    return line.split('"')[3] if line.startswith('{"type"') else "message_start"


@asynccontextmanager
async def endpoint(write: Callable[[asyncio.StreamWriter], object]) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            length = int(
                (await reader.readuntil(b"\r\n\r\n"))
                .lower()
                .split(b"content-length:")[1]
                .split(b"\r\n")[0]
            )
            await reader.readexactly(length)
            writer.write(HEAD)
            found = write(writer)
            if asyncio.iscoroutine(found):
                await found
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ask(wire: str, url: str, key: str = "key") -> Reply | ProviderError:
    endpoint = Endpoint(wire, ("m",), url, key, silence=20.0)
    if wire == "responses":
        endpoint = replace(endpoint, provider="openai", wire="responses")
    made = (AnthropicClient if wire == "anthropic" else OpenAIClient)(endpoint)
    try:
        async with asyncio.timeout(60):
            *_, last = [event async for event in made.stream(REQUEST)]
    except ProviderError as error:
        return error
    finally:
        await made.aclose()
    assert isinstance(last, Reply)
    return last


@pytest.mark.parametrize("wire", ["anthropic", "openai", "responses"])
async def test_an_event_that_is_none_is_an_answer_or_an_error_of_the_models_classes(
    wire: str,
) -> None:
    for odd in ODD:
        lines = [json.dumps(START), odd] if wire == "anthropic" else [odd]
        text = "".join(f"event: {kind_of(line)}\ndata: {line}\n\n" for line in lines)
        async with endpoint(lambda writer, text=text: writer.write(text.encode())) as url:
            assert isinstance(await ask(wire, url), Reply | ProviderError), odd


@pytest.mark.parametrize("wire", ["anthropic", "openai", "responses"])
async def test_an_answer_without_end_is_cut_off(wire: str) -> None:
    sent = 0
    if wire == "anthropic":
        start = {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        }
        more = {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "x" * 50_000},
        }
        first = (
            f"event: message_start\ndata: {json.dumps(START)}\n\nevent: content_block_start\ndata:"
            f" {json.dumps(start)}\n\n"
        )
        again = f"event: content_block_delta\ndata: {json.dumps(more)}\n\n"
    elif wire == "responses":
        first = ""
        delta = {"type": "response.output_text.delta", "delta": "x" * 50_000}
        again = f"data: {json.dumps(delta)}\n\n"
    else:
        first = ""
        again = (
            "data: "
            + json.dumps(
                {
                    "choices": [
                        {
                            "delta": {
                                "tool_calls": [
                                    {"index": 0, "function": {"arguments": "x" * 50_000}}
                                ]
                            }
                        }
                    ]
                }
            )
            + "\n\n"
        )

    async def talk(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(first.encode())
        while sent < 400_000_000:
            writer.write(again.encode())
            await writer.drain()
            sent += len(again)

    async with endpoint(talk) as url:
        assert isinstance(await ask(wire, url), ProviderError)
    assert sent < 100_000_000


async def test_a_key_that_no_header_can_carry_is_called_that_and_not_a_broken_answer() -> None:
    async with endpoint(lambda _: None) as url:
        refused = await ask("openai", url, "sk-clé")
    assert isinstance(refused, BadKey)
    assert "é" not in str(refused)
