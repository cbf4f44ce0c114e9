"""Secrets by reference: ``env:NAME``, ``file:PATH``, ``keyring:SERVICE/NAME``, or the literal
value. Nothing here ever prints one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from ohmo.contracts.errors import ConfigError

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
                value, missing = _from_file(secret.name, self._environ)
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


def _from_file(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    home = environ.get("HOME", "")
    path = Path(
        home + name[1:] if name.startswith("~/") and home else name.replace("${HOME}", home)
    )
    try:
        return path.read_text(encoding="utf-8"), f"file {path} is empty"
    except (OSError, UnicodeDecodeError) as error:
        return "", f"file {path} cannot be read ({getattr(error, 'strerror', None) or 'not text'})"


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
