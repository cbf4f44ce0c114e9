"""One platform's real adapter under the real switchboard, in this process, whose waits take no
time; several of them may share one platform."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from channels.contract import Address, Options, Outbound
from ohmo.ambient import IdSource
from ohmo.bus import EventStream
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import Accepted, CursorSave
from ohmo.gateway.connections import DEAF, Connections, LinkSettings
from ohmo.gateway.drafts import DraftRows, Drafts
from ohmo.gateway.notices import Notices
from ohmo.gateway.sending import Pace, Rate, Sender
from ohmo.gateway.switchboard import BoardParts, Switchboard
from tests.faults.daemon import until
from tests.faults.scene import RIGS
from tests.faults.storm import doors
from tests.platforms.weather import Weather
from tests.still_time import Time
from tests.store_model.store import MemoryStore


async def settled(somebody: Callable[[], bool]) -> None:
    async def there() -> bool:
        return somebody()

    await until("somebody waits, or it is enough", there)


class House:
    """One platform's link of a switchboard. ``lives``: how often it was begun."""

    def __init__(self, rig: Any, state: Path) -> None:
        self.rig = rig
        self.time = Time(settled)
        self.lives = 0
        self.heard = 0
        self.told: list[Arrival] = []
        self._began = datetime.now(UTC)
        self._new_id = IdSource()
        self._state = state
        self._store = MemoryStore(clock=lambda: datetime.now(UTC))
        self.door = doors({rig.name: rig})[rig.name]
        self.door.weather = Weather(random.Random(1), 0.0)  # counts

    @property
    def calls(self) -> int:
        return self.door.weather.calls

    def _build(self) -> Any:
        self.lives += 1
        return self.rig.channel(options=Options(state=self._state, since=self._began))

    async def _publish(
        self, arrivals: Sequence[Arrival], cursor: CursorSave | None
    ) -> list[Accepted]:
        if cursor is not None:
            await self._store.accept([], cursor)
        self.heard += len(arrivals)
        self.told += arrivals
        return []

    def _board(self) -> Switchboard:
        async def nothing(*_: Any) -> Any:
            return None

        store, clock = self._store, lambda: datetime.now(UTC)
        pace = Pace(chat=Rate(0.0), account=Rate(0.0))
        parts = BoardParts(
            store,
            self._publish,
            Notices(store, (), address_of=lambda *_: None, new_id=self._new_id, clock=clock),
            lambda channel: Sender(
                channel, store, clock=clock, pace=pace, failpoint=lambda _: None
            ),
            lambda channel, link: Drafts(
                channel, link.name, EventStream().listen, DraftRows(nothing, self._new_id, nothing)
            ),
            [],
            clock,
            "me",
            sleep=self.time.sleep,
            now=lambda: self.time.now,
            draw=random.Random(3).random,
            storing=nothing,
            spoke=nothing,
        )
        link = LinkSettings(
            self.rig.name,
            self.rig.name,
            self._build,
            self._state,
            (timedelta(hours=1), 100),
            heavy=False,
        )
        return Switchboard([link], parts, Connections([link.name]))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Switchboard]:
        board = self._board()
        task = asyncio.create_task(board.run())
        try:
            yield board
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def posts(self, text: str, at: Address) -> None:
        """Something to say, as a turn would leave it in the outbox."""
        await self._store.post([PostRow(self._new_id(), "message", Outbound(at, text))])

    async def waiting(self) -> list[str]:
        """What is still to be said on the platform."""
        rows = [
            row
            for row in await self._store.outbox()
            if row.row.outbound.address.channel == self.rig.name
        ]
        return [row.row.outbound.text for row in rows if row.state in ("ready", "sending")]

    async def back(self, board: Switchboard, within: float) -> None:
        """Connected in so many seconds of the house's time, and what is said now is heard."""
        began = self.time.now

        def stands() -> bool:
            return (
                status := board.report()[self.rig.name]
            ).state == "connected" or status.detail == DEAF

        async def greeted() -> bool:
            return board.report()[self.rig.name].state == "connected"

        await self.time.run_to(began + within, stands)
        await until("the platform has said hello", greeted)
        await self.rig.says("are you there?")

        async def heard() -> bool:
            return self.heard > 0

        await until("what was said is heard", heard)


@asynccontextmanager
async def house(on: str, state: Path) -> AsyncGenerator[House]:
    state.mkdir(mode=0o700)
    async with RIGS[on]() as rig:
        yield House(rig, state)
