"""Answers without any model, honestly."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ohmo.contracts.messages import CallResult, CallStarted, Compaction, ModelStep, Text, ToolCall, ToolResult, Usage, UserStep
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest, Reply
from ohmo.providers.cover import Endpoint
from ohmo.providers.offline.syntax import asked_for

HOW = (
    "No model is configured, so I cannot think about this. To give me one, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start LM Studio, "
    "Ollama or vLLM on this machine, or name an endpoint under `profiles` in config.yaml; then restart me.\n\n"
    "Until then you can try my tools by hand: `Bash: ls -la`, or `run Write file_path=notes.txt content=hello`, then "
    "`run Read file_path=notes.txt`. I work in your workspace folder and ask for permission as I would with a model."
)


class OfflineClient:
    """See ``Client``. Costs nothing, knows nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def learnt_window(self, model: str) -> int | None:  # noqa: ARG002
        return None

    async def aclose(self) -> None:
        return

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        block = _answer(request)
        if isinstance(block, Text):
            yield Delta(block.text)
        stop = "tools" if isinstance(block, ToolCall) else "end"
        yield Reply(ModelStep((block,), "offline", stop), Usage("offline", request.purpose, 0, 0, 0, 0, 0))


def _answer(request: ModelRequest) -> Text | ToolCall:
    results: list[ToolResult] = []
    for step in reversed(request.steps):
        match step:
            case CallResult():
                results.append(step.result)
            case UserStep():
                said = "\n".join(block.text for block in step.blocks if isinstance(block, Text))
                return _to(said, request) if not results else _report(results, request)
            case ModelStep():
                return _report(results, request) if results else Text(HOW)
            case CallStarted() | Compaction():
                pass
    return Text(HOW)


def _to(said: str, request: ModelRequest) -> Text | ToolCall:
    asked = asked_for(said, request.every)
    if asked is None:
        return Text(HOW)
    if isinstance(asked, str):
        return Text(asked)
    name, arguments = asked
    calls = sum(isinstance(block, ToolCall) for step in request.steps if isinstance(step, ModelStep) for block in step.blocks)
    identity = f"offline_{calls + 1}"
    return ToolCall(identity, name, arguments, identity)


def _report(results: list[ToolResult], request: ModelRequest) -> Text:
    names = {
        block.id: block.name
        for step in request.steps
        if isinstance(step, ModelStep)
        for block in step.blocks
        if isinstance(block, ToolCall)
    }
    parts: list[str] = []
    for result in reversed(results):
        name = names.get(result.call, "The tool")
        verdict = f"{name} could not do it" if result.error else f"{name} says"
        fence = "```" if "```" not in result.text else "~~~~"
        parts.append(f"{verdict}:\n\n{fence}\n{result.text}\n{fence}" if result.text.strip() else f"{verdict} nothing.")
    return Text("\n\n".join(parts))
