"""A house for a channel under test: what it publishes is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, timedelta, tzinfo
from pathlib import Path

from channels.contract import Address, Arrival, Cursor, Inbound
from channels.errors import Unavailable
from channels.record import record


@record
class Batch:
    """One successful ``publish``."""

    arrivals: tuple[Arrival, ...]
    cursor: Cursor | None


class FakeContext:
    """A ChannelContext that remembers: batches as they were published, arrivals once per name as
    the store would keep them."""

    def __init__(
        self, state: Path, *, oldest: timedelta = timedelta(hours=24), most: int = 100
    ) -> None:
        self.state = state
        self.catch_up = (oldest, most)
        self.batches: list[Batch] = []
        self.arrivals: list[Arrival] = []
        self.cursors: dict[str, str] = {}
        self.refused = 0  # calls of publish that raised Unavailable
        self.signs_of_life = 0
        self.gaps: list[tuple[str, Address | None]] = []  # what was said to be missing, and where
        self._names: set[str] = set()
        self._unavailable = 0
        self._changed = asyncio.Event()

    def refuse(self, times: int = 1) -> None:
        """The next ``times`` calls of publish store nothing and raise Unavailable."""
        self._unavailable += times

    async def publish(self, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> None:
        self._changed.set()
        if self._unavailable > 0:
            self._unavailable -= 1
            self.refused += 1
            raise Unavailable("nothing was stored, as the test asked")
        self.batches.append(Batch(tuple(arrivals), cursor))
        for arrival in arrivals:
            names = {arrival.key, *arrival.aliases}
            if not names & self._names:
                self.arrivals.append(arrival)
            self._names |= names
        if cursor is not None:
            self.cursors[cursor.name] = cursor.value

    @property
    def zone(self) -> tzinfo:
        return UTC

    async def cursor(self, name: str) -> str | None:
        return self.cursors.get(name)

    def heard(self) -> None:
        self.signs_of_life += 1
        self._changed.set()

    async def missed(self, text: str, address: Address | None = None) -> None:
        self.gaps.append((text, address))
        self._changed.set()

    @property
    def messages(self) -> list[Inbound]:
        return [arrival for arrival in self.arrivals if isinstance(arrival, Inbound)]

    async def until(self, condition: Callable[[FakeContext], bool], within: float = 20.0) -> None:
        """Wait for a condition of this context; TimeoutError after ``within`` seconds."""
        async with asyncio.timeout(within):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def texts(self, count: int, within: float = 20.0) -> list[str]:
        """Texts of the messages so far, as soon as there are at least ``count``."""
        await self.until(lambda context: len(context.messages) >= count, within)
        return [message.text for message in self.messages]
