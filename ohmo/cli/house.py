"""The configuration of this home, checked with every platform's own keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from channels.contract import Manifest
from ohmo.config.load import Config, load
from ohmo.discovery import scan


def manifests() -> Mapping[str, Manifest]:
    """Every channel that is installed, by name."""
    return {name: found for name, found in scan("channels", "MANIFEST").items() if isinstance(found, Manifest)}


def settings(file: Path | None = None, profile: str | None = None) -> Config:
    """Raises ConfigError with one line for each problem."""
    return load(file, environ=os.environ, profile=profile, manifests=manifests())
