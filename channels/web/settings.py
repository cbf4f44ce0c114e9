"""What stands under ``channels.web`` beside the keys every channel takes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class WebSettings(BaseModel):
    """``max_file``: the largest file, in bytes, that may go up or down."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    max_file: int = Field(default=64 * 1024 * 1024, ge=0)
