"""Steps to the bytes of a Messages request. Pure.

Rules kept here (platform.claude.com, "Tool use", "Prompt caching", "Preserved thinking"): a tool_result stands directly after its tool_use,
first in the user message; ids match ^[a-zA-Z0-9_-]+$ and are unique; no empty text block; at most four cache breakpoints, which look
back 20 blocks; thinking goes back unchanged, and only to who made it. ``messages`` is the last key, so that requests share a prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ohmo.contracts.messages import CallResult, CallStarted, Compaction, Image, Json, ModelStep, Step, Text, Thinking, ToolCall, UserStep
from ohmo.contracts.provider import ModelRequest, Section, ToolSpec
from ohmo.providers.cover import Endpoint
from ohmo.providers.exchanges import GO_ON, MISSING_RESULT, NOTHING_SAID, SUMMARY_BEFORE, exchange
from ohmo.providers.heads import Head
from ohmo.providers.models import known, plain_name
from ohmo.providers.pictures import true_type
from ohmo.providers.rendering import Rendering
from ohmo.providers.scroll import Picture, Scroll

MARK = b',"cache_control":{"type":"ephemeral"}}'
_MARKED: dict[str, Json] = {"cache_control": {"type": "ephemeral"}}
LOOK_BACK = 18  # of Anthropic's 20 blocks, one spare at either end
_LEFT_OUT = b'{"role":"user","content":[{"type":"text","text":"(earlier messages are left out)"}]},'
_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def dump(value: object) -> bytes:
    """Compact JSON. A lone surrogate, which no API accepts, becomes "?"."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def wire_id(call: ToolCall, scroll: Scroll) -> str:
    """The model's own id where it is legal and not yet used in this conversation, else one made of the house's."""
    known_id = scroll.ids.get(call.id)
    if known_id is not None:
        return known_id
    found = call.foreign
    if not _ID.fullmatch(found) or found in scroll.used:
        found = "call_" + re.sub(r"[^a-zA-Z0-9_-]", "_", call.id)
    scroll.ids[call.id] = found
    scroll.used.add(found)
    return found


class MessagesWire:
    """See ``ohmo.providers.scroll.Wire``."""

    def fragment(self, step: Step, scroll: Scroll, picture: Picture, *, thinking: bool) -> bytes:
        match step:
            case ModelStep():
                return _assistant(step, scroll, thinking=thinking)
            case UserStep():
                return b",".join(_user_block(block, picture) for block in step.blocks if not isinstance(block, Text) or block.text.strip())
            case CallResult():
                return _result(step, scroll, picture)
            case Compaction():
                return dump({"type": "text", "text": SUMMARY_BEFORE + step.summary})
            case CallStarted():
                return b""

    def assemble(self, steps: Sequence[Step], fragments: Sequence[bytes], scroll: Scroll) -> bytes:
        parts = {id(step): fragment for step, fragment in zip(steps, fragments, strict=True)}
        held = exchange(steps)
        blocks = [parts[id(result)] if result is not None else _missing(wire_id(call, scroll)) for call, result in held.results]
        blocks += [parts[id(said)] for said in held.said if parts[id(said)]]
        if not blocks:
            blocks = [dump({"type": "text", "text": GO_ON if held.model is not None else NOTHING_SAID})]
        user = b'{"role":"user","content":[' + b",".join(blocks) + b"]}"
        if held.model is None:
            return user
        first = b"" if scroll.body else _LEFT_OUT  # the first message must be a user's, also when the oldest were left out
        return first + parts[id(held.model)] + b"," + user


def _assistant(step: ModelStep, scroll: Scroll, *, thinking: bool) -> bytes:
    blocks: list[bytes] = []
    for block in step.blocks:
        match block:
            case Thinking():
                if thinking and block.provider == "anthropic":
                    blocks.append(block.opaque.encode())
            case Text():
                if block.text.strip():
                    blocks.append(dump({"type": "text", "text": block.text}))
            case ToolCall():
                blocks.append(dump({"type": "tool_use", "id": wire_id(block, scroll), "name": block.name, "input": block.arguments}))
    return b'{"role":"assistant","content":[' + b",".join(blocks or [dump({"type": "text", "text": "(no answer)"})]) + b"]}"


def _user_block(block: Text | Image, picture: Picture) -> bytes:
    if isinstance(block, Text):
        return dump({"type": "text", "text": block.text})
    data = picture(block)
    if data is None:
        return dump({"type": "text", "text": f"(the image {block.path.name} is no longer there)"})
    return dump({"type": "image", "source": {"type": "base64", "media_type": true_type(data, block.media_type), "data": data}})


def _result(step: CallResult, scroll: Scroll, picture: Picture) -> bytes:
    result = step.result
    content: list[bytes] = [dump({"type": "text", "text": result.text})] if result.text.strip() else []
    content += [_user_block(image, picture) for image in result.images]
    head = b'{"type":"tool_result","tool_use_id":' + dump(scroll.ids.get(result.call, result.call))
    if content:
        head += b',"content":[' + b",".join(content) + b"]"
    return head + (b',"is_error":true}' if result.error and content else b"}")


def _missing(call: str) -> bytes:
    return dump({"type": "tool_result", "tool_use_id": call, "content": MISSING_RESULT, "is_error": True})


def rendering(endpoint: Endpoint) -> Rendering:  # noqa: ARG001 - all endpoints of this wire are alike
    return Rendering("a", MessagesWire(), head, lambda head, closed, tail: [head, *marked(closed, tail), b"]}"])


def head(request: ModelRequest) -> Head:
    """Everything before the messages; the same bytes as long as model, system, tools, limit and effort stay the same."""
    keys: dict[str, object] = {
        "model": request.model,
        "max_tokens": min(request.max_output, known(request.model).max_output),
        "stream": True,
    }
    keys |= effort(request)
    parameters = dict(keys)
    marks = 2 if not request.tools else 1
    if request.tools:
        last = (request.core or request.tools)[-1]  # what is found later stands behind the mark and leaves what is before it in the cache
        keys["tools"] = [_tool(tool, last=tool is last) for tool in request.tools]
    system = _system(request.system, marks)
    if system:
        keys["system"] = system
    return Head.of(dump(keys)[:-1] + b',"messages":[', parameters, keys.get("tools"), system)


def _tool(tool: ToolSpec, *, last: bool) -> Mapping[str, Json]:
    spec: dict[str, Json] = {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
    return spec | _MARKED if last else spec


def _system(sections: Sequence[Section], marks: int) -> list[dict[str, Json]]:
    """The last ``marks`` sections that ask for a breakpoint get one: four in all, with the last tool's and the moving two."""
    asked = [index for index, section in enumerate(sections) if section.breakpoint and section.text.strip()]
    marked = set(asked[-marks:])
    blocks: list[dict[str, Json]] = []
    for index, section in enumerate(sections):
        if section.text.strip():
            block: dict[str, Json] = {"type": "text", "text": section.text}
            blocks.append(block | _MARKED if index in marked else block)
    return blocks


def effort(request: ModelRequest) -> dict[str, Json]:
    """ "Effort" and "Adaptive thinking": models since 4.6 think adaptively and take an effort; before that a budget of tokens.
    Without a wish nothing is sent and the model's own default holds."""
    if request.effort is None:
        return {}
    version = re.match(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?", plain_name(request.model))
    if version is None:
        return {}
    number = (int(version[1]), int(version[2] or 0))
    if number >= (4, 6):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": request.effort}}
    budget = {"low": 0, "medium": 4096, "high": 16384}[request.effort]
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if 1024 <= budget < request.max_output else {}


def marked(body: bytearray, tail: bytes) -> list[bytes | bytearray]:
    """Moving breakpoints: after the newest user block, and, when more blocks than a look-back stand between, where the last one was."""
    blocks = tail.count(b'{"type":"') - tail.count(b'"source":{"type":"')
    pieces: list[bytes | bytearray] = [body]
    if body and blocks > LOOK_BACK:
        pieces = [bytes(body[:-3]), MARK, b"]}"]
    if body:
        pieces.append(b",")
    return [*pieces, tail[:-3], MARK, b"]}"]
