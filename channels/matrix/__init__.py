"""Matrix: any homeserver, through its client-server API."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from channels.contract import Manifest


class MatrixSettings(BaseModel):
    """``access_token`` wins over ``password``; with a password the bot makes one device and keeps
    it, so that repeats stay recognisable."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    homeserver: str = "https://matrix.org"
    user: str = "@ohmo:matrix.org"
    access_token: str | None = Field(default="env:MATRIX_TOKEN", repr=False)
    password: str | None = Field(default=None, repr=False)
    encryption: bool = False

    @model_validator(mode="before")
    @classmethod
    def _password_alone(cls, values: object) -> object:
        """The default token is no token where only a password is given."""
        if (
            isinstance(values, dict)
            and "access_token" not in values
            and cast("dict[str, object]", values).get("password")
        ):
            return {**cast("dict[str, object]", values), "access_token": None}
        return cast("object", values)

    @field_validator("homeserver")
    @classmethod
    def _an_origin(cls, value: str) -> str:
        url = urlsplit(value)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ValueError("must be the homeserver's client address, like https://matrix.org")
        return value.rstrip("/")

    @field_validator("user")
    @classmethod
    def _a_full_id(cls, value: str) -> str:
        name, colon, server = value.partition(":")
        if not (name.startswith("@") and len(name) > 1 and colon and server):
            raise ValueError("must be a full Matrix id, like @ohmo:matrix.org")
        return value


MANIFEST = Manifest(
    name="matrix",
    title="Matrix",
    settings=MatrixSettings,
    adapter="channels.matrix.adapter:Matrix",
    extra="matrix",
    secrets=("access_token", "password"),
)
