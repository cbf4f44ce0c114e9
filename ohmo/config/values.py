"""How single values are written: yes and no, durations, sizes, places, rules."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from channels.record import record

Item = TypeVar("Item")
_FLAGS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_PERSON = re.compile(r"[a-z][a-z0-9_]*:\S.*")
LISTEN = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]+):(?P<port>\d{1,5})")
_VARIABLE = re.compile(r"\$\{([^}]*)\}?")
_RULE = re.compile(r"(?P<tool>[A-Za-z_][\w*-]*)(?:\(.+\))?", re.DOTALL)
_NOT_BUILT = ("WebSearch",)  # tools that presets and rules may name already


@cache
def tool_names() -> tuple[str, ...]:
    """What rules may name, beside ``mcp__server__tool``. Each tool has a page for the model in
    ``ohmo/tools/texts``, so that its name is known without importing it."""
    pages = resources.files("ohmo").joinpath("tools", "texts").iterdir()
    names = [page.name.removesuffix(".txt") for page in pages if page.name.endswith(".txt")]
    return tuple(sorted((*names, *_NOT_BUILT)))


def flag(value: object) -> object:
    """``yes no on off`` beside YAML's own true and false."""
    return _FLAGS.get(value.lower(), value) if isinstance(value, str) else value


def duration(value: object) -> timedelta:
    """``30m``, ``1h30m``, ``250ms``, or a number of seconds. Raises ValueError."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e10:
        return timedelta(seconds=value)
    if isinstance(value, str):
        text = value.strip().lower().replace(" ", "")
        parts = _DURATION.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
            if seconds < 1e10:
                return timedelta(seconds=seconds)
    raise ValueError("expected a duration such as 30s, 15m, 24h, 7d, or a number of seconds")


def written_duration(value: timedelta | None) -> str:
    """As a person writes it: ``1h30m``; None is ``forever``."""
    if value is None:
        return "forever"
    left, parts = round(value / timedelta(milliseconds=1)), list[str]()
    for unit in ("d", "h", "m", "s", "ms"):
        number, left = divmod(left, round(_SECONDS[unit] * 1000))
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0s"


def written_size(value: int) -> str | int:
    """As a person writes it: ``2GiB``; what is no whole number of KiB stays a number of bytes."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return value


def size(value: object) -> int:
    """``12KiB``, ``2GiB``, ``50kB``, or a number of bytes. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if (
        isinstance(value, str)
        and (match := _SIZE.fullmatch(value.strip())) is not None
        and match[2].lower() in _BYTES
        and len(match[1]) < 20
    ):
        return int(float(match[1]) * _BYTES[match[2].lower()])
    raise ValueError("expected a size such as 12KiB, 2GiB, or a number of bytes")


@record
class Expansion:
    """What ``${OHMO_HOME}``, ``${WORKSPACE}`` and ``${HOME}`` stand for."""

    names: Mapping[str, str]

    def text(self, text: str) -> str:
        """Raises ValueError for any other name."""

        def replace(match: re.Match[str]) -> str:
            if match[1] in self.names and match[0].endswith("}"):
                return self.names[match[1]]
            known = ", ".join(f"${{{name}}}" for name in self.names)
            raise ValueError(f"{match[0]} means nothing here; known are {known}")

        return _VARIABLE.sub(replace, text)

    def path(self, text: str) -> Path:
        """``~`` and the names above; always absolute. Raises ValueError."""
        full = self.text(text)
        if full == "~" or full.startswith("~/"):
            full = self.names["HOME"] + full[1:]
        path = Path(full)
        if not path.is_absolute():
            raise ValueError(
                f"expected an absolute path, or one that starts with ~ or ${{HOME}}, not {text!r}"
            )
        return path


def _expansion(info: ValidationInfo) -> Expansion | None:
    return info.context if isinstance(info.context, Expansion) else None


def _expand_text(value: object, info: ValidationInfo) -> object:
    known = _expansion(info)
    return known.text(value) if isinstance(value, str) and known is not None else value


def _expand_path(value: object, info: ValidationInfo) -> object:
    known = _expansion(info)
    return known.path(str(value)) if isinstance(value, str | Path) and known is not None else value


def _rule(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        match = _RULE.fullmatch(value.strip())
        if match is None:
            raise ValueError(
                f"{value!r} is not a rule; write Tool or Tool(pattern), for example Bash(git"
                " status:*) or Read(${WORKSPACE}/**)"
            )
        _known_tool(match["tool"])
    return _expand_text(value.strip() if isinstance(value, str) else value, info)


def _known_tool(name: str) -> None:
    """A rule for a tool that does not exist would guard nothing, silently."""
    if "*" in name or name.startswith("mcp__") or name in tool_names():
        return
    lower = {tool.lower(): tool for tool in tool_names()}
    guess = difflib.get_close_matches(name.lower(), lower, n=1)
    instead = f"did you mean {lower[guess[0]]}?" if guess else f"only {', '.join(tool_names())}"
    raise ValueError(f"there is no tool {name!r}, {instead}")


def _many(value: object) -> object:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _name(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _person(value: str) -> str:
    if _PERSON.fullmatch(value) is None:
        raise ValueError("expected CHANNEL:ID, for example slack:U123")
    return value


def _zone(value: str) -> str:
    try:
        return value if value == "local" else ZoneInfo(value).key
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"{value!r} is no time zone; write an IANA name such as Europe/Berlin, UTC, or local"
        ) from error


def _listen(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"127.0.0.1:{value}"
    if not isinstance(value, str):
        return value
    match = LISTEN.fullmatch(value)
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(
            "expected HOST:PORT, for example 127.0.0.1:7717, or null for the unix socket only"
        )
    return value


def _keep(value: object) -> object:
    if value is None or (isinstance(value, str) and value.lower() == "forever"):
        return None
    return duration(value)


def _url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("expected an address that begins with http:// or https://")
    return value


def _store_url(value: str) -> str:
    if value.startswith(
        ("env:", "file:", "keyring:", "postgresql://", "postgres://", "sqlite:////")
    ):
        return value
    raise ValueError("expected sqlite:///${OHMO_HOME}/ohmo.db or postgresql://…")


Flag = Annotated[bool, BeforeValidator(flag)]
Duration = Annotated[
    timedelta,
    BeforeValidator(duration),
    PlainSerializer(written_duration, when_used="json"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["30s", "15m", "24h", 300]}),
]
Size = Annotated[
    int,
    BeforeValidator(size),
    PlainSerializer(written_size, when_used="json"),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["12KiB", "2GiB", 4096]}),
]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
Many = Annotated[tuple[Item, ...], BeforeValidator(_many)]
# Ids of people and chats may be written as numbers.
Name = Annotated[str, BeforeValidator(_name), Field(min_length=1)]
Place = Annotated[Path, BeforeValidator(_expand_path), WithJsonSchema({"type": "string"})]
ExpandedText = Annotated[str, BeforeValidator(_expand_text)]
Rule = Annotated[str, BeforeValidator(_rule)]
Table = Mapping[str, Any]
PersonAddress = Annotated[str, AfterValidator(_person)]
Url = Annotated[str, AfterValidator(_url)]
Keep = Annotated[
    timedelta | None,
    BeforeValidator(_keep),
    PlainSerializer(written_duration, when_used="json"),
    WithJsonSchema({"type": ["string", "number", "null"], "examples": ["30d", "forever"]}),
]
Listen = Annotated[str | None, BeforeValidator(_listen)]
StoreUrl = Annotated[ExpandedText, AfterValidator(_store_url)]
Zone = Annotated[str, AfterValidator(_zone)]
