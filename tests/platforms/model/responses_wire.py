"""A stream of a response in the documented order: created, in_progress, per item added, deltas,
done; completed, incomplete or failed.

Source: developers.openai.com, "Streaming API responses" and its reference of events, "Reasoning
models" (encrypted reasoning, a reasoning item and what follows it), "Function calling",
"Error codes"; the types of the official SDK (``openai.types.responses``).
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.platforms.model.anthropic_wire import pieces
from tests.platforms.model.script import Turn

_serial = itertools.count(1)


def sealed(thought: str) -> str:
    """What the server gives away of a thought, and knows again."""
    return "gAAAA" + base64.urlsafe_b64encode(thought.encode()).decode()


def events(turn: Turn, text: str, model: str, prompt: int) -> Iterator[dict[str, Any]]:
    number = itertools.count()

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, **fields, "sequence_number": next(number)}

    response: dict[str, Any] = {
        "id": f"resp_{next(_serial)}",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
    }
    yield event("response.created", response=response)
    yield event("response.in_progress", response=response)
    output: list[dict[str, Any]] = []
    for item, deltas in _items(turn, text):
        at = len(output)
        output.append(item)
        if "only_output" in turn.quirks:
            continue
        begun = item | {"status": "in_progress"}
        if item["type"] == "reasoning":
            begun = item | {"encrypted_content": "gAAAAbegun"}
        yield event("response.output_item.added", output_index=at, item=begun)
        for kind, delta in deltas:
            yield event(kind, item_id=item["id"], output_index=at, content_index=0, delta=delta)
        yield event("response.output_item.done", output_index=at, item=item)
    if turn.in_stream:
        if turn.kind == "failed":
            failure = {"code": "server_error", "message": turn.message or "it failed"}
            failed = response | {"status": "failed", "error": failure, "output": output}
            yield event("response.failed", response=failed)
        else:
            code = turn.kind or "server_error"
            yield event("error", code=code, message=turn.message or code, param=None)
        return
    if turn.no_end:
        return
    said = turn.usage.get("output_tokens", max(1, len(text) // 4))
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": turn.usage.get("cache_read_input_tokens", 0),
            "cache_write_tokens": turn.usage.get("cache_creation_input_tokens", 0),
        },
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": said // 2},
        "total_tokens": prompt + said,
    }
    status = "incomplete" if turn.stop else "completed"
    ended = response | {"status": status, "output": output}
    if turn.stop:
        ended["incomplete_details"] = {"reason": turn.stop}
    if "no_usage" not in turn.quirks:
        ended["usage"] = usage
    yield event(f"response.{status}", response=ended)


_Delta = tuple[str, str]


def _items(turn: Turn, text: str) -> Iterator[tuple[dict[str, Any], list[_Delta]]]:
    if turn.thinking is not None:
        summary = [{"type": "summary_text", "text": "(thought)"}]
        item: dict[str, Any] = {"id": f"rs_{next(_serial)}", "type": "reasoning"}
        item |= {"summary": summary, "encrypted_content": sealed(turn.thinking)}
        yield item, [("response.reasoning_summary_text.delta", "(thought)")]
    if text:
        kind = "refusal" if turn.kind == "refusal" else "output_text"
        part: dict[str, Any] = {"type": "refusal", "refusal": text}
        if kind == "output_text":
            part = {"type": "output_text", "text": text, "annotations": []}
        item = {"id": f"msg_{next(_serial)}", "type": "message", "role": "assistant"}
        item |= {"status": "completed", "content": [part]}
        if "phases" in turn.quirks:
            item["phase"] = "commentary" if turn.calls else "final_answer"
        yield item, [(f"response.{kind}.delta", piece) for piece in pieces(text, turn.chunks)]
    for call in turn.calls:
        item = {"id": f"fc_{next(_serial)}", "type": "function_call", "status": "completed"}
        item |= {"name": call.name, "arguments": call.text}
        item["call_id"] = call.id or f"call_{next(_serial)}"
        kind = "response.function_call_arguments.delta"
        yield item, [(kind, piece) for piece in pieces(call.text, turn.chunks)]


def frame(event: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())


def fault(body: Mapping[str, Any]) -> str | None:
    """The first fault of a request, in the words of the API ("Create a model response", "Reasoning
    models", "Function calling", "Conversation state")."""
    for key in ("model", "input"):
        if not body.get(key):
            return f"Missing required parameter: '{key}'."
    for tool in body.get("tools", ()):
        if tool.get("type") != "function" or not tool.get("name"):
            return "Missing required parameter: 'tools[0].name'."
        if tool.get("strict", True) and tool["parameters"].get("additionalProperties") is not False:
            return (
                f"Invalid schema for function '{tool['name']}': 'additionalProperties' is required"
            )
    return _order(body["input"], stored=body.get("store", True))


_LED = ("message", "function_call", "reasoning")


def _order(items: list[Mapping[str, Any]], *, stored: bool) -> str | None:
    waiting: set[str] = set()
    seen: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        after = items[at + 1] if at + 1 < len(items) else {}
        if waiting and kind == "message" and item["role"] == "user":
            return f"No tool output found for function call {min(waiting)}."
        match kind:
            case "reasoning":
                led = after.get("type", "message") in _LED and after.get("role") != "user"
                if not after or not led:
                    return (
                        f"Item '{item['id']}' of type 'reasoning' was provided without its required"
                        " following item."
                    )
                if not stored and not str(item.get("encrypted_content")).startswith("gAAAA"):
                    return f"Item with id '{item['id']}' not found."
            case "function_call":
                json.loads(item["arguments"])
                if item["call_id"] in seen or len(item["call_id"]) > 64:
                    return f"Duplicate or too long call_id: {item['call_id']}"
                seen.add(item["call_id"])
                waiting.add(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in waiting:
                    return f"No tool call found for function call output with call_id {item['call_id']}."
                waiting.discard(item["call_id"])
            case _:
                if not item["content"]:
                    return f"Invalid value: 'input[{at}].content' is empty."
                if item["role"] == "assistant" and not isinstance(item["content"], str):
                    return f"Invalid value: 'input[{at}].content': expected a string."
                for part in item["content"] if item["role"] == "user" else ():
                    if part["type"] not in ("input_text", "input_image"):
                        return f"Invalid value: '{part['type']}'."
    return f"No tool output found for function call {min(waiting)}." if waiting else None
