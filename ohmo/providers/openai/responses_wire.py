"""Steps to the bytes of a Responses request, and what one endpoint accepts beside them. Pure.

Rules kept here (developers.openai.com, "Reasoning models", "Function calling", "Conversation
state"): nothing is stored there, so every item is sent again; a reasoning item goes back unchanged,
encrypted, before the very item it led to, and only where that item follows; every call is answered
by an output with its ``call_id``; items carry no ids of their own, because those that are named are
looked for in the store; messages of the model keep their phase.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from channels.record import record
from ohmo.contracts.errors import CutOff
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    Image,
    Json,
    ModelStep,
    Step,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserStep,
)
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.providers.models import Endpoint, known
from ohmo.providers.openai.wire import (
    FIRST_TO_REASON,
    Completions,
    closing,
    counted,
    speaks_responses,
    version,
    wire_id,
)
from ohmo.providers.request_bytes import (
    Conversation,
    Head,
    ReadImage,
    Rendering,
    Unseen,
    picture_line,
    true_type,
)
from ohmo.providers.wire_parts import (
    GO_ON,
    MISSING_RESULT,
    NOT_SEALED,
    NOTHING_SAID,
    UNBOUND,
    Measure,
    arguments,
    dump,
    exchange,
    summary_words,
)

ROOM = 25_000  # tokens that thinking may take ("Reasoning models", Allocating space for reasoning)
KEPT = "openai-responses"
"""Provider of what goes back over this wire as it came."""
PHASE = "phase"
"""The one key of a kept piece that is no item: a word about the message behind it."""


class ResponsesWire:
    """See ``ohmo.providers.request_bytes.Wire``. A fragment is items, one of a user step content
    parts, without their brackets."""

    def fragment(
        self, step: Step, conversation: Conversation, read_image: ReadImage, *, thinking: bool
    ) -> bytes:
        match step:
            case ModelStep():
                return b",".join(_items(step, conversation, thinking=thinking))
            case UserStep():
                said = (
                    block
                    for block in step.blocks
                    if not isinstance(block, Text) or block.text.strip()
                )
                return b",".join(_part(block, read_image) for block in said)
            case CallResult(result):
                text = "Error: " + result.text if result.error else result.text
                output = dump(text or "(no output)")
                if result.images:
                    blocks = ([Text(text)] if text else []) + list(result.images)
                    parts = b",".join(_part(block, read_image) for block in blocks)
                    output = b"[" + parts + b"]"
                call = conversation.ids.get(result.call, result.call)
                return (
                    b'{"type":"function_call_output","call_id":%b,"output":' % dump(call)
                    + output
                    + b"}"
                )
            case Compaction():
                return _part(Text(summary_words(step)), read_image)
            case CallStarted():
                return b""

    def assemble(
        self, steps: Sequence[Step], fragments: Sequence[bytes], conversation: Conversation
    ) -> bytes:
        kept = {id(step): fragment for step, fragment in zip(steps, fragments, strict=True)}
        held = exchange(steps)
        items = [] if held.model is None else [kept[id(held.model)]]
        for call, result in held.results:
            if result is not None:
                items.append(kept[id(result)])
                continue
            missing: dict[str, Json] = {"type": "function_call_output"}
            missing["call_id"] = wire_id(call, conversation)
            items.append(dump(missing | {"output": MISSING_RESULT}))
        shown = [kept[id(said)] for said in held.said if kept[id(said)]]
        if not shown and not held.results:
            text = GO_ON if held.model is not None else NOTHING_SAID
            shown = [dump({"type": "input_text", "text": text})]
        if shown:
            items.append(b'{"role":"user","content":[' + b",".join(shown) + b"]}")
        return b",".join(item for item in items if item)


def _items(step: ModelStep, conversation: Conversation, *, thinking: bool) -> list[bytes]:
    items: list[bytes] = []
    led: list[bytes] = []  # what was thought before the next item; refused without it
    phase: dict[str, Json] = {}
    for block in step.blocks:
        match block:
            case Thinking(provider, opaque):
                if provider != KEPT or not thinking:
                    continue
                if opaque.startswith(f'{{"{PHASE}"'):
                    phase = json.loads(opaque)
                else:
                    led.append(opaque.encode("utf-8", "replace"))
                continue
            case Text(text):
                if not text.strip():
                    continue
                message: dict[str, Json] = {"role": "assistant", "content": text}
                led.append(dump(message | phase))
                phase = {}
            case ToolCall():
                call: dict[str, Json] = {"type": "function_call"}
                call["call_id"] = wire_id(block, conversation)
                call["name"] = block.name
                call["arguments"] = dump(block.arguments).decode()
                led.append(dump(call))
        items += led
        led = []
    return items


def _part(block: Text | Image, read_image: ReadImage) -> bytes:
    if isinstance(block, Text):
        return dump({"type": "input_text", "text": block.text})
    data = read_image(block)
    if isinstance(data, Unseen):
        return dump({"type": "input_text", "text": picture_line(block, data)})
    url = f"data:{true_type(data, block.media_type)};base64,{data}"
    return dump({"type": "input_image", "image_url": url, "detail": "auto"})


@record
class Accepted:
    """What one model of an endpoint takes beside the items."""

    encrypted: bool  # include reasoning.encrypted_content
    effort: bool
    cache_key: bool = True


class Responses:
    """Responses at one endpoint, and what it has said of itself."""

    def __init__(self) -> None:
        self._accepted: dict[str, Accepted] = {}
        self.rendering = Rendering(
            "r",
            ResponsesWire(),
            lambda request: head(request, self._of(request.model)),
            lambda head, closed, tail: [head, closed, b"," if closed else b"", tail],
            closing=self._closing,
        )

    def learns(self, request: ModelRequest, message: str) -> bool:
        """Whether the next try is better for what this refusal says."""
        now = self._of(request.model)
        better = now
        text = message.lower()
        if "prompt_cache_key" in text:
            better = replace(now, cache_key=False)
        elif "'include'" in text or NOT_SEALED in text:
            better = replace(now, encrypted=False)
        elif "reasoning.effort" in text or "'effort'" in text:
            better = replace(now, effort=False)
        elif UNBOUND.search(text):
            return self.rendering.conversations.without_thinking(request.steps)
        self._accepted[request.model] = better
        self.rendering.heads.clear()
        return better != now

    def _of(self, model: str) -> Accepted:
        """A model of OpenAI's that does not reason takes neither; of others it is not known."""
        reasons = version(model) >= FIRST_TO_REASON or version(model) == (0, 0)
        return self._accepted.get(model) or Accepted(reasons, reasons)

    def _closing(self, request: ModelRequest) -> bytes:
        return closing(request, keyed=self._of(request.model).cache_key)


def renderings(endpoint: Endpoint) -> tuple[Rendering, ...]:
    """For a replay: what the endpoint teaches meanwhile is not known to it; what it was asked over
    may have been the other way."""
    ways = (Responses().rendering, Completions(endpoint.base_url).rendering)
    return ways if speaks_responses(endpoint) else ways[::-1]


def head(request: ModelRequest, accepted: Accepted) -> Head:
    """Everything before the conversation; the same bytes as long as model, system, tools, limit,
    effort and what is accepted stay the same."""
    keys: dict[str, Json] = {"model": request.model, "stream": True, "store": False}
    room = ROOM if accepted.effort else 0
    keys["max_output_tokens"] = min(request.max_output + room, known(request.model).max_output)
    if accepted.encrypted:
        keys["include"] = ["reasoning.encrypted_content"]
    if accepted.effort and request.effort is not None:
        keys["reasoning"] = {"effort": request.effort}
    parameters = dict(keys)
    if request.tools:
        keys["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.schema),
                "strict": False,
            }
            for tool in request.tools
        ]
    system = "\n\n".join(section.text for section in request.system if section.text.strip())
    if system:
        keys["instructions"] = system
    return Head.of(dump(keys)[:-1] + b',"input":[', parameters, keys.get("tools"), system)


_Chunk = dict[str, Any]


class ResponsesReading:
    """The events of a response ("Streaming API responses"): an item counts as it stands in its
    ``output_item.done``; only there a reasoning item is whole. Raises CutOff when the answer
    never ended."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._measure = Measure(request)
        self._items: dict[int, _Chunk] = {}
        self._response: _Chunk | None = None
        self._counted = False

    def feed(self, chunk: _Chunk) -> str:
        """The text to show, mostly empty."""
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
                self._measure.count(compact(item))
                self._items[int(chunk["output_index"])] = item
            case "response.completed" | "response.incomplete":
                self._response = chunk["response"]
                self._counted = True
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
                        blocks.append(Thinking(KEPT, compact({PHASE: item["phase"]})))
                    blocks += [Text(text)] if text else []
                case "function_call":
                    identity = str(item.get("call_id") or "")
                    given = arguments(str(item.get("arguments") or ""))
                    name = str(item.get("name") or "")
                    made = identity or f"call_{len(blocks)}"
                    blocks.append(ToolCall(made, name, given, identity))
                case _:  # reasoning, and whatever comes later, goes back as it came
                    blocks.append(Thinking(KEPT, compact(item)))
        why = cast("_Chunk", response.get("incomplete_details") or {}).get("reason")
        stop: Literal["end", "tools", "length", "refusal"] = "end"
        if any(isinstance(block, ToolCall) for block in blocks):
            stop = "tools"
        elif refused or why == "content_filter":
            stop = "refusal"
        elif why is not None:
            stop = "length"
        model = str(response.get("model") or self._request.model)
        return Reply(ModelStep(tuple(blocks), model, stop), self._used(response))

    def billed(self) -> Usage | None:
        """What it took so far; None: nothing was said of that since it was asked last."""
        response = self._response if self._counted else None
        self._counted = False
        return None if response is None else self._used(response)

    def _used(self, response: _Chunk) -> Usage:
        counts = cast("_Chunk", response.get("usage") or {})
        return counted(self._request, counts, "input_tokens", "output_tokens")


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
