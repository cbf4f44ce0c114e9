"""What the owner has to hear of jobs is told, also when the store does not take it at first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from channels.contract import Address, ChatId
from channels.errors import Unavailable
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.store import Accepted, Seat
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.cron.incidents import Incidents
from ohmo.cron.scheduler import AGAIN, Scheduler, SchedulerParts
from ohmo.ids import IdSource
from ohmo.store.memory import MemoryStore
from ohmo.testing import ManualClock, eventually

DAILY = {"name": "brief", "schedule": "0 10 * * *", "tz": "UTC", "prompt": "what is new?"}


class Scene:
    """A scheduler over a store; ``refused``: how many notices find no room at first."""

    def __init__(self, refused: int) -> None:
        self.clock, self.new_id, self.refused = ManualClock(), IdSource(), refused
        self.store = MemoryStore(clock=self.clock)
        self.told: list[str] = []
        self.recorded_before: list[int] = []
        self.desk = CronDesk(
            DeskParts(
                self.store, self.publish, lambda text: Address("fake", "bot", ChatId(text)), lambda _: None, (Path("/nowhere"),), "UTC",
                self.new_id, self.clock, self.nothing,
            )
        )  # fmt: skip

    async def publish(self, wake: Wake) -> Accepted:
        return (await self.store.accept([(wake, Seat("", "wake"))]))[0]

    async def nothing(self, _: object = None) -> None:
        return

    async def tell(self, once: str, text: str) -> None:
        self.recorded_before.append(len(await self.desk.history("brief")))
        if self.refused:
            self.refused -= 1
            raise Unavailable("disk full")
        if once not in self.told:
            self.told += [once, text]

    @asynccontextmanager
    async def scheduler(self) -> AsyncGenerator[None]:
        parts = SchedulerParts(
            self.store, self.desk, self.publish, Incidents(self.store, self.tell, self.store.retry_arrival), self.store.listen, self.clock.alarm,
            self.clock, lambda _: None, self.nothing, steady=self.clock.steady,
        )  # fmt: skip
        running = asyncio.create_task(Scheduler(parts).run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def fails(self) -> None:
        """The run that waits ends so."""

        def step(arrival: Arrival) -> UserStep:
            del arrival
            return UserStep((Text("x"),), "owner", "wake")

        async def begun() -> bool:
            for claim, work in await self.store.begin("hand", [self.new_id()], ttl=60, collect=lambda _: False, step=step):
                assert work is not None
                report = Report("no credit", failed=True)
                await self.store.finish(claim, work.turn, (), (), state="failed", reason="no credit", report=report)
                return True
            return False

        await eventually(begun)


async def test_missed_runs_are_recorded_only_when_the_owner_was_told() -> None:
    scene = Scene(refused=2)
    await scene.desk.create(DAILY)
    scene.clock.tick(3 * 86_400)
    async with scene.scheduler():
        await eventually(lambda: len(scene.told) == 2, within=20 + 2 * AGAIN)

        async def recorded() -> bool:
            return [one.state for one in await scene.desk.history("brief")] == ["missed"] * 3

        await eventually(recorded)
    assert scene.recorded_before == [0, 0, 0]
    assert "- brief: 3 (the last was due" in scene.told[1]


async def test_a_failure_that_could_not_be_told_is_told_later() -> None:
    scene = Scene(refused=2)
    async with scene.scheduler():
        await scene.desk.create(DAILY)
        await asyncio.sleep(0)
        scene.clock.tick(3_600)
        await scene.fails()
        await eventually(lambda: len(scene.told) == 2, within=20 + 2 * AGAIN)
    assert "The job brief failed" in scene.told[1]
    assert "no credit" in scene.told[1]
