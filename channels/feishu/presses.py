"""A pressed button waits a moment for the house's words: Feishu takes them only in the answer to
the press itself, within three seconds."""

from __future__ import annotations

import asyncio

from channels.record import Recent

MOST = 1000  # presses that wait at the same time


class Presses:
    """By the token of the press."""

    def __init__(self) -> None:
        self._waiting = Recent[str, asyncio.Future[str]](MOST)

    def expect(self, token: str) -> None:
        self._waiting[token] = asyncio.get_running_loop().create_future()

    def say(self, token: str, words: str) -> bool:
        """False: the answer is gone already, or the press was another life's."""
        waiting = self._waiting.get(token)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(words)
        return True

    async def words(self, token: str, within: float) -> str:
        """Empty when nothing was said in time (seconds)."""
        waiting = self._waiting.get(token)
        if waiting is None:
            return ""
        try:
            done, _ = await asyncio.wait([waiting], timeout=within)
            return waiting.result() if done and not waiting.cancelled() else ""
        finally:
            self._waiting.pop(token, None)
