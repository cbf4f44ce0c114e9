"""Feishu and Lark through the long connection and the open API; this cover imports no SDK."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from channels.contract import Manifest
from channels.platform_calls import is_loopback

FEISHU, LARK = "https://open.feishu.cn", "https://open.larksuite.com"
_CREDENTIALS = "Developer Console, your app, Credentials & Basic Info"


class Settings(BaseModel):
    """What stands under ``channels.feishu``."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    app_id: str
    app_secret: str = Field(repr=False)
    domain: str = FEISHU

    @field_validator("app_id")
    @classmethod
    def _an_app_id(cls, text: str) -> str:
        text = text.strip()
        if not text.startswith("cli_"):
            raise ValueError(f"is no app id: it starts with cli_, see {_CREDENTIALS}")
        return text

    @field_validator("app_secret")
    @classmethod
    def _a_secret(cls, text: str) -> str:
        text = text.strip()
        if not text or any(character.isspace() for character in text):
            raise ValueError(f"is no app secret: see {_CREDENTIALS}")
        return text

    @field_validator("domain")
    @classmethod
    def _an_origin(cls, url: str) -> str:
        """The SDK wants an origin without a path; plain http would show the secret to everybody on
        the way, so it is for loopback only."""
        parts = urlsplit(url.rstrip("/"))
        safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))
        rest = parts.path or parts.query or parts.fragment
        if not safe or not parts.hostname or rest or "@" in parts.netloc:
            raise ValueError(f"is no such origin: write {FEISHU} (Feishu) or {LARK} (Lark)")
        return f"{parts.scheme}://{parts.netloc}"


MANIFEST = Manifest(
    name="feishu",
    title="Feishu / Lark",
    settings=Settings,
    adapter="channels.feishu.adapter:Feishu",
    extra="feishu",
    secrets=("app_id", "app_secret"),
)
