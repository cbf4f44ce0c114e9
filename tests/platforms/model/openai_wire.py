"""A chat completions stream: role first, content and tool call deltas, finish_reason, usage in a
chunk without choices, ``[DONE]``.

Source: developers.openai.com, "Chat completions streaming events", "Streaming function calls",
"Error codes"; the quirks are those of LM Studio, Ollama and vLLM as their issue trackers show them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.platforms.model.anthropic_wire import pieces
from tests.platforms.model.script import Call, Turn

KINDS = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_serial = itertools.count(1)


def error(turn: Turn, status: int) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 429 else "server_error"
    return {
        "error": {
            "message": turn.message or kind,
            "type": kind,
            "param": None,
            "code": turn.kind or KINDS.get(status),
        }
    }


def chunks(
    turn: Turn, text: str, model: str, prompt: int, *, with_usage: bool
) -> Iterator[dict[str, Any]]:
    frame: dict[str, Any] = {
        "id": f"chatcmpl-{next(_serial)}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
    }

    def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return frame | {
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        }

    yield choice({"role": "assistant", "content": ""})
    if turn.thinking is not None:
        for piece in pieces(turn.thinking, turn.chunks):
            if "reasoning_details" in turn.quirks:  # OpenRouter sends both
                detail = {"type": "reasoning.text", "text": piece, "index": 0, "signature": None}
                yield choice({"reasoning": piece, "reasoning_details": [detail]})
            else:
                name = "reasoning" if "reasoning" in turn.quirks else "reasoning_content"
                yield choice({name: piece})
    if text:
        for piece in pieces(text, turn.chunks):
            yield choice({"content": piece})
    for index, call in enumerate(turn.calls):
        for delta in _call(index, call, turn):
            yield choice({"tool_calls": [delta]})
    if turn.in_stream:
        yield error(turn, turn.status)
        return
    yield choice({}, turn.stop or ("tool_calls" if turn.calls else "stop"))
    if with_usage and "no_usage" not in turn.quirks:
        said = turn.usage.get("output_tokens", max(1, len(text) // 4))
        cached = turn.usage.get("cache_read_input_tokens", 0)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": said,
            "total_tokens": prompt + said,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        yield frame | {"choices": [], "usage": usage}


def _call(index: int, call: Call, turn: Turn) -> Iterator[dict[str, Any]]:
    where: dict[str, Any] = {} if "no_index" in turn.quirks else {"index": index}
    first: dict[str, Any] = where | {
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    if call.id is not None and "no_ids" not in turn.quirks:
        first["id"] = call.id or f"call_{next(_serial)}"
    if "object_arguments" in turn.quirks:
        yield first | {"function": {"name": call.name, "arguments": json.loads(call.text)}}
        return
    if "no_index" in turn.quirks:  # a whole call in one delta
        yield first | {"function": {"name": call.name, "arguments": call.text}}
        return
    if "names_in_pieces" in turn.quirks:
        first["function"]["name"] = call.name[:2]
        yield first
        yield where | {"function": {"name": call.name[2:]}}
    else:
        yield first
    for piece in pieces(call.text, turn.chunks):
        yield where | {"function": {"arguments": piece}}


def frame(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
