"""Steps to the bytes of a chat completions request. Pure.

Rules kept here (developers.openai.com, "Function calling"): every tool call is answered by a tool
message directly after it; ids are unique within a conversation, because some servers hand out
``call_0`` in every answer; images only in user messages, so those of a tool result follow in one;
user messages are joined, because several chat templates insist on alternating roles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    Image,
    Json,
    ModelStep,
    Step,
    Text,
    ToolCall,
    UserStep,
)
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.cover import Endpoint
from ohmo.providers.exchanges import (
    GO_ON,
    MISSING_RESULT,
    NOTHING_SAID,
    SUMMARY_BEFORE,
    dump,
    exchange,
)
from ohmo.providers.heads import Head
from ohmo.providers.openai.dialect import Dialect, first_dialect
from ohmo.providers.pictures import true_type
from ohmo.providers.rendering import Rendering
from ohmo.providers.scroll import Picture, Scroll

_PARTS = b"\x00"  # stands before a fragment that is a list of parts; JSON never holds this byte


def wire_id(call: ToolCall, scroll: Scroll) -> str:
    """The model's own id when it is there and not yet used in this conversation, else one made of
    the house's."""
    known_id = scroll.ids.get(call.id)
    if known_id is not None:
        return known_id
    found = (
        call.foreign
        if call.foreign and call.foreign not in scroll.used
        else "call_" + call.id.replace(".", "_")
    )
    scroll.ids[call.id] = found
    scroll.used.add(found)
    return found


class CompletionsWire:
    """See ``ohmo.providers.scroll.Wire``. A user fragment is a list of content parts without its
    brackets."""

    def fragment(self, step: Step, scroll: Scroll, picture: Picture, *, thinking: bool) -> bytes:  # noqa: ARG002 (no thinking on this wire)
        match step:
            case ModelStep():
                return _assistant(step, scroll)
            case UserStep():
                return b",".join(
                    _part(block, picture)
                    for block in step.blocks
                    if not isinstance(block, Text) or block.text.strip()
                )
            case CallResult():
                return _result(step, scroll, picture)
            case Compaction():
                return _part(Text(SUMMARY_BEFORE + step.summary), picture)
            case CallStarted():
                return b""

    def assemble(self, steps: Sequence[Step], fragments: Sequence[bytes], scroll: Scroll) -> bytes:
        kept = {id(step): fragment for step, fragment in zip(steps, fragments, strict=True)}
        held = exchange(steps)
        messages: list[bytes] = [] if held.model is None else [kept[id(held.model)]]
        shown: list[bytes] = []
        for call, result in held.results:
            if result is None:
                messages.append(
                    dump(
                        {
                            "role": "tool",
                            "tool_call_id": wire_id(call, scroll),
                            "content": MISSING_RESULT,
                        }
                    )
                )
                continue
            message, _, images = kept[id(result)].partition(_PARTS)
            messages.append(message)
            shown += [images] if images else []
        shown += [kept[id(said)] for said in held.said if kept[id(said)]]
        if not shown and not held.results:
            shown = [
                dump({"type": "text", "text": GO_ON if held.model is not None else NOTHING_SAID})
            ]
        if shown:
            messages.append(b'{"role":"user","content":' + _content(b",".join(shown)) + b"}")
        return b",".join(messages)


def _content(parts: bytes) -> bytes:
    """Text alone goes as a plain string, which the simplest servers understand, too. (Inside a JSON
    string the quotes would be escaped.)"""
    whole = b"[" + parts + b"]"
    if b'{"type":"image_url"' in whole:
        return whole
    return dump("\n\n".join(part["text"] for part in json.loads(whole)))


def _assistant(step: ModelStep, scroll: Scroll) -> bytes:
    text = "\n\n".join(
        block.text for block in step.blocks if isinstance(block, Text) and block.text.strip()
    )
    calls: list[Json] = [
        {
            "id": wire_id(block, scroll),
            "type": "function",
            "function": {"name": block.name, "arguments": dump(block.arguments).decode()},
        }
        for block in step.blocks
        if isinstance(block, ToolCall)
    ]
    message: dict[str, Json] = {
        "role": "assistant",
        "content": text or (None if calls else "(no answer)"),
    }
    return dump(message | {"tool_calls": calls} if calls else message)


def _part(block: Text | Image, picture: Picture) -> bytes:
    if isinstance(block, Text):
        return dump({"type": "text", "text": block.text})
    data = picture(block)
    if data is None:
        return dump({"type": "text", "text": f"(the image {block.path.name} is no longer there)"})
    return dump(
        {
            "type": "image_url",
            "image_url": {"url": f"data:{true_type(data, block.media_type)};base64,{data}"},
        }
    )


def _result(step: CallResult, scroll: Scroll, picture: Picture) -> bytes:
    result = step.result
    text = "Error: " + result.text if result.error else result.text
    call = scroll.ids.get(result.call, result.call)
    message = dump({"role": "tool", "tool_call_id": call, "content": text or "(no output)"})
    if not result.images:
        return message
    return message + _PARTS + b",".join(_part(image, picture) for image in result.images)


def renderings(endpoint: Endpoint) -> tuple[Rendering, ...]:
    """For a replay: what the endpoint teaches meanwhile is not known to it."""
    return (spoken(lambda model: first_dialect(model, endpoint.base_url)),)


def spoken(dialect: Callable[[str], Dialect]) -> Rendering:
    """``dialect``: of a model, now."""
    return Rendering(
        "o",
        CompletionsWire(),
        lambda request: head(request, dialect(request.model)),
        lambda head, closed, tail: [head, closed, b"," if closed else b"", tail, b"]}"],
    )


def head(request: ModelRequest, dialect: Dialect) -> Head:
    """Everything before the conversation; the same bytes as long as model, system, tools, limit,
    effort and dialect stay the same."""
    keys: dict[str, Json] = {"model": request.model} | dialect.keys(request)
    parameters = dict(keys)
    if request.tools:
        keys["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.schema),
                },
            }
            for tool in request.tools
        ]
    system = "\n\n".join(section.text for section in request.system if section.text.strip())
    start = dump({"role": "system", "content": system}) + b"," if system else b""
    return Head.of(
        dump(keys)[:-1] + b',"messages":[' + start, parameters, keys.get("tools"), system
    )
