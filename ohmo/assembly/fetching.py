"""Attachments are fetched when a turn needs them, each once, to the path its step names."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

from channels.contract import Address, Attachment
from channels.errors import ChannelError
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.media import Media
from ohmo.sessions.said import attachments

FetchOne = Callable[[Address, Attachment, Path], Awaitable[Path]]


class Fetching:
    """``fetch`` asks the connected channel; it may name the file as it likes inside the folder it is given."""

    def __init__(self, media: Media, fetch: FetchOne) -> None:
        self._media, self._fetch = media, fetch

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
                await self._bring(arrival.address, attachment, target)
            except (ChannelError, OSError) as error:
                missing.append(f"(The file {attachment.name} could not be fetched: {error})")
        return missing

    async def _bring(self, address: Address, attachment: Attachment, target: Path) -> None:
        """Into a folder of its own, then renamed: a half-fetched file is never taken for a whole one."""
        fresh = self._media.root / f".{uuid4().hex}"
        fresh.mkdir(parents=True, mode=0o700)
        try:
            got = await self._fetch(address, attachment, fresh)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            got.replace(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
