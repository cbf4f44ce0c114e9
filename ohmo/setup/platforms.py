"""The platforms' own set-up, found beside each channel, and whether a channel would connect, and as
whom. A stranger's channel without set-up gets its keys asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from channels.contract import Channel, Manifest, Named, Options
from channels.errors import ChannelError
from channels.registry import Ask, Setup
from ohmo.config.channels import Opened
from ohmo.contracts.errors import ConfigError
from ohmo.discovery import load
from ohmo.lifecycle import within

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


PATIENCE = 30.0  # seconds


async def connected_as(one: Opened, limit: float = PATIENCE) -> str:
    """The account on the platform, after its ``@name`` where it has one. ``limit``: seconds. Raises
    ChannelError with one line."""
    adapter = cast("Callable[[object, Options], Channel]", load(one.manifest.adapter))
    try:
        return await within(
            limit, _account(adapter(one.settings, Options(streaming=one.policy.streaming)))
        )
    except TimeoutError as error:
        raise ChannelError(
            f"no answer within {limit:.0f} s; check the address and the network"
        ) from error


async def _account(channel: Channel) -> str:
    async with channel.connect():
        handle = channel.handle if isinstance(channel, Named) else ""
        return f"@{handle} ({channel.account})" if handle else channel.account
