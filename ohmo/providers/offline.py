"""Answers without any model: says so, says how to get one, and runs a named tool on request so that
permissions can be tried."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import cast

from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    Json,
    ModelStep,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    UserStep,
)
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest, Reply, ToolSpec
from ohmo.providers.models import Endpoint, Manifest

MANIFEST = Manifest(
    name="offline",
    title="Offline",
    models=("offline",),
    key_environment=None,
    client="ohmo.providers.offline:OfflineClient",
    heavy=False,
)


HOW = (
    "No model is configured, so I cannot think about this. To give me one, run `ohmo init` in a"
    " terminal, or write a line ANTHROPIC_API_KEY=… or OPENAI_API_KEY=… into the file .env of my"
    " home: I take it over within seconds. LM Studio, Ollama, vLLM or llama.cpp on this machine are"
    " found when I start.\n\nUntil then you can try my tools by hand: `Bash: ls -la`, or `run Write"
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
            case UserStep(source="notice" | "context" | "memory" | "hook"):
                pass
            case UserStep():
                return _to(
                    "\n".join(block.text for block in step.blocks if isinstance(block, Text)),
                    request,
                )
            case ModelStep():
                calls = [block for block in step.blocks if isinstance(block, ToolCall)]
                # With none it was an answer, which a hook sent back: it is all there is to say.
                said = (block.text for block in step.blocks if isinstance(block, Text))
                parts = [] if calls else list(said)
                for call in calls:
                    result = results.get(call.id)
                    if result is None:
                        continue
                    verdict = (
                        f"{call.name} could not do it" if result.error else f"{call.name} says"
                    )
                    fence = "```" if "```" not in result.text else "~~~~"
                    shown = f"{verdict}:\n\n{fence}\n{result.text}\n{fence}"
                    parts.append(shown if result.text.strip() else f"{verdict} nothing.")
                return Text("\n\n".join(parts) or HOW)
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


_RUN = re.compile(r"\s*(?:please\s+)?run\s+(?P<name>\w+)\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
# Said to a model behind the words of a job.
_JOB = re.compile(
    r"\n\n\((?:This is the scheduled run of the job|This came by the webhook) .*\)\s*\Z", re.DOTALL
)
_ARGUMENTS = re.compile(r"\s*(?:\{|\w+=|\Z)")
_COLON = re.compile(r"\s*(?P<name>\w+):\s*(?P<rest>.*)", re.DOTALL)


def asked_for(text: str, tools: Sequence[ToolSpec]) -> tuple[str, dict[str, Json]] | str | None:
    """Name and arguments; a line that says what is wrong; or None when no tool was asked for."""
    text = _JOB.sub("", text)
    match = _RUN.fullmatch(text) or _COLON.fullmatch(text)
    if match is None:
        return None
    tool = next((tool for tool in tools if tool.name.lower() == match["name"].lower()), None)
    if tool is None:
        if _RUN.fullmatch(text) is None or not (
            match["name"][0].isupper() or _ARGUMENTS.match(match["rest"])
        ):
            return None  # "Note: buy milk" is no tool call, nor is "run the tests"
        return (
            f"There is no tool {match['name']}. There are:"
            f" {', '.join(tool.name for tool in tools) or 'none'}."
        )
    rest = match["rest"].strip()
    if rest.startswith("{"):
        try:
            value: object = json.loads(rest)
        except ValueError as error:
            return f"{tool.name}: the arguments are not valid JSON ({error})."
        if not isinstance(value, dict):
            return f"{tool.name}: the arguments must be a JSON object."
        return tool.name, cast("dict[str, Json]", value)
    properties = tool.schema.get("properties")
    schema: Mapping[str, object] = properties if isinstance(properties, dict) else {}
    pairs = _pairs(rest, schema)
    if isinstance(pairs, str):
        return pairs
    if pairs is not None:
        return tool.name, pairs
    required = tool.schema.get("required")
    names = required if isinstance(required, list) and required else [*schema]
    if not rest or not names:
        return tool.name, {}
    first = str(names[0])
    return tool.name, {first: _typed(rest, schema.get(first))}


def _pairs(rest: str, properties: Mapping[str, object]) -> dict[str, Json] | str | None:
    """``a=1 b="two words"``. None when the text is no list of pairs: then it is the tool's first
    argument as a whole."""
    start = re.match(r"(\w+)=", rest)
    if start is None or (properties and start[1] not in properties):
        return None
    try:
        words = shlex.split(rest)
    except ValueError as error:
        return f"{error}: close the quotes, or write the arguments as JSON."
    found: dict[str, Json] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            return f"{word!r} is no key=value; put values with spaces in quotes."
        found[key] = _typed(value, properties.get(key))
    return found


def _typed(value: str, schema: object) -> Json:
    """Numbers, booleans and lists where the schema asks for them; what does not fit stays text and
    the tool says so."""
    kind = cast("Mapping[str, object]", schema).get("type") if isinstance(schema, dict) else None
    if kind in ("integer", "number", "boolean", "array", "object"):
        try:
            return cast("Json", json.loads(value))
        except ValueError:
            return value
    return value
