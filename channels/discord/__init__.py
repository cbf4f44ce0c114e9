"""Discord through its gateway and REST API; this cover imports no SDK."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from channels.contract import Manifest


def _token(token: str) -> str:
    token = token.strip().removeprefix("Bot ").strip()
    if not token or any(character.isspace() for character in token) or not token.isascii():
        raise ValueError(
            "is no bot token: copy it from discord.com/developers/applications, your app, Bot,"
            " Reset Token"
        )
    return token


def _http(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError("is not a web address; leave it out to speak to Discord itself")
    return url.rstrip("/")


class Settings(BaseModel):
    """What stands under ``channels.discord``."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    token: Annotated[str, AfterValidator(_token)] = Field(repr=False)
    api_url: Annotated[str, AfterValidator(_http)] = "https://discord.com/api/v10"


MANIFEST = Manifest(
    name="discord",
    title="Discord",
    settings=Settings,
    adapter="channels.discord.adapter:Discord",
    extra="discord",
    secrets=("token",),
)
