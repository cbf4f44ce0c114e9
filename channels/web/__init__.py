"""The browser chat: a platform that lives in this very process."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from channels.contract import Manifest


class WebSettings(BaseModel):
    """``max_file``: the largest file, in bytes, that may go up or down."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    max_file: int = Field(default=64 * 1024 * 1024, ge=0)


MANIFEST = Manifest(
    name="web",
    title="Browser chat",
    settings=WebSettings,
    adapter="channels.web.adapter:Web",
    extra="",
)
