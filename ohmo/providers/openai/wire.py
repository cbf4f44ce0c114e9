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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, cast
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
    Thinking,
    ToolCall,
    Usage,
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
    short,
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


@record
class Dialect:
    """What one endpoint accepts."""

    usage: bool = True  # stream_options.include_usage
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    #: none: send reasoning_effort "none" when there are tools. OpenAI's models since 5.4 refuse
    #: tools with any other effort on this endpoint, and since 5.6 also when none is named
    #: (openai/openai-openapi#541, BerriAI/litellm#34569).
    effort: Literal["asked", "none", "never"] = "asked"
    cache_key: bool = False  # prompt_cache_key

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
        limit="max_completion_tokens" if base_url is None else "max_tokens",
        effort=effort,
        cache_key=base_url is None,
    )


def learnt(dialect: Dialect, message: str) -> Dialect | None:
    """The dialect without what the endpoint's refusal complains of; None when it complains of
    something else."""
    text = message.lower()
    if "prompt_cache_key" in text and dialect.cache_key:
        return replace(dialect, cache_key=False)
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


KEPT = "openai-chat"
"""Provider of what was thought over chat completions: an object with one key, as it came."""
# Who wants it back, under which key (api-docs.deepseek.com "Thinking mode", platform.moonshot.ai
# "Thinking models", openrouter.ai "Preserving reasoning"). Nobody else documents that they do.
_WANTED = {
    "api.deepseek.com": "reasoning_content",
    "api.moonshot.ai": "reasoning_content",
    "api.moonshot.cn": "reasoning_content",
    "openrouter.ai": "reasoning_details",
}


class CompletionsWire:
    """See ``ohmo.providers.request_bytes.Wire``. A user fragment is a list of content parts without
    its brackets. ``wanted``: the key under which the endpoint wants back what its model thought,
    "": it does not."""

    def __init__(self, wanted: str = "") -> None:
        self._wanted = wanted

    def fragment(
        self, step: Step, conversation: Conversation, read_image: ReadImage, *, thinking: bool
    ) -> bytes:
        match step:
            case ModelStep():
                return _assistant(step, conversation, self._wanted if thinking else "")
            case UserStep():
                return b",".join(
                    _part(block, read_image)
                    for block in step.blocks
                    if not isinstance(block, Text) or block.text.strip()
                )
            case CallResult():
                return _result(step, conversation, read_image)
            case Compaction():
                return _part(Text(summary_words(step)), read_image)
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


def _assistant(step: ModelStep, conversation: Conversation, wanted: str) -> bytes:
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
    if wanted:
        for block in step.blocks:
            if isinstance(block, Thinking) and block.provider == KEPT:
                thought: dict[str, Json] = json.loads(block.opaque)
                message |= thought if wanted in thought else {}
        if calls and wanted == "reasoning_content":  # refused without, also where nobody thought
            message.setdefault(wanted, "")
    return dump(message | {"tool_calls": calls} if calls else message)


def _part(block: Text | Image, read_image: ReadImage) -> bytes:
    if isinstance(block, Text):
        return dump({"type": "text", "text": block.text})
    data = read_image(block)
    if isinstance(data, Unseen):
        return dump({"type": "text", "text": picture_line(block, data)})
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
        self._wanted = _WANTED.get(urlsplit(base_url or "").hostname or "", "")
        self.rendering = self._spoken()

    def _spoken(self) -> Rendering:
        return Rendering(
            "o",
            CompletionsWire(self._wanted),
            lambda request: head(request, self._dialect(request.model)),
            lambda head, closed, tail: [head, closed, b"," if closed else b"", tail],
            closing=self._closing,
        )

    def _closing(self, request: ModelRequest) -> bytes:
        return closing(request, keyed=self._dialect(request.model).cache_key)

    def learns(self, request: ModelRequest, message: str) -> bool:
        """Whether the next try is better for what this refusal says."""
        if "reasoning_content" in message and self._wanted != "reasoning_content":
            self._wanted = "reasoning_content"
            self.rendering = self._spoken()
            return True
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


def closing(request: ModelRequest, *, keyed: bool) -> bytes:
    """Behind the conversation, so that requests of all threads begin alike. ``prompt_cache_key``:
    the same for all requests of a conversation, also after a restart: a digest of the words it
    began with ("Prompt caching": requests that begin alike and name the same key go to one
    machine)."""
    if not keyed:
        return b"]}"
    words = sha256()
    for step in request.steps:
        if isinstance(step, ModelStep):
            break
        if isinstance(step, UserStep):
            said = (block.text for block in step.blocks if isinstance(block, Text))
            words.update("\n".join(said).encode("utf-8", "replace"))
    return b'],"prompt_cache_key":%b}' % dump(f"ohmo-{short(words.digest(), 16)}")


def counted(request: ModelRequest, counts: Mapping[str, Any], sent: str, said: str) -> Usage:
    """``sent`` and ``said``: what the API calls its counts. What was thought is within ``said``;
    what came from the cache or went there is within ``sent``."""
    details = cast("Mapping[str, Any]", counts.get(f"{sent}_details") or {})
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
