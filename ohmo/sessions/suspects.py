"""A turn that has ended the process before runs alone, so that it cannot take innocent turns with it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Suspects:
    """Ordinary turns share; a suspect waits at most ``patience`` seconds for the running ones and holds new ones back meanwhile."""

    def __init__(self, patience: float = 60.0) -> None:
        self._patience = patience
        self._running = 0
        self._alone = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def among(self, suspect: bool) -> AsyncGenerator[None]:
        """Inside it the turn may run."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._alone = suspect
        try:
            if suspect:
                await self._others_end()
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1
        finally:
            if suspect:
                self._alone = False  # before anything that can be cancelled
            async with self._changed:
                self._changed.notify_all()

    async def _others_end(self) -> None:
        try:
            async with asyncio.timeout(self._patience), self._changed:
                await self._changed.wait_for(lambda: self._running == 0)
        except TimeoutError:
            return
