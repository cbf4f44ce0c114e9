"""A tool of an MCP server, as the house uses it. Its schema is a stranger's: the whole one
validates, in linear time; a flat one is shown."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import jsonschema_rs

from ohmo.contracts.errors import BadArguments
from ohmo.contracts.messages import Json, ToolResult
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.mcp.contract import Answer, Ask, Definition, ServerFailed

Finish = Callable[[CallContext, str, Answer], Awaitable[ToolOutput]]
"""Limits an answer of a server (by its name) and keeps the whole. Raises OSError."""
_LONGEST = 64  # characters of a tool's name: the OpenAI API's bound
_DESCRIPTION = 2_000  # characters
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
MOST_BYTES = 64 * 1024
MOST_NODES = 5_000  # with every reference written out
_MOST_DEEP = 40
_MOST_PROBLEMS = 5
_DROPPED = frozenset({"title", "additionalProperties", "default", "examples", "$comment"})
_ELSEWHERE = ("$dynamicRef", "$recursiveRef")
_PLACE = re.compile(r"0|[1-9][0-9]{0,5}")  # in a list: RFC 6901, 4
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})


def tool_name(server: str, tool: str) -> str:
    """``mcp__SERVER__TOOL`` in what every endpoint takes."""
    name = f"mcp__{server}__{_UNFIT.sub('_', tool)}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"


class McpTool:
    """``ask`` brings a call to the server's task."""

    def __init__(self, server: str, definition: Definition, ask: Ask, finish: Finish) -> None:
        """Raises BadSchema."""
        self.name = tool_name(server, definition.name)
        self.description = definition.description[:_DESCRIPTION] or definition.name
        self.definition = definition
        self._schema = Schema(definition.schema)
        self._server = server
        self._ask = ask
        self._finish = finish

    @property
    def schema(self) -> Mapping[str, Json]:
        return self._schema.shown

    def parse(self, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        """Raises BadArguments."""
        self._schema.check(self.name, arguments)
        return arguments

    def footprint(self, arguments: Mapping[str, Json], cwd: Path) -> Footprint:  # noqa: ARG002
        """Whatever the server says of it, nobody knows what it does."""
        claim = "; it says that it only reads" if self.definition.reads_only else ""
        note = f"{self.definition.name[:80]} of the MCP server {self._server}{claim}"
        return Footprint(effect="once", note=note, touches=None)

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> ToolOutput:
        taint = (f"mcp:{self._server}",)
        try:
            answer = await self._ask(self.definition, arguments)
            return await self._finish(context, self._server, answer)
        except ServerFailed as error:
            text = f"MCP server {self._server}: {error}"
        except TimeoutError:
            text = f"MCP server {self._server} did not answer in time; what the call did is unknown"
        except OSError as error:
            text = f"the answer of {self._server} could not be kept: {error.strerror or error}"
        return ToolOutput(ToolResult(context.call, text, error=True, taint=taint))


class BadSchema(Exception):
    """Why the tool is off, in one line."""


class Schema:
    """``shown``: flat, without ``$ref``. Raises BadSchema."""

    def __init__(self, whole: Mapping[str, Json]) -> None:
        try:
            size = len(json.dumps(whole))
        except (ValueError, RecursionError):
            raise BadSchema("its schema is nested too deeply") from None
        if size > MOST_BYTES:
            raise BadSchema(f"its schema has {size} bytes, more than {MOST_BYTES}")
        self._left = MOST_NODES
        self._root = {key: value for key, value in whole.items() if key not in ("$id", "id")}
        expanded = self._expanded(self._root, ())
        shown = cast("dict[str, Json]", _flat(expanded))
        for key in ("$schema", "$defs", "definitions", "description"):
            shown.pop(key, None)
        if shown.setdefault("type", "object") != "object":
            raise BadSchema("its schema is about something else than an object")
        shown.setdefault("properties", {})
        self.shown: Mapping[str, Json] = shown
        # written out, so that nothing is left that could lead out of it, not even by the network
        known = {key: each for key, each in expanded.items() if key not in ("$defs", "definitions")}
        try:
            self._validator = jsonschema_rs.validator_for(
                known, pattern_options=jsonschema_rs.RegexOptions(), retriever=_nowhere
            )
        except (ValueError, jsonschema_rs.ValidationError) as error:
            why = str(error).partition("\n")[0][:200]
            raise BadSchema(f"its schema cannot be used: {why}") from None

    def check(self, name: str, arguments: Mapping[str, Json]) -> None:
        """Raises BadArguments."""
        lines: list[str] = []
        for error in self._validator.iter_errors(dict(arguments)):
            field = ".".join(map(str, error.instance_path)) or "arguments"
            if len(lines) == _MOST_PROBLEMS:
                lines.append("... and more")
                break
            lines.append(f"- `{field}`: {error.message[:300]}")
        if lines:
            first = f"{name}: the arguments do not fit; nothing was run.\n"
            raise BadArguments(first + "\n".join(lines))

    def _expanded(self, node: Any, within: tuple[str, ...], depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MOST_DEEP:
            raise BadSchema(f"its schema is larger than {MOST_NODES} parts, or too deep")
        if isinstance(node, list):
            items = cast("list[Any]", node)
            return [self._expanded(item, within, depth + 1) for item in items]
        if not isinstance(node, dict):
            return node
        table = cast("dict[str, Any]", node)
        if any(isinstance(table.get(key), str) for key in _ELSEWHERE):
            raise BadSchema("its schema has a dynamic reference")
        reference = table.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                raise BadSchema(f"its schema refers to itself ({reference[:80]})")
            beside = {key: each for key, each in table.items() if key != "$ref"}
            target = self._expanded(self._target(reference), (*within, reference), depth + 1)
            if not isinstance(target, dict):
                return target
            return {**cast("dict[str, Any]", target), **self._expanded(beside, within, depth + 1)}
        found: dict[str, Any] = {}
        for key, value in table.items():
            if depth == 0 and key in ("$defs", "definitions"):
                continue  # only what is referred to counts
            if key in _NAMED and isinstance(value, dict):
                named = cast("dict[str, Any]", value)
                found[key] = {
                    name: self._expanded(each, within, depth + 1) for name, each in named.items()
                }
            elif key in ("enum", "const", "default", "examples"):
                found[key] = value
            else:
                found[key] = self._expanded(value, within, depth + 1)
        return found

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise BadSchema(f"its schema refers to another document ({reference[:80]})")
        node: Any = self._root
        for part in filter(None, unquote(reference[1:]).split("/")):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list):  # as generators write it that name nothing
                items = cast("list[Any]", node)
                counts = _PLACE.fullmatch(name) is not None and int(name) < len(items)
                node = items[int(name)] if counts else None
            else:
                node = cast("dict[str, Any]", node).get(name) if isinstance(node, dict) else None
        if not isinstance(node, dict | bool):
            raise BadSchema(f"its schema refers to what it does not have ({reference[:80]})")
        return cast("Any", node)


def _nowhere(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def _flat(node: Any) -> Any:
    if isinstance(node, list):
        return [_flat(item) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    table = cast("dict[str, Any]", node)
    for key in ("anyOf", "oneOf", "allOf"):
        parts = table.get(key)
        if not isinstance(parts, list):
            continue
        tables = [
            cast("dict[str, Any]", part)
            for part in cast("list[Any]", parts)
            if isinstance(part, dict) and cast("dict[str, Any]", part).get("type") != "null"
        ]
        beside = {name: each for name, each in table.items() if name != key}
        if len(tables) == 1 or (tables and key == "allOf"):
            merged: dict[str, Any] = {}
            for part in tables:
                merged |= part
            return _flat({**merged, **beside})
    kept: dict[str, Any] = {}
    for name, value in table.items():
        if name in _NAMED and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            kept[name] = {each: _flat(part) for each, part in named.items()}
        elif name not in _DROPPED:
            kept[name] = _flat(value)
    return kept
