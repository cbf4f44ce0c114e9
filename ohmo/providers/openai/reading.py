"""Answers of both of OpenAI's APIs, read event by event into what the house keeps: no word of the
SDK."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from ohmo.contracts.errors import CutOff
from ohmo.contracts.messages import ModelStep, Text, Thinking, ToolCall, Usage
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.providers.openai.responses_wire import KEPT, PHASE
from ohmo.providers.wire_parts import Measure, arguments

_Chunk = dict[str, Any]


class Reading(Protocol):
    """Feed every event; ``reply`` after the last. Raises CutOff when the answer never ended."""

    def feed(self, chunk: _Chunk) -> str:
        """The text to show, mostly empty."""
        ...

    def reply(self) -> Reply: ...


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])


class CompletionsReading:
    """A stream of chat completion chunks ("Chat completions streaming events")."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._measure = Measure(request)
        self._texts: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._model = request.model
        self._finish = ""
        self._usage: _Chunk = {}

    def feed(self, chunk: _Chunk) -> str:
        self._model = str(chunk.get("model") or self._model)
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        shown = ""
        for choice in cast("list[_Chunk]", chunk.get("choices") or ()):
            if choice.get("index", 0) != 0:
                continue
            self._finish = str(choice.get("finish_reason") or self._finish)
            delta = cast("_Chunk", choice.get("delta") or choice.get("message") or {})
            for call in cast("list[_Chunk]", delta.get("tool_calls") or ()):
                self._call(call)
            if delta.get("refusal"):
                self._refusal.append(str(delta["refusal"]))
            text = str(delta.get("content") or "")
            if text:
                self._measure.count(text)
                self._texts.append(text)
            shown += text
        return shown

    def _call(self, delta: _Chunk) -> None:
        function = cast("_Chunk", delta.get("function") or {})
        index = delta.get("index")
        identity = str(delta.get("id") or "")
        held = self._by_index.get(index) if isinstance(index, int) else None
        # Some servers give every call of an answer the index 0, each with an id and a name of its
        # own.
        other = held is not None and bool(identity and held.id) and identity != held.id
        if held is None or (other and function.get("name")):
            held = _Call(identity)
            self._calls.append(held)
            if isinstance(index, int):
                self._by_index[index] = held
        held.id = held.id or identity
        name = str(function.get("name") or "")
        if name and name != held.name:
            held.name += name
        given = function.get("arguments")
        if isinstance(given, str):
            self._measure.count(given)
            held.text.append(given)
        elif given is not None:
            held.text.append(json.dumps(given))

    def reply(self) -> Reply:
        if not self._finish:
            raise CutOff(f"{self._request.model}: the stream ended in the middle of the answer")
        text = "".join(self._texts) or "".join(self._refusal)
        blocks: list[Text | ToolCall] = [Text(text)] if text else []
        for number, call in enumerate(self._calls):
            given = arguments("".join(call.text))
            blocks.append(ToolCall(call.id or f"call_{number}", call.name, given, call.id))
        stop: Literal["end", "tools", "length", "refusal"] = "end"
        if self._calls:
            stop = "tools"
        elif self._refusal or self._finish == "content_filter":
            stop = "refusal"
        elif self._finish == "length":
            stop = "length"
        usage = _counted(self._request, self._usage, "prompt_tokens", "completion_tokens")
        return Reply(ModelStep(tuple(blocks), self._model, stop), usage)


class ResponsesReading:
    """The events of a response ("Streaming API responses"): an item counts as it stands in its
    ``output_item.done``; only there a reasoning item is whole."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._measure = Measure(request)
        self._items: dict[int, _Chunk] = {}
        self._response: _Chunk | None = None

    def feed(self, chunk: _Chunk) -> str:
        match chunk.get("type"):
            case "response.output_text.delta":
                text = str(chunk.get("delta") or "")
                self._measure.count(text)
                return text
            case (
                "response.function_call_arguments.delta"
                | "response.reasoning_summary_text.delta"
                | "response.reasoning_text.delta"
                | "response.refusal.delta"
            ):
                self._measure.count(str(chunk.get("delta") or ""))
            case "response.output_item.done":
                item = cast("_Chunk", chunk["item"])
                self._measure.count(_compact(item))
                self._items[int(chunk["output_index"])] = item
            case "response.completed" | "response.incomplete":
                self._response = chunk["response"]
            case _:
                pass
        return ""

    def reply(self) -> Reply:
        response = self._response
        if response is None:
            raise CutOff(f"{self._request.model}: the stream ended in the middle of the answer")
        items = [self._items[index] for index in sorted(self._items)]
        blocks: list[Text | Thinking | ToolCall] = []
        refused = False
        for item in items or cast("list[_Chunk]", response.get("output") or ()):
            match item.get("type"):
                case "message":
                    parts = cast("list[_Chunk]", item.get("content") or ())
                    refused = refused or any(part.get("type") == "refusal" for part in parts)
                    said = (str(part.get("text") or part.get("refusal") or "") for part in parts)
                    text = "".join(said)
                    if text and item.get("phase"):
                        blocks.append(Thinking(KEPT, _compact({PHASE: item["phase"]})))
                    blocks += [Text(text)] if text else []
                case "function_call":
                    identity = str(item.get("call_id") or "")
                    given = arguments(str(item.get("arguments") or ""))
                    name = str(item.get("name") or "")
                    made = identity or f"call_{len(blocks)}"
                    blocks.append(ToolCall(made, name, given, identity))
                case _:  # reasoning, and whatever comes later, goes back as it came
                    blocks.append(Thinking(KEPT, _compact(item)))
        why = cast("_Chunk", response.get("incomplete_details") or {}).get("reason")
        stop: Literal["end", "tools", "length", "refusal"] = "end"
        if any(isinstance(block, ToolCall) for block in blocks):
            stop = "tools"
        elif refused or why == "content_filter":
            stop = "refusal"
        elif why is not None:
            stop = "length"
        model = str(response.get("model") or self._request.model)
        counts = cast("_Chunk", response.get("usage") or {})
        usage = _counted(self._request, counts, "input_tokens", "output_tokens")
        return Reply(ModelStep(tuple(blocks), model, stop), usage)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _counted(request: ModelRequest, counts: _Chunk, sent: str, said: str) -> Usage:
    """``sent`` and ``said``: what the API calls its counts. What was thought is within ``said``;
    what came from the cache or went there is within ``sent``."""
    details = cast("_Chunk", counts.get(f"{sent}_details") or {})
    cached = int(details.get("cached_tokens") or 0)
    written = int(details.get("cache_write_tokens") or 0)
    return Usage(
        request.model,
        request.purpose,
        input=max(0, int(counts.get(sent) or 0) - cached - written),
        cached=cached,
        written=written,
        output=int(counts.get(said) or 0),
        micro_usd=None,
    )
