"""Dataclasses to ASCII-escaped JSON and back; what cannot be understood is refused with its
place."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from channels.contract import Outbound
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.cron import JobBody
from ohmo.contracts.errors import Damaged
from ohmo.contracts.messages import Step, ToolResult
from ohmo.contracts.outbox import PartState
from ohmo.contracts.tool import BegunUnder, Question
from ohmo.contracts.turns import ThreadSettings
from ohmo.store import written_before

T = TypeVar("T")
Change = Callable[[Any], Any]
TAG = "is"  # names the class where a field may hold several
# Written also with its default: a body without it is one of before (``written_before``).
ALWAYS = {ToolResult: "refused"}


class Unreadable(Damaged):
    """A stored body does not mean anything to this version."""


@cache
def _coder(hint: Any) -> tuple[Change, Change]:
    """How a value of this type becomes JSON, and how it comes back."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        return _coder(hint.__supertype__)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        encode, decode = _coder(args[0])
        return (lambda items: [encode(item) for item in items]), (
            lambda items: tuple(decode(item) for item in _typed(list, items))
        )
    if origin is Mapping:
        return dict[str, Any], lambda value: _typed(dict, value)
    if origin is Literal:
        return (lambda value: value), (lambda value: _one_of(args, value))
    if hint is datetime:
        return datetime.isoformat, datetime.fromisoformat
    if hint is Path:
        return str, lambda value: Path(_typed(str, value))
    if hint is float:
        return (lambda value: value), (lambda value: _typed((int, float), value))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return (lambda value: value.value), hint
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    if hint in (str, int, bool):
        return (lambda value: value), (lambda value: _typed(hint, value))
    raise TypeError(f"the codec has no rule for {hint!r}")


def _typed(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Unreadable(f"{value!r:.60} is no {getattr(kind, '__name__', 'number')}")
    return value


def _one_of(allowed: tuple[Any, ...], value: Any) -> Any:
    if value not in allowed:
        choices = ", ".join(map(str, allowed))
        raise Unreadable(f"{value!r:.60} is none of {choices}")
    return value


def _union(args: tuple[Any, ...]) -> tuple[Change, Change]:
    members = tuple(member for member in args if member is not type(None))
    if len(members) == 1:
        encode, decode = _coder(members[0])
    else:
        encode, decode = _tagged(members)
    if len(members) == len(args):
        return encode, decode
    return (lambda value: None if value is None else encode(value)), (
        lambda value: None if value is None else decode(value)
    )


def _tagged(members: tuple[type, ...]) -> tuple[Change, Change]:
    named = {member.__name__: _coder(member)[1] for member in members}
    encoders = {member: _coder(member)[0] for member in members}

    def encode(value: Any) -> Any:
        return {TAG: type(value).__name__, **encoders[type(value)](value)}

    def decode(value: Any) -> Any:
        body = dict(_typed(dict, value))
        name = body.pop(TAG, None)
        if name not in named:
            raise Unreadable(f"{name!r:.60} is none of {', '.join(named)}")
        return named[name](body)

    return encode, decode


def _record(owner: type) -> tuple[Change, Change]:
    hints = get_type_hints(owner)
    # A field that has its default is not written: rows stay small, and an older row reads as the
    # default of a newer field.
    plan: list[tuple[str, Change, Any]] = []
    decoders: dict[str, Change] = {}
    required: set[str] = set()
    for field in fields(owner):
        name = field.name
        change, decoders[name] = _coder(hints[name])
        plan.append((name, change, MISSING if ALWAYS.get(owner) == name else field.default))
        if field.default is MISSING and field.default_factory is MISSING:
            required.add(name)

    def encode(value: Any) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for name, change, default in plan:
            item = getattr(value, name)
            if item is not default and (default is MISSING or item != default):
                body[name] = change(item)
        return body

    def decode(value: Any) -> Any:
        body: dict[str, Any] = _typed(dict, value)
        if unknown := body.keys() - decoders.keys():
            names = ", ".join(sorted(map(str, unknown)))
            raise Unreadable(f"{owner.__name__} has no field {names}: written by a newer ohmo?")
        if missing := required - body.keys():
            raise Unreadable(f"{owner.__name__} lacks {', '.join(sorted(missing))}")
        try:
            return owner(**{name: decoders[name](item) for name, item in body.items()})
        except (ValueError, TypeError) as error:
            raise Unreadable(f"{owner.__name__}: {error}") from error

    return encode, decode


_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


class Codec:
    """One kind of stored body. ``upgrade`` makes what an older ohmo wrote of it a body of today."""

    def __init__(self, kind: Any, upgrade: Change = lambda body: body) -> None:
        self._encode, self._decode = _coder(kind)
        self._upgrade = upgrade

    def encode(self, value: Any) -> str:
        return _JSON.encode(self._encode(value))

    def decode(self, text: str) -> Any:
        try:
            body = json.loads(text)
            return self._decode(self._upgrade(body) if isinstance(body, dict) else body)
        except json.JSONDecodeError as error:
            raise Unreadable(f"no JSON: {error.msg} at {error.pos}") from error


_ARRIVAL = Codec(Arrival)
_STEP = Codec(Step, written_before.step)
_OUTBOUND = Codec(Outbound, written_before.outbound)
_JOB = Codec(JobBody)
_UNDER = Codec(BegunUnder)
_PARTS = Codec(tuple[PartState, ...])
_QUESTION = Codec(Question)
_SETTINGS = Codec(ThreadSettings)


def write_arrival(value: Arrival) -> str:
    return _ARRIVAL.encode(value)


def read_arrival(text: str) -> Arrival:
    return _ARRIVAL.decode(text)


def write_step(value: Step) -> str:
    return _STEP.encode(value)


def read_step(text: str) -> Step:
    return _STEP.decode(text)


def write_outbound(value: Outbound) -> str:
    return _OUTBOUND.encode(value)


def read_outbound(text: str) -> Outbound:
    return _OUTBOUND.decode(text)


def write_parts(value: Sequence[PartState]) -> str | None:
    return _PARTS.encode(value) if value else None


def read_parts(text: str | None) -> tuple[PartState, ...]:
    return () if text is None else _PARTS.decode(text)


def write_question(value: Question) -> str:
    return _QUESTION.encode(value)


def read_question(text: str) -> Question:
    return _QUESTION.decode(text)


def write_settings(value: ThreadSettings) -> str:
    return _SETTINGS.encode(value)


def read_settings(text: str) -> ThreadSettings:
    return _SETTINGS.decode(text) if text != "{}" else ThreadSettings()


def write_job(value: JobBody) -> str:
    return _JOB.encode(value)


def read_job(text: str) -> JobBody:
    return _JOB.decode(text)


def write_under(value: BegunUnder) -> str:
    return _UNDER.encode(value)


def read_under(text: str) -> BegunUnder:
    return _UNDER.decode(text)


_ESCAPED = "\x1b"  # first character of a column whose text no engine would take as it is


def column(text: str) -> str:
    """Text for a plain column: unchanged unless it holds NUL, a lone surrogate, or begins like an
    escaped one."""
    plain = "\0" not in text and not text.startswith(_ESCAPED)
    if plain and not text.isascii():
        plain = not any("\ud800" <= char <= "\udfff" for char in text)
    return text if plain else _ESCAPED + json.dumps(text)


def from_column(text: str) -> str:
    return json.loads(text[1:]) if text.startswith(_ESCAPED) else text
