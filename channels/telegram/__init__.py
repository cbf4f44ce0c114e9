"""Telegram through the Bot API and long polling; this cover imports no SDK."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from channels.contract import Manifest

# Telegram Bot API, "Authorizing your bot": 123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11
_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{10,100}")


def _token(token: str) -> str:
    token = token.strip()
    if _TOKEN.fullmatch(token) is None:
        raise ValueError(
            "is no bot token: it looks like 123456:ABC-DEF…, @BotFather gives it with /token"
        )
    return token


def _http(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError("is not a web address; leave it out to speak to Telegram itself")
    return url.rstrip("/")


class Settings(BaseModel):
    """What stands under ``channels.telegram``."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    token: Annotated[str, AfterValidator(_token)] = Field(repr=False)
    api_url: Annotated[str, AfterValidator(_http)] = "https://api.telegram.org"


MANIFEST = Manifest(
    name="telegram",
    title="Telegram",
    settings=Settings,
    adapter="channels.telegram.adapter:Telegram",
    extra="telegram",
    secrets=("token",),
)
