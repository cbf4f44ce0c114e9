"""Attachments are fetched when a turn needs them, each once, to the path its step names."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

from channels.contract import Address, Attachment
from channels.errors import ChannelError, NotReady, RateLimited, Rejected
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.media import Media
from ohmo.sessions.user_steps import attachments

PATIENCE, PAUSE = 30.0, 0.5  # seconds
FetchOne = Callable[[Address, Attachment, Path], Awaitable[Path]]


class AttachmentFetcher:
    """``fetch`` asks the connected channel; it may name the file as it likes inside the folder it
    is given. ``sleep`` waits in seconds."""

    def __init__(
        self,
        media: Media,
        fetch: FetchOne,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._media = media
        self._fetch = fetch
        self._sleep = sleep

    async def __call__(self, arrival: Arrival) -> list[str]:
        """One line for each file that could not be had."""
        if isinstance(arrival, Wake):
            return []
        missing: list[str] = []
        for attachment in attachments(arrival):
            target = self._media.path(arrival.address, attachment)
            if target.exists():
                continue
            try:
                await self._patiently(arrival.address, attachment, target)
            except (Rejected, OSError) as error:
                missing.append(f"(The file {attachment.name} could not be fetched: {error})")
        return missing

    async def _patiently(self, address: Address, attachment: Attachment, target: Path) -> None:
        """At a start the channel is often not connected yet. Raises NotReady after ``PATIENCE``:
        the turn is given back, its file is not lost."""
        waited = 0.0
        while True:
            try:
                return await self._bring(address, attachment, target)
            except Rejected:
                raise
            except ChannelError as error:
                if waited >= PATIENCE:
                    raise NotReady(
                        f"the file {attachment.name} cannot be fetched yet: {error}"
                    ) from error
                pause = error.retry_after if isinstance(error, RateLimited) else PAUSE
            await self._sleep(pause)
            waited += max(pause, PAUSE)

    async def _bring(self, address: Address, attachment: Attachment, target: Path) -> None:
        """Into a folder of its own, then renamed: a half-fetched file is never taken for a whole
        one."""
        fresh = self._media.root / f".{uuid4().hex}"
        fresh.mkdir(parents=True, mode=0o700)
        try:
            got = await self._fetch(address, attachment, fresh)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            got.replace(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
