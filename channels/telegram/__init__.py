"""Telegram through the Bot API and long polling; this cover imports no SDK."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

from channels.contract import Manifest

# Telegram Bot API, "Authorizing your bot": 123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11
_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{10,100}")


class Settings(BaseModel):
    """What stands under ``channels.telegram``."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    token: str = Field(repr=False)
    api_url: str = "https://api.telegram.org"

    @field_validator("token")
    @classmethod
    def _a_token(cls, token: str) -> str:
        token = token.strip()
        if _TOKEN.fullmatch(token) is None:
            raise ValueError(
                "is no bot token: it looks like 123456:ABC-DEF…, @BotFather gives it with /token"
            )
        return token

    @field_validator("api_url")
    @classmethod
    def _a_web_address(cls, url: str) -> str:
        if not url.startswith(("https://", "http://")):
            raise ValueError("is not a web address; leave it out to speak to Telegram itself")
        return url.rstrip("/")


MANIFEST = Manifest(
    name="telegram",
    title="Telegram",
    settings=Settings,
    adapter="channels.telegram.adapter:Telegram",
    extra="telegram",
    secrets=("token",),
)
