"""The browser chat: a platform that lives in this very process."""

from __future__ import annotations

from channels.contract import Manifest
from channels.web.settings import WebSettings

MANIFEST = Manifest(
    name="web",
    title="Browser chat",
    settings=WebSettings,
    adapter="channels.web.adapter:Web",
    extra="",
)
