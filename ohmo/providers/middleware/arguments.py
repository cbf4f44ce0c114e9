"""Arguments of a call: JSON that is nearly right, and whether it fits what the tool takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

from channels.record import record
from ohmo.contracts.messages import UNREADABLE, Json
from ohmo.providers.wire_parts import arguments as read_exactly

_BETWEEN = re.compile(r"[\"']?(?:[\s{}\[\]():,;=]|//[^\n]*\n)*[\"']?")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def nearly_json(text: str, *, open_end: bool) -> Json:
    """What ``text`` says where nothing had to be guessed: quotes, commas, words such as True, and
    with ``open_end`` closing brackets. Raises ValueError where something was left out, added or cut
    off."""
    exact = read_exactly(text)
    if set(exact) != {UNREADABLE}:
        return cast("Json", exact)
    if not _ends_whole(text, open_end=open_end):
        raise ValueError("it is cut off")
    import json_repair

    try:
        value = cast("Json", json_repair.loads(text, skip_json_loads=True))
    except (ValueError, RecursionError, IndexError, TypeError) as error:
        raise ValueError("it is no JSON") from error
    if not isinstance(value, dict | list) or not value or not _says_the_same(value, text):
        raise ValueError("it is no JSON")
    return value


def _ends_whole(text: str, *, open_end: bool) -> bool:
    """``open_end``: closing brackets may be missing."""
    quote = ""
    escaped = False
    depth = 0
    for letter in text:
        if quote:
            if letter == quote and not escaped:
                quote = ""
            escaped = letter == "\\" and not escaped
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "{[") - (letter in "}]")
    cut = text.rstrip()[-1:] in (",", ":", "{", "[", "")
    return not quote and not cut and (open_end or depth == 0)


def _says_the_same(value: Json, text: str) -> bool:
    """Whether every key and value stands in the text as it is, in order, with nothing but JSON's
    own marks between: nothing was lost, nothing invented."""
    at = 0
    for ways in _as_written(value):
        between = _BETWEEN.match(text, at)
        at = between.end() if between is not None else at
        mark = text[at - 1 : at] if text[at - 1 : at] in ("'", '"') else ""
        raw = ways[-1]
        # Where a word ends that holds the mark around it would be a guess.
        clear = mark not in raw if mark else re.fullmatch(r"[\w.+-]*", raw) is not None
        found = [way for way in (ways if clear else ways[:-1]) if text.startswith(way + mark, at)]
        if not found:
            return False
        at += len(found[0])
        if not mark and re.match(r"[\w.+-]", text[at : at + 1]):
            return False
    rest = _BETWEEN.match(text, at)
    return rest is not None and rest.end() == len(text)


def _as_written(value: Json) -> Iterator[tuple[str, ...]]:
    """Each key and scalar as JSON writes it, then the other ways."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield json.dumps(key, ensure_ascii=False)[1:-1], key
            yield from _as_written(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _as_written(inner)
    elif isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]
        yield (*quoted, value)
    elif value is None or isinstance(value, bool):
        yield json.dumps(value), str(value)
    else:
        yield json.dumps(value), str(value)


@record
class Fit:
    """``wrong``: what does not fit, in one line; empty: all does."""

    arguments: Mapping[str, Json]
    wrong: str = ""


def fitted(given: Mapping[str, Json], schema: Mapping[str, Json]) -> Fit:
    """Names in another spelling and values that were made text are put right; nothing is
    invented."""
    fields = cast("dict[str, dict[str, Json]]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    closed = schema.get("additionalProperties") is False
    plain: dict[str, list[str]] = {}
    for name in fields:
        plain.setdefault(plain_name(name), []).append(name)
    arguments: dict[str, Json] = {}
    wrong: list[str] = []
    for key, value in given.items():
        meant = [key] if key in fields else plain.get(plain_name(key), [])
        if len(meant) != 1 or (key not in fields and meant[0] in given):
            if closed:
                takes = ", ".join(fields) or "nothing"
                wrong.append(f"it has no argument {key[:60]!r} (it takes {takes})")
            arguments[key] = value
            continue
        arguments[meant[0]] = as_typed(value, fields[meant[0]])
        if not fits(arguments[meant[0]], fields[meant[0]]):
            wrong.append(f"{meant[0]} must be {in_words(fields[meant[0]])}")
    missing = [name for name in required if name not in arguments]
    if missing:
        wrong.append(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return Fit(arguments, "; ".join(wrong))


def plain_name(name: str) -> str:
    """``file_path``, ``filePath`` and ``file-path`` are one name."""
    return re.sub(r"[\s_\-]", "", name).lower()


def as_typed(value: Json, schema: Mapping[str, Json]) -> Json:
    """Text that is what is asked for, written as text: ``"20"``, ``"true"``, ``"[1, 2]"``."""
    if not isinstance(value, str) or fits(value, schema):
        return value
    try:
        meant = cast("Json", json.loads(value.strip().lower() if len(value) < 6 else value))
    except (ValueError, RecursionError):
        return value
    return meant if fits(meant, schema) else value


def fits(value: Json, schema: Mapping[str, Json]) -> bool:
    """By type, choice and what is inside; other keywords are left to the tool."""
    ways = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(ways, list):
        return any(isinstance(way, dict) and fits(value, way) for way in ways)
    kinds = schema.get("type")
    named = [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]
    types = tuple(kind for name in named for kind in _TYPES.get(name, (object,)))
    if isinstance(value, bool) and "boolean" not in named and object not in types:
        return False
    whole = isinstance(value, float) and value.is_integer() and "integer" in named
    if not isinstance(value, types) and not whole:
        return False
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        return False
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return all(fits(each, items) for each in value)
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        return not fitted(value, schema).wrong
    return True


def in_words(schema: Mapping[str, Json]) -> str:
    choices = schema.get("enum")
    if isinstance(choices, list):
        return f"one of {', '.join(map(str, choices))}"
    kind = schema.get("type")
    return f"of type {kind}" if isinstance(kind, str) else "of the type it asks for"
