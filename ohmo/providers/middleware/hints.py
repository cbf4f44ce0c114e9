"""A few words for weak models: which tools there are, and what a call looks like."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import cast

from ohmo.contracts.messages import Json
from ohmo.contracts.provider import Call, Link, ModelEvent, ModelRequest, Section
from ohmo.providers.middleware.link import LinkManifest

_EXAMPLES: Mapping[str, Json] = {
    "string": "text",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


def hints(helped: Callable[[str], bool]) -> Link:
    """``helped``: the models that are told."""

    def told(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        return ask(hinted(request, helped))

    return told


def hinted(request: ModelRequest, helped: Callable[[str], bool]) -> ModelRequest:
    """The request with the words, before the last section of its prompt; the same bytes for as long
    as the tools that are always sent are the same."""
    if not request.core or not helped(request.model):
        return request
    names = [tool.name for tool in request.core]
    example = next((tool for tool in request.core if tool.name == "Read"), request.core[0])
    fields = cast("Mapping[str, Mapping[str, Json]]", example.schema.get("properties") or {})
    needed = cast("list[str]", example.schema.get("required") or [])
    arguments = {
        name: "notes.txt" if name == "file_path" else _EXAMPLES.get(str(field.get("type")), "text")
        for name, field in fields.items()
        if name in needed
    }
    call = json.dumps({"name": example.name, "arguments": arguments})
    text = (
        f"Tools you can call: {', '.join(names)}. There are no others under other names. To act,"
        " call a tool; do not describe the call. Give each argument the name and type that the"
        " tool asks for. If you cannot call a tool in the usual way, let the whole answer be\n"
        f"<tool_call>\n{call}\n</tool_call>\n"
        "Wait for the result before you say what it was. When nothing is left to do, answer in"
        " plain words."
    )
    help_ = Section("help", text, source="weak_model_hints")
    return replace(request, system=(*request.system[:-1], help_, *request.system[-1:]))


LINK = LinkManifest("hints", lambda parts: hints(parts.helped), after=("fallback",))
