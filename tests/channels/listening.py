"""A channel at work for one test: connected, receiving, and taken down when the block ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from channels.contract import Channel
from ohmo_testing.channels import FakeContext

if TYPE_CHECKING:
    from tests.platforms.slack.rig import SlackRig  # imports the SDK


@asynccontextmanager
async def receiving(channel: Channel, context: FakeContext) -> AsyncGenerator[asyncio.Task[None]]:
    """On a connection that stands; the task ends as ``receive`` does."""
    task = asyncio.create_task(channel.receive(context))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def listening(channel: Channel, context: FakeContext) -> AsyncGenerator[asyncio.Task[None]]:
    async with channel.connect(), receiving(channel, context) as task:
        yield task


@asynccontextmanager
async def on_socket(
    slack: SlackRig, channel: Channel, context: FakeContext
) -> AsyncGenerator[asyncio.Task[None]]:
    """Entered when Slack has opened its socket."""
    async with channel.connect():
        before = slack.server.opened
        async with receiving(channel, context) as task:
            await slack.server.until(lambda server: server.opened > before)
            yield task
