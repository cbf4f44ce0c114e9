"""Steps to the bytes of a Messages request. Pure.

Rules kept here (platform.claude.com, "Tool use", "Prompt caching", "Preserved thinking"): a
tool_result stands directly after its tool_use, first in the user message; ids match
^[a-zA-Z0-9_-]+$ and are unique; no empty text block; at most four cache breakpoints, which look
back 20 blocks; thinking goes back unchanged, and only to who made it. ``messages`` is the last key,
so that requests share a prefix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

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
from ohmo.providers.models import Endpoint, known, plain_name
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
    NOTHING_SAID,
    dump,
    exchange,
    summary_words,
)

MARK = b',"cache_control":{"type":"ephemeral"}}'
_MARKED: dict[str, Json] = {"cache_control": {"type": "ephemeral"}}
LARGEST = 5 << 20  # bytes of one picture ("Vision", errors: "image exceeds 5 MB maximum")
LOOK_BACK = 18  # of Anthropic's 20 blocks, one spare at either end
_LEFT_OUT = b'{"role":"user","content":[{"type":"text","text":"(earlier messages are left out)"}]},'
_BESIDE = b"\x00"  # stands between a result and what is said beside it; JSON never holds this byte
_FIRST_TO_SEARCH = (4, 5)  # "Tool search tool", Model compatibility: not Opus 4.1 and earlier
_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def wire_id(call: ToolCall, conversation: Conversation) -> str:
    """The model's own id where it is legal and not yet used in this conversation, else one made of
    the house's."""
    known_id = conversation.ids.get(call.id)
    if known_id is not None:
        return known_id
    found = call.foreign
    if not _ID.fullmatch(found) or found in conversation.used:
        found = "call_" + re.sub(r"[^a-zA-Z0-9_-]", "_", call.id)
    conversation.ids[call.id] = found
    conversation.used.add(found)
    return found


class MessagesWire:
    """See ``ohmo.providers.request_bytes.Wire``. ``references``: a result names the tools it
    brings, and the endpoint shows them there ("Tool search tool", custom implementation); its words
    stand beside it, because such a result holds nothing else."""

    def __init__(self, *, references: bool = False) -> None:
        self._references = references

    def fragment(
        self, step: Step, conversation: Conversation, read_image: ReadImage, *, thinking: bool
    ) -> bytes:
        match step:
            case ModelStep():
                return _assistant(step, conversation, thinking=thinking)
            case UserStep():
                return b",".join(
                    _user_block(block, read_image)
                    for block in step.blocks
                    if not isinstance(block, Text) or block.text.strip()
                )
            case CallResult(result) if self._references and result.tools:
                named: list[Json] = [
                    {"type": "tool_reference", "tool_name": name} for name in result.tools
                ]
                found: dict[str, Json] = {"type": "tool_result"}
                found["tool_use_id"] = conversation.ids.get(result.call, result.call)
                found["content"] = named
                said = [dump({"type": "text", "text": result.text})] if result.text.strip() else []
                said += [_user_block(image, read_image) for image in result.images]
                return dump(found) + _BESIDE + b",".join(said)
            case CallResult(result):
                said = [dump({"type": "text", "text": result.text})] if result.text.strip() else []
                said += [_user_block(image, read_image) for image in result.images]
                call = conversation.ids.get(result.call, result.call)
                answer = b'{"type":"tool_result","tool_use_id":' + dump(call)
                if said:
                    answer += b',"content":[' + b",".join(said) + b"]"
                return answer + (b',"is_error":true}' if result.error and said else b"}")
            case Compaction():
                return dump({"type": "text", "text": summary_words(step)})
            case CallStarted():
                return b""

    def assemble(
        self, steps: Sequence[Step], fragments: Sequence[bytes], conversation: Conversation
    ) -> bytes:
        parts = {id(step): fragment for step, fragment in zip(steps, fragments, strict=True)}
        held = exchange(steps)
        blocks: list[bytes] = []
        besides: list[bytes] = []
        for call, result in held.results:
            if result is not None:
                block, _, beside = parts[id(result)].partition(_BESIDE)
                blocks.append(block)
                besides += [beside] if beside else []
                continue
            missing: dict[str, Json] = {"type": "tool_result"}
            missing["tool_use_id"] = wire_id(call, conversation)
            blocks.append(dump(missing | {"content": MISSING_RESULT, "is_error": True}))
        blocks += besides
        blocks += [parts[id(said)] for said in held.said if parts[id(said)]]
        if not blocks:
            text = GO_ON if held.model is not None else NOTHING_SAID
            blocks = [dump({"type": "text", "text": text})]
        user = b'{"role":"user","content":[' + b",".join(blocks) + b"]}"
        if held.model is None:
            return user
        # The first message must be a user's, also when the oldest were left out.
        first = b"" if conversation.body else _LEFT_OUT
        return first + parts[id(held.model)] + b"," + user


def _assistant(step: ModelStep, conversation: Conversation, *, thinking: bool) -> bytes:
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
                use = {
                    "type": "tool_use",
                    "id": wire_id(block, conversation),
                    "name": block.name,
                    "input": block.arguments,
                }
                blocks.append(dump(use))
    content = b",".join(blocks or [dump({"type": "text", "text": "(no answer)"})])
    return b'{"role":"assistant","content":[' + content + b"]}"


def _user_block(block: Text | Image, read_image: ReadImage) -> bytes:
    if isinstance(block, Text):
        return dump({"type": "text", "text": block.text})
    data = read_image(block)
    if isinstance(data, Unseen):
        return dump({"type": "text", "text": picture_line(block, data)})
    return dump(
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": true_type(data, block.media_type),
                "data": data,
            },
        }
    )


def keeps_tools_back(endpoint: Endpoint) -> bool:
    """Whether it is told of all tools, shows the model those that were found where they were found,
    and leaves what is before in its cache ("Tool use with prompt caching"): Anthropic itself. What
    speaks its language elsewhere often does not, or sends every tool all the same."""
    base = "https://api.anthropic.com" if endpoint.base_url is None else endpoint.base_url
    host = urlsplit(base).hostname
    versions = [_version(model) for model in endpoint.models]
    return host == "api.anthropic.com" and bool(versions) and min(versions) >= _FIRST_TO_SEARCH


def rendering(*, references: bool = False, marks: bool = True) -> Rendering:
    """``marks``: whether the endpoint takes cache breakpoints."""
    if not marks:
        return Rendering(
            "n",
            MessagesWire(),
            lambda request: head(request, marks=False),
            lambda head, closed, tail: [head, closed, b"," if closed else b"", tail, b"]}"],
            largest=LARGEST,
        )
    return Rendering(
        "A" if references else "a",
        MessagesWire(references=references),
        lambda request: head(request, references=references),
        lambda head, closed, tail: [head, *marked(closed, tail), b"]}"],
        offered if references else None,
        largest=LARGEST,
    )


def renderings(endpoint: Endpoint) -> tuple[Rendering, ...]:
    """For a replay: an endpoint that ought to keep tools back may have said that it does not, one
    of another maker that it takes no marks."""
    plain = rendering()
    if keeps_tools_back(endpoint):
        return rendering(references=True), plain
    return plain, rendering(marks=False)


def offered(request: ModelRequest) -> ModelRequest:
    """All tools; those stay deferred of which the conversation still holds the reference. The
    others would not be there any more."""
    if not request.deferred:
        return request
    referenced = {
        name for step in request.steps if isinstance(step, CallResult) for name in step.result.tools
    }
    lost = tuple(
        replace(tool, deferred=False)
        for tool in request.tools
        if tool.deferred and tool.name not in referenced
    )
    names = {tool.name for tool in lost}
    return replace(
        request,
        tools=(
            *request.core,
            *lost,
            *(tool for tool in request.deferred if tool.name not in names),
        ),
    )


def head(request: ModelRequest, *, references: bool = False, marks: bool = True) -> Head:
    """Everything before the messages; the same bytes as long as model, system, tools, limit and
    effort stay the same."""
    keys: dict[str, object] = {
        "model": request.model,
        "max_tokens": min(request.max_output, known(request.model).max_output),
        "stream": True,
    }
    keys |= effort(request)
    parameters = dict(keys)
    sections = 2 if not request.tools else 1
    if request.tools:
        # What is found later stands behind the mark and leaves what is before it in the cache.
        last = (request.core or request.tools)[-1]
        tools: list[dict[str, Json]] = []
        for tool in request.tools:
            spec: dict[str, Json] = {"name": tool.name, "description": tool.description}
            spec["input_schema"] = dict(tool.schema)
            if references and tool.deferred:
                spec["defer_loading"] = True
            elif tool is last and marks:
                spec |= _MARKED
            tools.append(spec)
        keys["tools"] = tools
    # The last sections that ask for a breakpoint get one: four in all, with the last tool's and
    # the moving two.
    asked = [
        index
        for index, section in enumerate(request.system)
        if section.breakpoint and section.text.strip()
    ]
    marked = set(asked[-sections:] if marks else ())
    system: list[dict[str, Json]] = []
    for index, section in enumerate(request.system):
        if section.text.strip():
            block: dict[str, Json] = {"type": "text", "text": section.text}
            system.append(block | _MARKED if index in marked else block)
    if system:
        keys["system"] = system
    start = dump(keys)[:-1] + b',"messages":['
    return Head.of(start, parameters, keys.get("tools"), system)


def effort(request: ModelRequest) -> dict[str, Json]:
    """ "Effort" and "Adaptive thinking": models since 4.6 think adaptively and take an effort;
    before that a budget of tokens. What is thought comes out of ``max_tokens``, so there is more of
    them. Without a wish nothing is sent and the model's own default holds."""
    if request.effort is None:
        return {}
    number = _version(request.model)
    if number == (0, 0):
        return {}
    budget = {"low": 0, "medium": 4096, "high": 16384}[request.effort]
    room = min(request.max_output + max(budget, 4096), known(request.model).max_output)
    if number >= (4, 6):
        wish: dict[str, Json] = {"type": "adaptive"}
        return {"max_tokens": room, "thinking": wish, "output_config": {"effort": request.effort}}
    if not 1024 <= budget < room:
        return {}
    return {"max_tokens": room, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _version(model: str) -> tuple[int, int]:
    """(0, 0): not one of Anthropic's."""
    match = re.match(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?", plain_name(model))
    if match is None:
        return 0, 0
    return int(match[1]), int(match[2] or 0)


def marked(body: bytearray, tail: bytes) -> list[bytes | bytearray]:
    """Moving breakpoints: after the newest user block, and, when more blocks than a look-back stand
    between, where the last one was."""
    blocks = tail.count(b'{"type":"') - tail.count(b'"source":{"type":"')
    pieces: list[bytes | bytearray] = [body]
    if body and blocks > LOOK_BACK:
        pieces = [bytes(body[:-3]), MARK, b"]}"]
    if body:
        pieces.append(b",")
    return [*pieces, tail[:-3], MARK, b"]}"]
