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
from hashlib import sha256

from channels.record import record
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
    UserStep,
)
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.models import Endpoint, known
from ohmo.providers.openai.wire import (
    FIRST_TO_REASON,
    Completions,
    speaks_responses,
    version,
    wire_id,
)
from ohmo.providers.request_bytes import Conversation, Head, ReadImage, Rendering, short, true_type
from ohmo.providers.wire_parts import (
    GO_ON,
    MISSING_RESULT,
    NOTHING_SAID,
    SUMMARY_BEFORE,
    dump,
    exchange,
)

ROOM = 25_000  # tokens that thinking may take ("Reasoning models", Allocating space for reasoning)
KEPT = "openai-responses"
"""Provider of what goes back over this wire as it came."""
PHASE = "phase"
"""The one key of a kept piece that is no item: a word about the message behind it."""
# "Reasoning models", errors: what was thought is not accepted any more, or not by this model.
_UNBOUND = (
    "encrypted_content",
    "encrypted content",
    "'reasoning' was provided",
    "'reasoning' item",
    "reasoning input items",
)


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
                return _part(Text(SUMMARY_BEFORE + step.summary), read_image)
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
    if data is None:
        gone = f"(the image {block.path.name} is no longer there)"
        return dump({"type": "input_text", "text": gone})
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
        elif "'include" in text or "encrypted content is not supported" in text:
            better = replace(now, encrypted=False)
        elif "reasoning.effort" in text or "'effort'" in text:
            better = replace(now, effort=False)
        elif any(word in text for word in _UNBOUND):
            return self.rendering.conversations.without_thinking(request.steps)
        self._accepted[request.model] = better
        self.rendering.heads.clear()
        return better != now

    def _of(self, model: str) -> Accepted:
        """A model of OpenAI's that does not reason takes neither; of others it is not known."""
        reasons = version(model) >= FIRST_TO_REASON or version(model) == (0, 0)
        return self._accepted.get(model) or Accepted(reasons, reasons)

    def _closing(self, request: ModelRequest) -> bytes:
        """Behind the conversation, so that requests of all threads begin alike."""
        if not self._of(request.model).cache_key:
            return b"]}"
        return b'],"prompt_cache_key":%b}' % dump(cache_key(request.steps))


def cache_key(steps: Sequence[Step]) -> str:
    """The same for all requests of a conversation, also after a restart: a digest of what it began
    with ("Prompt caching": requests with a common prefix and the same key go to one machine)."""
    words = sha256()
    for step in steps:
        if isinstance(step, ModelStep):
            break
        if isinstance(step, UserStep):
            said = (block.text for block in step.blocks if isinstance(block, Text))
            words.update("\n".join(said).encode("utf-8", "replace"))
    return f"ohmo-{short(words.digest(), 16)}"


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
