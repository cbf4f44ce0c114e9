"""What the real endpoints refuse, refused here too. Pure; each rule names the page it comes
from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_ID = re.compile(r"^[a-zA-Z0-9_-]+$")


def anthropic_fault(body: Mapping[str, Any]) -> str | None:
    """The first fault of a Messages request, in the words of the API (platform.claude.com,
    "Messages", "Tool use", "Prompt caching")."""
    return next(_anthropic_faults(body), None)


def _anthropic_faults(body: Mapping[str, Any]) -> Iterator[str]:
    for key in ("model", "max_tokens", "messages"):
        if key not in body:
            yield f"{key}: Field required"
            return
    if not body["messages"]:
        yield "messages: at least one message is required"
        return
    if body["messages"][0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    if body["messages"][-1]["role"] != "user":
        yield (
            "This model does not support assistant message prefill. The conversation must end with"
            " a user message."
        )
    marks = sum(1 for block in _blocks(body) if "cache_control" in block)
    if marks > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    yield from _deferred(body)
    for index, block in enumerate(_blocks(body)):
        if block.get("type") == "text" and not str(block.get("text", "")).strip():
            yield f"messages: text content blocks must be non-empty (block {index})"
    yield from _pairs(body["messages"])


def _deferred(body: Mapping[str, Any]) -> Iterator[str]:
    """ "Tool search tool", "Tool use with prompt caching": at least one tool is not deferred; a
    deferred one has no breakpoint; what is referenced is defined."""
    tools = body.get("tools", ())
    if tools and all(tool.get("defer_loading") for tool in tools):
        yield "At least one tool must have defer_loading=false. All tools cannot be deferred."
    for tool in tools:
        if tool.get("defer_loading") and "cache_control" in tool:
            yield (
                f"Tool '{tool['name']}' cannot have both defer_loading=true and cache_control set."
                " Tools with defer_loading cannot use prompt caching."
            )
    names = {tool["name"] for tool in tools}
    for block in _blocks(body):
        if block.get("type") == "tool_reference" and block["tool_name"] not in names:
            yield f"Tool reference '{block['tool_name']}' not found in available tools"


def _blocks(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from body.get("tools", ())
    yield from (block for block in body.get("system", ()) if isinstance(block, dict))
    for message in body["messages"]:
        if isinstance(message["content"], list):
            for block in message["content"]:
                yield block
                if isinstance(block.get("content"), list):
                    yield from block["content"]


def _pairs(messages: list[Mapping[str, Any]]) -> Iterator[str]:
    """ "Tool use": each tool_use must have a corresponding tool_result in the next message, results
    first; ids are unique."""
    seen: set[str] = set()
    waiting: list[str] = []
    for index, message in enumerate(messages):
        content = message["content"] if isinstance(message["content"], list) else []
        if not content and not message["content"]:
            yield f"messages.{index}: all messages must have non-empty content"
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if waiting and (message["role"] != "user" or sorted(results) != sorted(waiting)):
            yield (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks"
                f" immediately after: {', '.join(waiting)}"
            )
        if not waiting and results:
            yield (
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks:"
                f" {', '.join(results)}"
            )
        if results and any(block["type"] != "tool_result" for block in content[: len(results)]):
            yield f"messages.{index}: tool_result blocks must come first"
        if index and messages[index - 1]["role"] == message["role"]:
            # the API merges them; we want them merged before
            yield f"messages.{index}: roles must alternate"
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        for call in waiting:
            if call in seen:
                yield f"messages.{index}: `tool_use` ids must be unique"
            if not _ID.match(call):
                yield (
                    f"messages.{index}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                )
            seen.add(call)
    if waiting:
        yield "messages: the last `tool_use` has no `tool_result`"


def openai_fault(body: Mapping[str, Any]) -> str | None:
    """The first fault of a chat completions request (developers.openai.com, "Function calling",
    "Chat completions")."""
    if not body.get("messages"):
        return "[] is too short - 'messages'"
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return (
                    "messages with role 'tool' must be a response to a preceeding message with"
                    " 'tool_calls'."
                )
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages"
                f" responding to each 'tool_call_id': {waiting}"
            )
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(waiting)) != len(waiting):
            return "Duplicate value for 'tool_call_id'"
        if message["role"] == "assistant" and not message.get("content") and not waiting:
            return "Invalid value for 'content': expected a string, got null."
    return f"'tool_calls' without tool messages: {waiting}" if waiting else None
