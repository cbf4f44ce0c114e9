"""Whether the platform takes our credentials: asked when a connection begins, and when it is lost
without a word."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

from channels.errors import AuthFailed, NotReady, RateLimited, Rejected

PATIENCE = 2.0  # seconds for the question why a connection was lost

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


async def why_lost(asking: Awaitable[object]) -> None:
    """An app that was revoked is cut off without a word: AuthFailed is raised then, because
    NotReady would only repeat the question. Any other failure is left to the next connection."""
    with contextlib.suppress(NotReady, RateLimited, Rejected, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await asking
