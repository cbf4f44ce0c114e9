"""Answers without any model, honestly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    ModelStep,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserStep,
)
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest, Reply
from ohmo.providers.cover import Endpoint
from ohmo.providers.offline.syntax import asked_for

HOW = (
    "No model is configured, so I cannot think about this. To give me one, run `ohmo init` in a"
    " terminal, or write a line ANTHROPIC_API_KEY=… or OPENAI_API_KEY=… into the file .env of my"
    " home: I take it over within seconds. LM Studio, Ollama or vLLM on this machine are found when"
    " I start.\n\nUntil then you can try my tools by hand: `Bash: ls -la`, or `run Write"
    " file_path=notes.txt content=hello`, then `run Read file_path=notes.txt`. I work in your"
    " workspace folder and ask for permission as I would with a model."
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
        yield Reply(
            ModelStep((block,), "offline", stop), Usage("offline", request.purpose, 0, 0, 0, 0, 0)
        )


def _answer(request: ModelRequest) -> Text | ToolCall:
    """To what a person said last; else the results of the calls that were made for it, and of no
    others: a call of an earlier turn may get its result late, when it was stopped."""
    results: dict[str, ToolResult] = {}
    for step in reversed(request.steps):
        match step:
            case CallResult():
                results[step.result.call] = step.result
            case UserStep(source="notice" | "context"):
                pass
            case UserStep():
                return _to(
                    "\n".join(block.text for block in step.blocks if isinstance(block, Text)),
                    request,
                )
            case ModelStep():
                calls = [block for block in step.blocks if isinstance(block, ToolCall)]
                found = [(call.name, results[call.id]) for call in calls if call.id in results]
                return _report(found) if found else Text(HOW)
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
    calls = sum(
        isinstance(block, ToolCall)
        for step in request.steps
        if isinstance(step, ModelStep)
        for block in step.blocks
    )
    identity = f"offline_{calls + 1}"
    return ToolCall(identity, name, arguments, identity)


def _report(results: Sequence[tuple[str, ToolResult]]) -> Text:
    parts: list[str] = []
    for name, result in results:
        verdict = f"{name} could not do it" if result.error else f"{name} says"
        fence = "```" if "```" not in result.text else "~~~~"
        parts.append(
            f"{verdict}:\n\n{fence}\n{result.text}\n{fence}"
            if result.text.strip()
            else f"{verdict} nothing."
        )
    return Text("\n\n".join(parts))
