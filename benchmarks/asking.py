"""The model call alone, with a history of so many turns, through the very client the daemon uses.
Started by ``benchmarks.history``."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from ohmo.contracts.messages import ModelStep, Step, Text, UserStep
from ohmo.contracts.provider import ModelRequest, Reply, Section
from ohmo.providers.anthropic.client import AnthropicClient
from ohmo.providers.models import Endpoint


async def asked(model: AnthropicClient, steps: list[Step], text: str) -> None:
    steps.append(UserStep((Text(text),), "1", "message"))
    request = ModelRequest(
        "claude-sonnet-4-5",
        (Section("role", "You are ohmo."),),
        (),
        tuple(steps),
        8192,
        None,
        "turn",
    )
    async for event in model.stream(request):
        if isinstance(event, Reply):
            steps.append(event.step)


async def main(url: str, said: str, marks: list[int], width: int) -> None:
    """Prints the CPU in milliseconds of one call around each mark."""
    model = AnthropicClient(
        Endpoint("anthropic", ("claude-sonnet-4-5",), url, "sk-ant-loopback", "default")
    )
    found: list[float] = []
    for mark in marks:
        steps: list[Step] = []
        for number in range(mark - width // 2):
            text = f"{number}. {said}".strip()
            steps += [
                UserStep((Text(text),), "1", "message"),
                ModelStep((Text(f"echo: {text}"),), "claude-sonnet-4-5", "end"),
            ]
        await asked(model, steps, "warm")
        spent = time.process_time()
        for number in range(width):
            await asked(model, steps, f"{number}. {said}".strip())
        found.append(1e3 * (time.process_time() - spent) / width)
    await model.aclose()
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])))
