"""What is wrong with a configuration, in the owner's words: line, key, what is wrong, what to write
instead. Keys whose part of ohmo is not built yet are read and checked; asking for one is an error,
not a silence."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ohmo.config.agent import UNBUILT
from ohmo.config.models import Written
from ohmo.config.source import Path, Problem, Source
from ohmo.contracts.errors import ConfigError

_QUOTED = re.compile(r"'([^']*)'")
_EXPECTED = {
    "string_type": "text",
    "path_type": "a path, for example ~/ohmo-workspace",
    "is_instance_of": "a path, for example ~/ohmo-workspace",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "yes or no",
    "bool_parsing": "yes or no",
    "tuple_type": "a list, for example [a, b]",
    "list_type": "a list, for example [a, b]",
    "dict_type": "keys and values",
    "mapping_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
}
_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
_PRIVATE = re.compile(r"key|token|secret|password", re.IGNORECASE)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word somebody probably meant."""
    matches = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def unknown_key(word: str, known: Sequence[str]) -> str:
    """The text for a key nobody knows."""
    guess = nearest(word, known)
    if guess:
        return f"unknown key, did you mean {guess}?"
    return f"unknown key; known here: {', '.join(known)}"


def unknown_name(what: str, word: str, known: Sequence[str]) -> str:
    """The text for a value that names something that does not exist."""
    guess = nearest(word, known)
    hint = f"did you mean {guess}?"
    if not guess:
        hint = f"only {', '.join(known) or 'none'}"
    return f"there is no {what} {word!r}, {hint}"


_KEY = ("[key]",)  # behind a key that is wrong itself


def from_pydantic(
    error: ValidationError,
    model: type[Any],
    source: Source,
    above: Path = (),
    extra: Sequence[str] = (),
) -> list[Problem]:
    """``above``: where the model's keys stand in the file. ``extra``: keys that are valid beside
    the model's own."""
    problems: list[Problem] = []
    for detail in error.errors(include_url=False):
        inner = tuple(detail["loc"])
        path = (*above, *inner)
        if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            siblings = keys_at(model, inner[:-1])
            if len(inner) == 1:
                siblings += extra
            text = unknown_key(str(inner[-1]), siblings)
        else:
            text = _text(detail, path)
            path = path[:-1] if path[-1:] == _KEY else path
        problems.append(source.problem(path, text))
    return problems


def raise_all(problems: Sequence[Problem]) -> None:
    """Raises ConfigError with one line for each, in the order of the file."""
    if problems:
        lines = [str(problem) for problem in sorted(problems, key=_by_line)]
        raise ConfigError("\n".join(dict.fromkeys(lines)))


def keys_at(model: type[Any], path: Path) -> list[str]:
    """The keys a model knows at a place inside it."""
    current: Any = model
    for part in path:
        current = _step(current, part)
    inner = _model_in(current)
    if inner is None:
        return []
    return [field.alias or name for name, field in inner.model_fields.items()]


def _by_line(problem: Problem) -> tuple[str, int]:
    name, _, line = problem.place.rpartition(":")
    return (name, int(line)) if line.isdigit() else (problem.place, 0)


def _text(detail: ErrorDetails, path: Path) -> str:
    kind = detail["type"]
    context = detail.get("ctx", {})
    written = _written(detail["input"], path)
    if kind == "missing":
        return "missing; it has no default"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    if kind == "literal_error":
        names: list[str] = _QUOTED.findall(str(context.get("expected", "")))
        known = [name for name in names if name not in UNBUILT]
        guess = nearest(str(detail["input"]), known)
        hint = f"; did you mean {guess}?" if guess else ""
        return f"expected one of {', '.join(known)}{written}{hint}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}{written}"
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind].format(**context)}{written}"
    if kind == "string_pattern_mismatch" and path[-1:] == _KEY:
        return "expected a name of letters, digits, - and _, beginning with a letter or digit"
    if kind == "string_too_short":
        return "must not be empty"
    return detail["msg"][:1].lower() + detail["msg"][1:]


def _written(value: object, path: Path) -> str:
    if path and _PRIVATE.search(str(path[-1])):
        return ""
    if value is None:
        return ", not null"
    if isinstance(value, bool):
        return f", not {str(value).lower()}"
    if isinstance(value, str | int | float):
        text = repr(value)
        if len(text) > 60:
            text = f"{text[:57]}..."
        return f", not {text}"
    if isinstance(value, list | tuple):
        return ", not a list"
    return ", not keys and values" if isinstance(value, Mapping) else ""


def _step(annotation: Any, part: str | int) -> Any:
    model = _model_in(annotation)
    if model is not None and isinstance(part, str):
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
        return None
    for inner in _alternatives(annotation):
        arguments = typing.get_args(inner)
        origin = typing.get_origin(inner)
        if isinstance(origin, type) and arguments:
            return arguments[-1] if issubclass(origin, Mapping) else arguments[0]
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for inner in _alternatives(annotation):
        if (
            isinstance(inner, type)
            and typing.get_origin(inner) is None
            and issubclass(inner, BaseModel)
        ):
            return inner
    return None


def _alternatives(annotation: Any) -> list[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [one for inner in typing.get_args(annotation) for one in _alternatives(inner)]
    return [annotation]


def not_yet(written: Written, source: Source) -> list[Problem]:
    """One problem for each thing that was asked for in vain: it is not there."""
    asked: list[tuple[Path, str]] = []
    for name, profile in written.profiles.items():
        if profile.provider in UNBUILT:
            asked.append((("profiles", name, "provider"), f"{profile.provider} as a provider"))
    if written.remote is not None:
        asked.append((("remote",), "remote storage"))
    problems = [
        source.problem(path, f"{what} comes in a later version; remove this")
        for path, what in asked
    ]
    active = written.profiles.get(written.profile)
    elsewhere = active is not None and active.provider != "openai"
    if written.images.model and written.images.base_url is None and elsewhere:
        # an endpoint of another kind, whose key must not go to one of OpenAI's
        why = "the profile's endpoint makes no pictures; write base_url and api_key beside it"
        problems.append(source.problem(("images", "model"), why))
    return problems
