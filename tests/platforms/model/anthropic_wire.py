"""A Messages stream in the documented order: message_start, ping, blocks (start, deltas, stop),
message_delta, message_stop.

Source: platform.claude.com, "Streaming messages" (event order, deltas, ping, error events),
"Errors" (shapes, 529), "Stop reasons".
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.platforms.model.script import Turn

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_serial = itertools.count(1)


def error(turn: Turn, status: int) -> dict[str, Any]:
    kind = turn.kind or KINDS.get(status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": turn.message or kind.replace("_", " ")},
        "request_id": f"req_{next(_serial)}",
    }


def pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, count)))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def events(turn: Turn, text: str, model: str, prompt: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and data of every event."""
    usage = {
        "input_tokens": prompt,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    } | dict(turn.usage)
    message = {
        "id": f"msg_{next(_serial)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    yield (
        "message_start",
        {"message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}},
    )
    yield "ping", {}
    index = 0
    if turn.thinking is not None:
        yield (
            "content_block_start",
            {
                "index": index,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""},
            },
        )
        for piece in pieces(turn.thinking, turn.chunks):
            yield (
                "content_block_delta",
                {"index": index, "delta": {"type": "thinking_delta", "thinking": piece}},
            )
        yield (
            "content_block_delta",
            {
                "index": index,
                "delta": {"type": "signature_delta", "signature": f"sig+{next(_serial)}/=="},
            },
        )
        yield "content_block_stop", {"index": index}
        index += 1
    if text:
        yield "content_block_start", {"index": index, "content_block": {"type": "text", "text": ""}}
        for piece in pieces(text, turn.chunks):
            yield (
                "content_block_delta",
                {"index": index, "delta": {"type": "text_delta", "text": piece}},
            )
        yield "content_block_stop", {"index": index}
        index += 1
    for call in turn.calls:
        identity = call.id or f"toolu_{next(_serial):020d}"
        yield (
            "content_block_start",
            {
                "index": index,
                "content_block": {
                    "type": "tool_use",
                    "id": identity,
                    "name": call.name,
                    "input": {},
                },
            },
        )
        yield (
            "content_block_delta",
            {"index": index, "delta": {"type": "input_json_delta", "partial_json": ""}},
        )
        for piece in pieces(call.text, turn.chunks):
            yield (
                "content_block_delta",
                {"index": index, "delta": {"type": "input_json_delta", "partial_json": piece}},
            )
        yield "content_block_stop", {"index": index}
        index += 1
    if turn.in_stream:
        yield "error", error(turn, turn.status)
        return
    stop = turn.stop or ("tool_use" if turn.calls else "end_turn")
    said = turn.usage.get("output_tokens", max(1, len(text) // 4))
    yield (
        "message_delta",
        {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": said}},
    )
    if not turn.no_end:
        yield "message_stop", {}


def frame(name: str, data: Mapping[str, Any]) -> bytes:
    return (
        b"event: "
        + name.encode()
        + b"\ndata: "
        + json.dumps({"type": name, **data}).encode()
        + b"\n\n"
    )
