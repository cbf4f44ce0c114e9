"""Matrix: any homeserver, through its client-server API."""

from __future__ import annotations

from channels.contract import Manifest
from channels.matrix.settings import MatrixSettings

MANIFEST = Manifest(
    name="matrix",
    title="Matrix",
    settings=MatrixSettings,
    adapter="channels.matrix.adapter:Matrix",
    extra="matrix",
    secrets=("access_token", "password"),
)
