"""A provider: says again what was said, or asks for the weather when somebody names it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from ohmo.contracts.messages import CallResult, ModelStep, Text, ToolCall, Usage, UserStep
from ohmo.contracts.provider import ModelEvent, ModelRequest, Reply
from ohmo.providers.models import Endpoint, Manifest

MANIFEST = Manifest(
    name="parrot",
    title="Parrot",
    models=("parrot-1",),
    key_environment=None,
    client="ohmo_weather.provider:Parrot",
    heavy=False,
)


class Parrot:
    def __init__(self, endpoint: Endpoint) -> None:
        self._model = endpoint.models[-1]

    def learnt_window(self, model: str) -> int | None:
        del model
        return None

    async def aclose(self) -> None:
        return

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        block: Text | ToolCall = Text("I only repeat.")
        match request.steps[-1]:
            case UserStep(blocks) if found := re.search(r"weather in (\w+)", str(blocks)):
                block = ToolCall("", "Weather", {"city": found[1]}, "")
            case CallResult(result):
                block = Text(f"Parrot: {result.text}")
            case _:
                pass
        step = ModelStep((block,), self._model, "end")
        yield Reply(step, Usage(self._model, request.purpose, 1, 0, 0, 1, 0))
