"""The platforms' own set-up, found beside each channel; a stranger's channel without one gets its
keys asked for."""

from __future__ import annotations

from channels.contract import Manifest
from channels.setup import Ask, Setup
from ohmo.contracts.errors import ConfigError
from ohmo.discovery import load

NAMES = ("slack", "discord", "telegram", "feishu", "matrix")


def setup_of(manifest: Manifest) -> Setup:
    """``channels.NAME.setup:SETUP``, or one made from the manifest."""
    package = manifest.adapter.partition(":")[0].rpartition(".")[0]
    try:
        found = load(f"{package}.setup:SETUP")
    except ConfigError:
        found = None
    if isinstance(found, Setup):
        return found
    asks = tuple(
        Ask(secret, secret, f"the pages of {manifest.title}", secret=True)
        for secret in manifest.secrets
    )
    return Setup((f"make an account for the bot on {manifest.title}",), asks)


def keys(manifest: Manifest) -> tuple[str, ...]:
    """The platform's own keys in config.yaml."""
    return tuple(getattr(manifest.settings, "model_fields", {}))
