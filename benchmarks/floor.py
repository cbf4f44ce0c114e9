"""The floor in a process of its own: the two SDK calls of one answer and nothing else, alone and
many at once. Started by ``benchmarks.overhead``."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from benchmarks.rig import FIRST_CHAT, percentile
from channels.telegram.client import Pace, Wire
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.provider import ModelRequest, Reply, Section, ToolSpec
from ohmo.providers.anthropic.client import AnthropicClient
from ohmo.providers.models import Endpoint


async def pair(wire: Wire, model: AnthropicClient, chat: int, text: str) -> None:
    """The model's stream read to its end, its answer sent to the chat."""
    tools = (
        ToolSpec(
            "Read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
        ),
    )
    steps = (UserStep((Text(text),), "1", "message"),)
    request = ModelRequest(
        "claude-sonnet-4-5", (Section("role", "You are ohmo."),), tools, steps, 8192, None, "turn"
    )
    said = ""
    async for event in model.stream(request):
        if isinstance(event, Reply):
            said = "".join(block.text for block in event.step.blocks if isinstance(block, Text))
    await wire.post({"chat_id": chat, "text": said})


async def main(model_url: str, telegram_url: str, token: str, count: int, chats: int) -> None:
    model = AnthropicClient(
        Endpoint("anthropic", ("claude-sonnet-4-5",), model_url, "sk-ant-loopback", "default")
    )
    wire = Wire(token, telegram_url, Pace())
    async with wire.open():
        for number in range(10):
            await pair(wire, model, FIRST_CHAT, f"warm {number}")
        times: list[float] = []
        spent = time.process_time()
        for number in range(count):
            began = time.perf_counter()
            await pair(wire, model, FIRST_CHAT, f"one {number}")
            times.append(time.perf_counter() - began)
        alone = (time.process_time() - spent) / count
        slots = asyncio.Semaphore(32)

        async def one(number: int) -> None:
            async with slots:
                await pair(wire, model, FIRST_CHAT + number % chats, f"many {number}")

        wall, spent = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(number) for number in range(count)))
        many = (time.process_time() - spent) / count
        rate = count / (time.perf_counter() - wall)
    await model.aclose()
    print(
        json.dumps(
            {
                "p50": percentile(times, 0.5),
                "p95": percentile(times, 0.95),
                "alone": alone,
                "many": many,
                "rate": rate,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
