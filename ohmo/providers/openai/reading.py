"""The chunks of a chat completions stream to one step. Pure.

Source: developers.openai.com, "Chat completions streaming events". Quirks of local servers that are
read as they come: a call without id, without index, whole in one delta, its arguments an object,
its name in pieces, no usage, finish_reason "stop" beside calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ohmo.contracts.errors import CutOff
from ohmo.contracts.messages import ModelStep, Text, ToolCall, Usage
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.providers.streams import Measure, arguments

_Chunk = dict[str, Any]


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])


class Reading:
    """Feed every chunk; ``reply`` after the last. Raises CutOff when no choice was ever
    finished."""

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
        """The text to show, mostly empty."""
        self._model = str(chunk.get("model") or self._model)
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        shown = ""
        for choice in cast("list[_Chunk]", chunk.get("choices") or ()):
            if choice.get("index", 0) != 0:
                continue
            self._finish = str(choice.get("finish_reason") or self._finish)
            delta = cast("_Chunk", choice.get("delta") or choice.get("message") or {})
            shown += self._delta(delta)
        return shown

    def _delta(self, delta: _Chunk) -> str:
        for call in cast("list[_Chunk]", delta.get("tool_calls") or ()):
            self._call(call)
        if delta.get("refusal"):
            self._refusal.append(str(delta["refusal"]))
        text = str(delta.get("content") or "")
        if text:
            self._measure.count(text)
            self._texts.append(text)
        return text

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
        blocks: list[Text | ToolCall] = (
            [Text(text)] if (text := "".join(self._texts) or "".join(self._refusal)) else []
        )
        for number, call in enumerate(self._calls):
            blocks.append(
                ToolCall(
                    call.id or f"call_{number}", call.name, arguments("".join(call.text)), call.id
                )
            )
        return Reply(ModelStep(tuple(blocks), self._model, self._stop()), self._spent())

    def _stop(self) -> Literal["end", "tools", "length", "refusal"]:
        if self._calls:
            return "tools"
        if self._refusal or self._finish == "content_filter":
            return "refusal"
        return "length" if self._finish == "length" else "end"

    def _spent(self) -> Usage:
        details = cast("_Chunk", self._usage.get("prompt_tokens_details") or {})
        cached, written = (
            int(details.get("cached_tokens") or 0),
            int(details.get("cache_write_tokens") or 0),
        )
        sent = max(0, int(self._usage.get("prompt_tokens") or 0) - cached - written)
        said = int(self._usage.get("completion_tokens") or 0)
        return Usage(self._request.model, self._request.purpose, sent, cached, written, said, None)
