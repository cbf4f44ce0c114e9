"""Whether a channel would connect, and as whom; nothing is read and nothing sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from channels.contract import Channel, Named, Options
from channels.errors import ChannelError
from ohmo.config.channels import Opened
from ohmo.discovery import load
from ohmo.lifecycle import within

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
