"""The first question of a connection: whether the platform takes our credentials, within a time of
our own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from channels.errors import AuthFailed, NotReady, Rejected

Who = TypeVar("Who")


async def checked(title: str, seconds: float, asking: Awaitable[Who], advice: str = "") -> Who:
    """What the platform says of us. ``advice``: what to do about a refusal, which asking again does
    not change. Raises AuthFailed, NotReady."""
    try:
        async with asyncio.timeout(seconds):
            return await asking
    except TimeoutError:
        raise NotReady(f"{title} did not answer within {seconds:g} s") from None
    except Rejected as refused:
        raise AuthFailed(f"{refused}{advice}") from refused
