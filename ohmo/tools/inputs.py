"""What a tool takes: text fields that can be handed to the operating system, the model's view of an
input (flat, short), and the words for input that does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from ohmo.contracts.errors import BadArguments
from ohmo.contracts.messages import Json


def _sound(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds half a character at {error.start}; give valid text") from error
    return text


def _path(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; give a path")
    if len(text.encode()) > 4096:  # PATH_MAX
        raise ValueError("is longer than 4096 bytes")
    return text


SafeText = Annotated[str, Field(min_length=1), AfterValidator(_sound)]
PathText = Annotated[str, Field(min_length=1), AfterValidator(_sound), AfterValidator(_path)]


class PydanticTool:
    """A tool whose arguments are a Pydantic class."""

    input: type[BaseModel]

    @cached_property
    def schema(self) -> Mapping[str, Json]:
        return schema_for_model(self.input)

    def parse(self, arguments: Mapping[str, Json]) -> Any:
        """Raises BadArguments."""
        try:
            return self.input.model_validate(dict(arguments))
        except ValidationError as error:
            raise BadArguments(explain(error)) from None


_DROPPED = ("title", "additionalProperties", "default")
_MOST_PROBLEMS = 5


def schema_for_model(model: type[BaseModel]) -> dict[str, Json]:
    """JSON Schema without ``$ref``, ``anyOf``, titles and defaults. The Pydantic model still
    validates everything."""
    whole = model.model_json_schema(by_alias=True)
    definitions = cast("dict[str, Any]", whole.pop("$defs", {}))
    flat = _flat(whole, definitions)
    flat.pop("description", None)
    return cast("dict[str, Json]", flat)


def _flat(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        target = definitions[str(node["$ref"]).rpartition("/")[2]]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _flat({**target, **beside}, definitions)
    choices = [choice for choice in node.get("anyOf", []) if choice.get("type") != "null"]
    if choices:
        beside = {key: value for key, value in node.items() if key != "anyOf"}
        return _flat({**choices[0], **beside}, definitions)
    flat: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            parts = cast("dict[str, dict[str, Any]]", value)
            flat[key] = {name: _flat(part, definitions) for name, part in parts.items()}
        elif key == "items":
            flat[key] = _flat(cast("dict[str, Any]", value), definitions)
        elif key not in _DROPPED:
            flat[key] = value
    return flat


def explain(error: ValidationError) -> str:
    """One line per problem: the field and what to give."""
    lines: list[str] = []
    for problem in error.errors(include_url=False):
        field = ".".join(map(str, problem["loc"])) or "arguments"
        if problem["type"] == "missing":
            lines.append(f"- `{field}` is missing; give it")
        elif problem["type"] == "extra_forbidden":
            lines.append(f"- `{field}` is no argument of this tool; leave it out")
        else:
            given = repr(cast("object", problem["input"]))
            if len(given) > 60:
                given = f"{given[:57]}..."
            message = problem["msg"]
            message = f"{message[:1].lower()}{message[1:]}"
            lines.append(f"- `{field}`: {message} (given: {given})")
    if len(lines) > _MOST_PROBLEMS:
        lines = [*lines[:_MOST_PROBLEMS], f"... and {len(lines) - _MOST_PROBLEMS} more"]
    return f"{error.title}: the arguments do not fit; nothing was run.\n" + "\n".join(lines)
