"""The events of a Messages stream to one step. Pure. Source: platform.claude.com, "Streaming
messages", "Stop reasons"."""

from __future__ import annotations

import json
from typing import Any, Literal, cast

from ohmo.contracts.errors import CutOff
from ohmo.contracts.messages import ModelStep, Text, Thinking, ToolCall, Usage
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.providers.streams import Measure, arguments

_Event = dict[str, Any]
_STOPS: dict[str, Literal["end", "tools", "length", "refusal"]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class Reading:
    """Feed every event; ``reply`` after the last. Raises CutOff when the stream ended before
    message_stop."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._measure = Measure(request)
        self._blocks: dict[int, _Event] = {}
        self._texts: dict[int, list[str]] = {}
        self._usage: dict[str, int] = {}
        self._model = request.model
        self._stop = ""
        self._ended = False

    def feed(self, event: _Event) -> str:
        """The text to show, mostly empty."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(int(event["index"]), event["delta"])
            case "content_block_start":
                index = int(event["index"])
                self._blocks[index] = dict(event["content_block"])
                self._texts[index] = []
                if (
                    self._blocks[index].get("type") == "text"
                ):  # the documented start is empty; some gateways put the first words here
                    return self._collect(index, str(self._blocks[index].get("text") or ""))
            case "message_start":
                message = cast("_Event", event["message"])
                self._model = str(message.get("model") or self._model)
                self._count(message.get("usage"))
            case "message_delta":
                self._stop = str(event["delta"].get("stop_reason") or self._stop)
                self._count(event.get("usage"))
            case "message_stop":
                self._ended = True
            case _:
                pass
        return ""

    def reply(self) -> Reply:
        if not self._ended:
            raise CutOff(f"{self._request.model}: the stream ended in the middle of the answer")
        blocks = tuple(
            block for index in sorted(self._blocks) if (block := self._block(index)) is not None
        )
        calls = any(isinstance(block, ToolCall) for block in blocks)
        stop = "tools" if calls else _STOPS.get(self._stop, "end")
        return Reply(
            ModelStep(blocks, self._model, "end" if stop == "tools" and not calls else stop),
            self._spent(),
        )

    def _delta(self, index: int, delta: _Event) -> str:
        match delta.get("type"):
            case "text_delta":
                return self._collect(index, str(delta.get("text") or ""))
            case "input_json_delta":
                self._collect(index, str(delta.get("partial_json") or ""))
            case "thinking_delta":
                self._collect(index, str(delta.get("thinking") or ""))
            case "signature_delta":
                self._blocks[index]["signature"] = str(
                    self._blocks[index].get("signature") or ""
                ) + str(delta.get("signature") or "")
            case _:
                pass
        return ""

    def _collect(self, index: int, text: str) -> str:
        if text:
            self._measure.count(text)
            self._texts.setdefault(index, []).append(text)
        return text

    def _block(self, index: int) -> Text | Thinking | ToolCall | None:
        start, text = self._blocks[index], "".join(self._texts.get(index, ()))
        match start.get("type"):
            case "text":
                return Text(text) if text else None
            case "tool_use":
                given = text or json.dumps(start.get("input") or {})
                identity = str(start.get("id") or f"call_{index}")
                return ToolCall(identity, str(start.get("name") or ""), arguments(given), identity)
            case "thinking":
                whole = {
                    "type": "thinking",
                    "thinking": str(start.get("thinking") or "") + text,
                    "signature": start.get("signature") or "",
                }
                return Thinking(
                    "anthropic", json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
                )
            case _:  # redacted_thinking and whatever comes later goes back as it came
                return Thinking(
                    "anthropic", json.dumps(start, ensure_ascii=False, separators=(",", ":"))
                )

    def _count(self, usage: object) -> None:
        """Counts are cumulative: the newest wins."""
        if isinstance(usage, dict):
            self._usage |= {
                key: value for key, value in cast("_Event", usage).items() if isinstance(value, int)
            }

    def _spent(self) -> Usage:
        read, written = (
            self._usage.get("cache_read_input_tokens", 0),
            self._usage.get("cache_creation_input_tokens", 0),
        )
        sent, said = self._usage.get("input_tokens", 0), self._usage.get("output_tokens", 0)
        return Usage(self._request.model, self._request.purpose, sent, read, written, said, None)
