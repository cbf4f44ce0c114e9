"""A costly question that is asked all the time and may be answered with what was true a moment
ago."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
_SHARE = 50  # an answer is as good as new for this many times what it took
_LONGEST = 30.0  # seconds


class CachedAnswer(Generic[Answer]):
    """Asks anew when the last answer is older than fifty times what it took, so that the asking
    takes a fiftieth of a core, and after half a minute in any case. Who comes while it is being
    asked gets that answer. ``monotonic``: seconds."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[Answer]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._coming: asyncio.Future[Answer] | None = None
        self._good_until = 0.0

    async def __call__(self) -> Answer:
        coming = self._coming
        if coming is None or (
            coming.done() and (self._failed(coming) or self._monotonic() >= self._good_until)
        ):
            coming = self._coming = asyncio.ensure_future(self._asked())
        return await asyncio.shield(
            coming
        )  # one that does not wait any longer does not take it from the others

    async def _asked(self) -> Answer:
        began = self._monotonic()
        try:
            return await self._ask()
        finally:
            ended = self._monotonic()
            self._good_until = ended + min(_SHARE * (ended - began), _LONGEST)

    def _failed(self, coming: asyncio.Future[Answer]) -> bool:
        return coming.cancelled() or coming.exception() is not None
