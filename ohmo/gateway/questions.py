"""Open questions in memory, kept up by the store's hints: pure rooms ask it where a person's plain words belong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from channels.contract import Address
from ohmo.contracts.store import Asked, Hint, Store


class OpenQuestions:
    """Fresh within one read of the store after every commit that concerns approvals."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[Address, Asked] = {}
        self._changed = asyncio.Event()
        self._changed.set()

    def at(self, place: Address) -> Asked | None:
        """The question that waits in a place for an answer."""
        return self._asked.get(place)

    def hear(self, hints: Sequence[Hint]) -> None:
        """For ``Store.listen``."""
        if any(hint.kind in ("approval", "any") for hint in hints):
            self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.refresh()

    async def refresh(self) -> None:
        rows = await self._store.open_questions()
        self._asked = {asked.address: asked for asked in rows if asked.state == "asked"}
