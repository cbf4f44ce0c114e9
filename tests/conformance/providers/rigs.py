"""The providers under test, each with the scripted server it speaks to, and a conversation to
grow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.provider import ModelRequest, Reply, Section, ToolSpec
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests
from ohmo.providers.lazy_provider import LazyProvider
from ohmo.providers.models import Endpoint
from tests.platforms.model.server import ModelServer, serving

SYSTEM = (
    Section("role", "You are ohmo. " + "Rules of the house. " * 300, breakpoint=True),
    Section("place", "You are in /home/ada."),
)
TOOLS = tuple(
    ToolSpec(
        name,
        f"{name} does what its name says. " * 10,
        {
            "type": "object",
            "properties": {"file_path": {"type": "string"}},
            "required": ["file_path"],
        },
    )
    for name in ("Read", "Write", "Bash")
)


@dataclass(frozen=True)
class Rig:
    provider: LazyProvider
    server: ModelServer
    model: str
    wire: str

    async def rendered(self) -> int:
        """Steps that were turned into bytes since the start."""
        client = await self.provider.client()
        return client.rendering.conversations.rendered  # type: ignore[attr-defined]

    async def ask(self, request: ModelRequest) -> Reply:
        events = [event async for event in self.provider.stream(request)]
        assert isinstance(events[-1], Reply)
        return events[-1]


def endpoint_for(wire: str, url: str, *, silence: float = 5.0) -> Endpoint:
    """``wire``: anthropic, openai (chat completions), responses, offline."""
    if wire == "responses":
        return Endpoint("openai", ("gpt-6-sol",), url, "key", silence=silence, wire="responses")
    model = {"anthropic": "claude-sonnet-5-5", "openai": "local-1", "offline": "offline"}[wire]
    base = None if wire == "offline" else url
    return Endpoint(wire, (model,), base, "key", silence=silence)


@asynccontextmanager
async def rig(wire: str, *, silence: float = 5.0, models: Sequence[str] = ()) -> AsyncIterator[Rig]:
    async with serving(ModelServer(models=models)) as server:
        endpoint = endpoint_for(wire, server.url, silence=silence)
        provider = LazyProvider(manifests(scan)[endpoint.provider], endpoint, load)
        model = endpoint.model
        try:
            yield Rig(provider, server, model, wire)
        finally:
            await provider.aclose()


@dataclass
class Conversation:
    """Grows like the engine's: the same step objects, call ids of the house."""

    model: str
    steps: tuple[Step, ...] = ()
    tools: tuple[ToolSpec, ...] = TOOLS
    count: int = field(default=0)

    def request(self) -> ModelRequest:
        return ModelRequest(self.model, SYSTEM, self.tools, self.steps, 4096, None, "turn")

    def says(self, text: str) -> ModelRequest:
        self.steps += (UserStep((Text(text),), "ada", "message"),)
        return self.request()

    def takes(self, step: ModelStep) -> tuple[ToolCall, ...]:
        """Record a model step under the house's call ids; returns its calls."""
        blocks: list[object] = []
        for block in step.blocks:
            if isinstance(block, ToolCall):
                self.count += 1
                blocks.append(replace(block, id=f"0mturn.{self.count}"))
            else:
                blocks.append(block)
        mine = replace(step, blocks=tuple(blocks))  # type: ignore[arg-type]
        self.steps += (mine,)
        return tuple(block for block in mine.blocks if isinstance(block, ToolCall))

    def result(self, call: ToolCall, text: str, *, error: bool = False) -> ModelRequest:
        self.steps += (CallStarted(call.id, "d"), CallResult(ToolResult(call.id, text, error)))
        return self.request()


def shared_prefix(one: bytes, two: bytes) -> int:
    length = min(len(one), len(two))
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == two[:middle] else (low, middle - 1)
    return low
