"""How single values are written: yes and no, durations, sizes, places, rules; and secrets, by
reference (``env:NAME``, ``file:PATH``, ``keyring:SERVICE/NAME``) or as they are. Nothing here ever
prints one."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, core_schema

from channels.record import record
from ohmo.contracts.errors import ConfigError

Item = TypeVar("Item")
_FLAGS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES = {**_DECIMAL, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_PERSON = r"[a-z][a-z0-9_]*:\S.*"
_URL = r"(?s)https?://.*"
_STORE_URL = r"(?s)(?:env:|file:|keyring:|postgres(?:ql)?://|sqlite:////).*"
LISTEN = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]+):(?P<port>\d{1,5})")
_VARIABLE = re.compile(r"\$\{([^}]*)\}?")


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
    text = ""
    left = round(value / timedelta(milliseconds=1))
    for unit in ("d", "h", "m", "s", "ms"):
        number, left = divmod(left, round(_SECONDS[unit] * 1000))
        if number:
            text += f"{number}{unit}"
    return text or "0s"


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
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        number, unit = match[1], match[2].lower()
        if unit in _BYTES and len(number) < 20:
            return int(float(number) * _BYTES[unit])
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
        if not path.is_absolute() or "\0" in full:
            raise ValueError(
                f"expected an absolute path, or one that starts with ~ or ${{HOME}}, not {text!r}"
            )
        return path


def _expansion(info: ValidationInfo) -> Expansion | None:
    return info.context if isinstance(info.context, Expansion) else None


def expand_text(value: object, info: ValidationInfo) -> object:
    """Raises ValueError for a name that means nothing."""
    expansion = _expansion(info)
    if expansion is None or not isinstance(value, str):
        return value
    return expansion.text(value)


def _expand_path(value: object, info: ValidationInfo) -> object:
    expansion = _expansion(info)
    if expansion is None or not isinstance(value, str | Path):
        return value
    return expansion.path(str(value))


def _name(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _matches(pattern: str, expected: str) -> AfterValidator:
    """``expected``: the error for text that is written otherwise."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(expected)
        return value

    return AfterValidator(check)


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
    if match is None or int(match["port"]) > 65_535 or not _is_name(match["host"]):
        raise ValueError(
            "expected HOST:PORT, for example 127.0.0.1:7717, or null for the unix socket only"
        )
    return value


def _is_name(host: str) -> bool:
    """Whether it can be looked up at all."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _keep(value: object) -> object:
    if value is None or (isinstance(value, str) and value.lower() == "forever"):
        return None
    return duration(value)


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
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
Amount = Annotated[float, Field(ge=0)]
Many = Annotated[tuple[Item, ...], Field(strict=False)]  # YAML knows lists only
# Ids of people and chats may be written as numbers.
Name = Annotated[str, BeforeValidator(_name), Field(min_length=1)]
Place = Annotated[Path, BeforeValidator(_expand_path), WithJsonSchema({"type": "string"})]
ExpandedText = Annotated[str, BeforeValidator(expand_text)]
PersonAddress = Annotated[str, _matches(_PERSON, "expected CHANNEL:ID, for example slack:U123")]
Url = Annotated[str, _matches(_URL, "expected an address that begins with http:// or https://")]
Keep = Annotated[
    timedelta | None,
    BeforeValidator(_keep),
    PlainSerializer(written_duration, when_used="json"),
    WithJsonSchema({"type": ["string", "number", "null"], "examples": ["30d", "forever"]}),
]
Listen = Annotated[str | None, BeforeValidator(_listen)]
StoreUrl = Annotated[
    ExpandedText, _matches(_STORE_URL, "expected sqlite:///${OHMO_HOME}/ohmo.db or postgresql://…")
]
Zone = Annotated[str, AfterValidator(_zone)]
Kind = Literal["env", "file", "keyring", "literal"]
REFERENCES: tuple[Kind, ...] = ("env", "file", "keyring")


class SecretMissing(ConfigError):
    """A secret cannot be found."""


class Secret:
    """Where a secret is kept. Equal when written equally; ``repr`` and ``str`` show a reference,
    never a literal."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def kind(self) -> Kind:
        scheme, colon, rest = self._text.partition(":")
        return scheme if colon and rest and scheme in REFERENCES else "literal"

    @property
    def name(self) -> str:
        """What follows ``env:``, ``file:`` or ``keyring:``; empty for a literal."""
        return "" if self.kind == "literal" else self._text.partition(":")[2]

    def written(self) -> str:
        """As the file has it, with a literal blotted out."""
        return "********" if self.kind == "literal" else self._text

    def literal(self) -> str:
        """The value of a literal. Raises ValueError for a reference."""
        if self.kind != "literal":
            raise ValueError(f"{self._text} is a reference")
        return self._text

    def __repr__(self) -> str:
        return f"Secret({self.written()})"

    __str__ = written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @classmethod
    def _decode(cls, value: object) -> Secret:
        if isinstance(value, Secret):
            return value
        if isinstance(value, str) and value.strip():
            return cls(value.strip())
        raise PydanticCustomError(
            "secret", "expected env:NAME, file:PATH, keyring:SERVICE/NAME or the value in quotes"
        )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._decode, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "description": "env:NAME, file:PATH, keyring:SERVICE/NAME, or the value itself",
        }


class _Keyring(Protocol):
    def get_password(self, service_name: str, username: str) -> str | None: ...


class Vault:
    """Fetches secrets at need, and remembers the values so that logs can blot them out."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._values: set[str] = set()

    @property
    def values(self) -> frozenset[str]:
        """Every value fetched so far: what no log line may show."""
        return frozenset(self._values)

    def reveal(self, secret: Secret) -> str:
        """The value. Raises SecretMissing with one line that says what to do."""
        match secret.kind:
            case "env":
                value = self._environ.get(secret.name, "")
                missing = f"environment variable {secret.name} is not set"
            case "file":
                home = self._environ.get("HOME", "")
                written = secret.name
                if written.startswith("~/") and home:
                    written = home + written[1:]
                path = Path(written.replace("${HOME}", home))
                try:
                    value, missing = path.read_text(encoding="utf-8"), f"file {path} is empty"
                except (OSError, UnicodeDecodeError) as error:
                    why = getattr(error, "strerror", None) or "not text"
                    value, missing = "", f"file {path} cannot be read ({why})"
            case "keyring":
                value, missing = _from_keyring(secret.name)
            case "literal":
                value, missing = secret.literal(), ""
        value = value.strip()
        if not value:
            raise SecretMissing(f"missing secret: {missing}")
        self._values.add(value)
        return value

    def find(self, secret: Secret | None) -> str | None:
        """The value, or None when there is none."""
        if secret is None:
            return None
        try:
            return self.reveal(secret)
        except SecretMissing:
            return None


def _from_keyring(name: str) -> tuple[str, str]:
    service, _, user = name.rpartition("/")
    if not service or not user:
        return "", f"keyring:{name} must read keyring:SERVICE/NAME"
    try:
        ring = cast("_Keyring", importlib.import_module("keyring"))
        failure = cast("type[Exception]", importlib.import_module("keyring.errors").KeyringError)
    except ImportError:
        return "", "the keyring package is not installed (pip install 'ohmo[keyring]')"
    try:
        value = ring.get_password(service, user)
    except failure as error:
        return "", f"the system keyring does not answer ({type(error).__name__})"
    return value or "", f"the keyring has no {user} of {service}"
