"""The two ways a newcomer asks for a tool: ``run Read file_path=README.md offset=10`` and ``Bash:
ls -l``. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import cast

from ohmo.contracts.messages import Json
from ohmo.contracts.provider import ToolSpec

_RUN = re.compile(r"\s*(?:please\s+)?run\s+(?P<name>\w+)\b(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
# Said to a model behind the words of a job.
_JOB = re.compile(
    r"\n\n\((?:This is the scheduled run of the job|This came by the webhook) .*\)\s*\Z", re.DOTALL
)
_ARGUMENTS = re.compile(r"\s*(?:\{|\w+=|\Z)")
_COLON = re.compile(r"\s*(?P<name>\w+):\s*(?P<rest>.*)", re.DOTALL)


def asked_for(text: str, tools: Sequence[ToolSpec]) -> tuple[str, dict[str, Json]] | str | None:
    """Name and arguments; a line that says what is wrong; or None when no tool was asked for."""
    text = _JOB.sub("", text)
    match = _RUN.fullmatch(text) or _COLON.fullmatch(text)
    if match is None:
        return None
    tool = next((tool for tool in tools if tool.name.lower() == match["name"].lower()), None)
    if tool is None:
        if _RUN.fullmatch(text) is None or not (
            match["name"][0].isupper() or _ARGUMENTS.match(match["rest"])
        ):
            return None  # "Note: buy milk" is no tool call, nor is "run the tests"
        return (
            f"There is no tool {match['name']}. There are:"
            f" {', '.join(tool.name for tool in tools) or 'none'}."
        )
    rest = match["rest"].strip()
    if rest.startswith("{"):
        return _from_json(tool.name, rest)
    pairs = _pairs(rest, _properties(tool))
    if isinstance(pairs, str):
        return pairs
    if pairs is None:
        first = _first(tool)
        return (
            (tool.name, {first: _typed(rest, _properties(tool).get(first))})
            if rest and first
            else (tool.name, {})
        )
    return tool.name, pairs


def _from_json(name: str, text: str) -> tuple[str, dict[str, Json]] | str:
    try:
        value: object = json.loads(text)
    except ValueError as error:
        return f"{name}: the arguments are not valid JSON ({error})."
    return (
        (name, cast("dict[str, Json]", value))
        if isinstance(value, dict)
        else f"{name}: the arguments must be a JSON object."
    )


def _pairs(rest: str, properties: Mapping[str, object]) -> dict[str, Json] | str | None:
    """``a=1 b="two words"``. None when the text is no list of pairs: then it is the tool's first
    argument as a whole."""
    start = re.match(r"(\w+)=", rest)
    if start is None or (properties and start[1] not in properties):
        return None
    try:
        words = shlex.split(rest)
    except ValueError as error:
        return f"{error}: close the quotes, or write the arguments as JSON."
    found: dict[str, Json] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            return f"{word!r} is no key=value; put values with spaces in quotes."
        found[key] = _typed(value, properties.get(key))
    return found


def _typed(value: str, schema: object) -> Json:
    """Numbers, booleans and lists where the schema asks for them; what does not fit stays text and
    the tool says so."""
    kind = cast("Mapping[str, object]", schema).get("type") if isinstance(schema, dict) else None
    if kind in ("integer", "number", "boolean", "array", "object"):
        try:
            return cast("Json", json.loads(value))
        except ValueError:
            return value
    return value


def _properties(tool: ToolSpec) -> Mapping[str, object]:
    found = tool.schema.get("properties")
    return found if isinstance(found, dict) else {}


def _first(tool: ToolSpec) -> str | None:
    required = tool.schema.get("required")
    if isinstance(required, list) and required:
        return str(required[0])
    return next(iter(_properties(tool)), None)
