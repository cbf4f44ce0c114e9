"""Rows 21 and 26: an hour without a platform, and an hour with a refused token; real SDKs, an hour that takes no time, every call at the platform's door counted."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.contract import Arrival, Options
from ohmo.bus.events import EventStream
from ohmo.contracts.store import Accepted, CursorSave
from ohmo.gateway.drafts import DraftRows, Drafts
from ohmo.gateway.link import DEAF, LinkSettings
from ohmo.gateway.notices import Notices
from ohmo.gateway.pace import Pace, Rate
from ohmo.gateway.sending import Sender
from ohmo.gateway.switchboard import BoardParts, Switchboard
from ohmo.store.memory import MemoryStore
from tests.faults.conftest import RIGS
from tests.faults.daemon import until
from tests.faults.storm import doors
from tests.platforms.weather import Weather
from tests.still_time import Time

HOUR = 3600.0
ON = [pytest.param(on, marks=[pytest.mark.needs("synapse")] if on == "matrix" else []) for on in RIGS]


async def settled(somebody: Callable[[], bool]) -> None:
    async def there() -> bool:
        return somebody()

    await until("somebody waits, or it is enough", there)


class House:
    """One platform's link of a switchboard. ``lives``: how often it was begun."""

    def __init__(self, rig: Any, state: Path) -> None:
        self.rig, self.time, self.lives, self.heard = rig, Time(settled), 0, 0
        self._state, self._store = state, MemoryStore(clock=lambda: datetime.now(UTC))
        self.door = doors({rig.name: rig})[rig.name]
        self.door.weather = Weather(random.Random(1), 0.0)  # counts

    @property
    def calls(self) -> int:
        return self.door.weather.calls

    def _build(self) -> Any:
        self.lives += 1
        return self.rig.channel(options=Options(state=self._state))

    async def _publish(self, arrivals: Sequence[Arrival], cursor: CursorSave | None) -> list[Accepted]:
        if cursor is not None:
            await self._store.accept([], cursor)
        self.heard += len(arrivals)
        return []

    def _board(self) -> Switchboard:
        async def no_draft(*_: Any) -> bool:
            return False

        numbers = itertools.count(1)

        def new_id() -> str:
            return f"{next(numbers):022d}"

        store, clock = self._store, lambda: datetime.now(UTC)
        pace = Pace(chat=Rate(0.0), account=Rate(0.0))
        parts = BoardParts(
            store, self._publish, Notices(store, (), address_of=lambda *_: None, new_id=new_id, clock=clock),
            lambda channel: Sender(channel, store, clock=clock, pace=pace, failpoint=lambda _: None),
            lambda channel, link: Drafts(channel, link.name, EventStream().listen, DraftRows(no_draft, new_id)),
            [], clock, "me", sleep=self.time.sleep, now=lambda: self.time.now, draw=random.Random(3).random,
        )  # fmt: skip
        link = LinkSettings(self.rig.name, self.rig.name, self._build, self._state, (timedelta(hours=1), 100), heavy=False)
        return Switchboard([link], parts)

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

    async def back(self, board: Switchboard, within: float) -> None:
        """Connected in so many seconds of the house's time, and what is said now is heard."""
        began = self.time.now

        def stands() -> bool:
            return (status := board.report()[self.rig.name]).state == "connected" or status.detail == DEAF

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


@pytest.mark.fault(21)
@pytest.mark.parametrize("on", ON)
async def test_an_hour_without_the_platform_sees_at_most_a_hundred_calls_and_ends_within_a_minute(tmp_path: Path, on: str) -> None:
    async with house(on, tmp_path / "state") as made:
        weather = made.door.weather = Weather(random.Random(1), 1.0, ("reset",))
        async with made.running() as board:
            await made.time.run_to(HOUR)
            assert 50 <= made.lives <= 100
            assert made.lives <= weather.calls <= 100
            assert board.report()[on].state == "reconnecting"
            made.door.weather = None
            await made.back(board, 61.0)


@pytest.mark.fault(26)
@pytest.mark.parametrize("on", ON)
async def test_an_hour_with_a_refused_token_sees_at_most_thirteen_tries_and_ends_within_five_minutes(tmp_path: Path, on: str) -> None:
    async with house(on, tmp_path / "state") as made:
        made.rig.revoke()
        async with made.running() as board:
            await made.time.run_to(HOUR)
            assert 12 <= made.lives <= 13
            assert made.calls <= 2 * 13, "a try asks once or twice"
            assert board.report()[on].state == "auth_failed"
            made.rig.revoke(False)
            await made.back(board, 301.0)


@pytest.mark.fault(20, on="slack")
async def test_slack_is_not_called_connected_while_its_handshakes_are_refused(tmp_path: Path) -> None:
    async with house("slack", tmp_path / "state") as made:
        made.rig.server.refuse_sockets = True
        async with made.running() as board:

            async def refused() -> bool:
                status = board.report()["slack"]
                assert status.state in ("starting", "reconnecting"), status
                return made.rig.server.refused_handshakes > 0 and status.detail == DEAF

            await until("a handshake was refused while what we say is taken", refused)
            made.rig.server.refuse_sockets = False

            async def fallen() -> bool:
                return board.report()["slack"].detail != DEAF

            await until("that connection is given up", fallen)
            await made.back(board, 61.0)
