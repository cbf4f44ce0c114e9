"""Steps to the bytes of a chat completions request, and what one endpoint accepts beside the
messages. Pure.

Rules kept here (developers.openai.com, "Function calling"): every tool call is answered by a tool
message directly after it; ids are unique within a conversation, because some servers hand out
``call_0`` in every answer; images only in user messages, so those of a tool result follow in one;
user messages are joined, because several chat templates insist on alternating roles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal
from urllib.parse import urlsplit

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
    ToolCall,
    UserStep,
)
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.models import Endpoint, known, plain_name
from ohmo.providers.request_bytes import Conversation, Head, ReadImage, Rendering, true_type
from ohmo.providers.wire_parts import (
    GO_ON,
    MISSING_RESULT,
    NOTHING_SAID,
    SUMMARY_BEFORE,
    dump,
    exchange,
)


@record
class Dialect:
    """What one endpoint accepts."""

    usage: bool = True  # stream_options.include_usage
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    #: none: send reasoning_effort "none" when there are tools. OpenAI's models since 5.4 refuse
    #: tools with any other effort on this endpoint, and since 5.6 also when none is named
    #: (openai/openai-openapi#541, BerriAI/litellm#34569).
    effort: Literal["asked", "none", "never"] = "asked"

    def keys(self, request: ModelRequest) -> dict[str, Json]:
        found: dict[str, Json] = {"stream": True}
        if self.usage:
            found["stream_options"] = {"include_usage": True}
        found[self.limit] = min(request.max_output, known(request.model).max_output)
        if self.effort == "none" and request.tools:
            found["reasoning_effort"] = "none"
        elif self.effort == "asked" and request.effort is not None:
            found["reasoning_effort"] = request.effort
        return found


FIRST_TO_REASON = (5, 0)
HOST = "api.openai.com"
_ONLY_CHAT = re.compile(r"-audio|-search-preview")  # model pages: chat completions only


def version(model: str) -> tuple[int, int]:
    """Of a model of OpenAI's, those of the o-series as the first that reasons; (0, 0): none of
    them."""
    name = plain_name(model)
    match = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    if match is not None:
        return int(match[1]), int(match[2] or 0)
    return FIRST_TO_REASON if re.match(r"o\d", name) else (0, 0)


def speaks_responses(endpoint: Endpoint, host: str = HOST) -> bool:
    """Whether it is asked over Responses: as the profile says, else OpenAI itself and nobody else.
    ``host``: where an endpoint without an address goes."""
    if endpoint.wire != "auto":
        return endpoint.wire == "responses"
    where = urlsplit(endpoint.base_url).hostname if endpoint.base_url else host
    return where == HOST and not any(map(_ONLY_CHAT.search, endpoint.models))


def first_dialect(model: str, base_url: str | None) -> Dialect:
    """``base_url`` None: OpenAI itself, which wants max_completion_tokens; others know max_tokens
    for certain."""
    effort: Literal["asked", "none", "never"] = "never"
    if version(model) >= (5, 4):
        effort = "none"
    elif version(model) >= FIRST_TO_REASON or base_url is not None:
        effort = "asked"
    return Dialect(
        limit="max_completion_tokens" if base_url is None else "max_tokens", effort=effort
    )


def learnt(dialect: Dialect, message: str) -> Dialect | None:
    """The dialect without what the endpoint's refusal complains of; None when it complains of
    something else."""
    text = message.lower()
    if "stream_options" in text and dialect.usage:
        return replace(dialect, usage=False)
    if "max_completion_tokens" in text and dialect.limit == "max_tokens":
        return replace(dialect, limit="max_completion_tokens")
    if "max_completion_tokens" in text and dialect.limit == "max_completion_tokens":
        return replace(dialect, limit="max_tokens")
    if "reasoning_effort" in text and dialect.effort == "asked":
        return replace(
            dialect,
            effort="none" if "'none'" in text or '"none"' in text or "tools" in text else "never",
        )
    if "reasoning_effort" in text and dialect.effort == "none":
        return replace(dialect, effort="never")
    return None


LONGEST_ID = 64  # characters ("Create a model response", ``call_id``)
_PARTS = b"\x00"  # stands before a fragment that is a list of parts; JSON never holds this byte


def wire_id(call: ToolCall, conversation: Conversation) -> str:
    """The model's own id when it is there and not yet used in this conversation, else one made of
    the house's."""
    known_id = conversation.ids.get(call.id)
    if known_id is not None:
        return known_id
    found = call.foreign
    if not 0 < len(found) <= LONGEST_ID or found in conversation.used:
        found = "call_" + call.id.replace(".", "_")
    conversation.ids[call.id] = found
    conversation.used.add(found)
    return found


class CompletionsWire:
    """See ``ohmo.providers.request_bytes.Wire``. A user fragment is a list of content parts without
    its brackets."""

    def fragment(
        self,
        step: Step,
        conversation: Conversation,
        read_image: ReadImage,
        *,
        thinking: bool,  # noqa: ARG002 - there is none on this wire
    ) -> bytes:
        match step:
            case ModelStep():
                return _assistant(step, conversation)
            case UserStep():
                return b",".join(
                    _part(block, read_image)
                    for block in step.blocks
                    if not isinstance(block, Text) or block.text.strip()
                )
            case CallResult():
                return _result(step, conversation, read_image)
            case Compaction():
                return _part(Text(SUMMARY_BEFORE + step.summary), read_image)
            case CallStarted():
                return b""

    def assemble(
        self, steps: Sequence[Step], fragments: Sequence[bytes], conversation: Conversation
    ) -> bytes:
        kept = {id(step): fragment for step, fragment in zip(steps, fragments, strict=True)}
        held = exchange(steps)
        messages: list[bytes] = [] if held.model is None else [kept[id(held.model)]]
        shown: list[bytes] = []
        for call, result in held.results:
            if result is None:
                identity = wire_id(call, conversation)
                missing = {"role": "tool", "tool_call_id": identity, "content": MISSING_RESULT}
                messages.append(dump(missing))
                continue
            message, _, images = kept[id(result)].partition(_PARTS)
            messages.append(message)
            shown += [images] if images else []
        shown += [kept[id(said)] for said in held.said if kept[id(said)]]
        if not shown and not held.results:
            text = GO_ON if held.model is not None else NOTHING_SAID
            shown = [dump({"type": "text", "text": text})]
        if shown:
            content = b"[" + b",".join(shown) + b"]"
            # Text alone goes as a plain string, which the simplest servers understand, too.
            # (Inside a JSON string the quotes would be escaped.)
            if b'{"type":"image_url"' not in content:
                content = dump("\n\n".join(part["text"] for part in json.loads(content)))
            messages.append(b'{"role":"user","content":' + content + b"}")
        return b",".join(messages)


def _assistant(step: ModelStep, conversation: Conversation) -> bytes:
    text = "\n\n".join(
        block.text for block in step.blocks if isinstance(block, Text) and block.text.strip()
    )
    calls: list[Json] = [
        {
            "id": wire_id(block, conversation),
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


def _part(block: Text | Image, read_image: ReadImage) -> bytes:
    if isinstance(block, Text):
        return dump({"type": "text", "text": block.text})
    data = read_image(block)
    if data is None:
        return dump({"type": "text", "text": f"(the image {block.path.name} is no longer there)"})
    return dump(
        {
            "type": "image_url",
            "image_url": {"url": f"data:{true_type(data, block.media_type)};base64,{data}"},
        }
    )


def _result(step: CallResult, conversation: Conversation, read_image: ReadImage) -> bytes:
    result = step.result
    text = "Error: " + result.text if result.error else result.text
    call = conversation.ids.get(result.call, result.call)
    message = dump({"role": "tool", "tool_call_id": call, "content": text or "(no output)"})
    if not result.images:
        return message
    return message + _PARTS + b",".join(_part(image, read_image) for image in result.images)


class Completions:
    """Chat completions at one endpoint, and what it has said of itself. ``base_url`` None: OpenAI
    itself."""

    def __init__(self, base_url: str | None) -> None:
        self._base_url = base_url
        self._dialects: dict[str, Dialect] = {}
        self.rendering = Rendering(
            "o",
            CompletionsWire(),
            lambda request: head(request, self._dialect(request.model)),
            lambda head, closed, tail: [head, closed, b"," if closed else b"", tail, b"]}"],
        )

    def learns(self, request: ModelRequest, message: str) -> bool:
        """Whether the next try is better for what this refusal says."""
        better = learnt(self._dialect(request.model), message)
        if better is None:
            return False
        self._dialects[request.model] = better
        self.rendering.heads.clear()
        return True

    def _dialect(self, model: str) -> Dialect:
        return self._dialects.get(model) or first_dialect(model, self._base_url)


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
