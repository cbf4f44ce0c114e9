"""The terminal of ``ohmo run`` as a channel: the smallest complete one, a reference for those who
write another."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from channels.contract import Manifest


class Settings(BaseModel):
    """What stands under ``channels.console`` beside the keys every channel takes: nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


MANIFEST = Manifest(
    name="console",
    title="Terminal",
    settings=Settings,
    adapter="channels.console.adapter:Console",
    extra="",
)
