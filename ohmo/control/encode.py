"""Dataclasses of the contracts as JSON: every object carries its ``type``, the class name in
snake_case."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, cast

from channels.contract import Outbound
from ohmo.approvals.hints import worded
from ohmo.contracts.messages import Json
from ohmo.contracts.reports import Spent, known_cost

_LONE = re.compile("[\ud800-\udfff]")
_HIDDEN = {
    "code_hash",
    "opaque",
}  # a hash that opens a pairing, and thinking that only its provider can read


def encode(value: object) -> Json:
    """Times are ISO 8601 in UTC, spans are seconds, paths and enums are their text. Raises
    TypeError for anything that is no contract."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case Path():
            return str(value)
        case Enum():
            return encode(value.value)
        case Mapping():
            return {
                str(key): encode(item)
                for key, item in cast("Mapping[object, object]", value).items()
            }
        case list() | tuple() | set() | frozenset():
            return [encode(item) for item in cast("list[object]", value)]
        case Spent():
            return {
                **_fields(value),
                "micro_usd": known_cost([value])[0],
            }  # 0 would say that it was free
        case Outbound():
            return _fields(worded(value, buttons=True))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _fields(cast("object", value))
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form here")


def _fields(value: object) -> dict[str, Json]:
    names = (
        field.name for field in dataclasses.fields(cast("Any", value)) if field.name not in _HIDDEN
    )
    return {
        "type": type_name(type(value)),
        **{name: encode(getattr(value, name)) for name in names},
    }


def dumps(value: object) -> str:
    """One line of JSON, also valid inside one server-sent event. A lone surrogate, which a model
    may say, stays an escape: UTF-8 has none."""
    line = json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"))
    return _LONE.sub(lambda found: f"\\u{ord(found.group()):04x}", line)


@cache
def type_name(of: type[Any]) -> str:
    """``TextDelta`` → ``text_delta``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", of.__name__).lower()
