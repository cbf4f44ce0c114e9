"""Two schedulers over one store, killed at random while a virtual day goes by: no slot is doubled and none is unrecorded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from channels.contract import Address, ChatId
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import JobRow, Report
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.store import Accepted, Seat
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.cron.incidents import Incidents
from ohmo.cron.scheduler import Scheduler, SchedulerParts
from ohmo.cron.times import after
from ohmo.failpoints import inert
from ohmo.ids import IdSource
from ohmo.store.sqlite import SqliteStore, open_sqlite
from ohmo.testing import ManualClock

JOBS: Sequence[dict[str, object]] = (
    {"name": "often", "every": "7m", "prompt": "x", "tz": "UTC"},
    {"name": "quarters", "schedule": "*/15 * * * *", "prompt": "x", "tz": "Europe/Berlin", "overlap": "queue"},
    {"name": "all", "schedule": "0 * * * *", "prompt": "x", "tz": "Asia/Kolkata", "catch_up": "all"},
    {"name": "none", "schedule": "30 2,3,4 * * *", "prompt": "x", "tz": "Europe/Berlin", "catch_up": "none", "jitter": "5m"},
)


async def _nothing_asked(_: object) -> None:
    """No run asks anybody anything here."""


class Two:
    """The schedulers, and a hand that runs what waits."""

    def __init__(self, store: SqliteStore, clock: ManualClock) -> None:
        self.store, self.clock, self.new_id = store, clock, IdSource()
        self.tasks: list[asyncio.Task[None]] = []
        self.accepted = 0
        self.desk = self.build()[0]

    def build(self) -> tuple[CronDesk, Scheduler]:
        async def publish(wake: Wake) -> Accepted:
            found = (await self.store.accept([(wake, Seat("", "wake"))]))[0]
            self.accepted += not found.duplicate
            return found

        async def tell(once: str, text: str) -> None:
            del once, text

        async def prepare() -> None:
            return

        def resolve(text: str) -> Address:
            return Address("fake", "bot", ChatId(text))

        desk = CronDesk(
            DeskParts(self.store, publish, resolve, lambda _: None, (Path("/nowhere"),), "UTC", self.new_id, self.clock, _nothing_asked)
        )
        parts = SchedulerParts(
            self.store, desk, publish, Incidents(self.store, tell, self.store.retry_arrival), self.store.listen, self.clock.alarm, self.clock,
            inert, prepare, steady=lambda: self.clock().timestamp(),
        )  # fmt: skip
        return desk, Scheduler(parts)

    def start(self) -> None:
        self.tasks.append(asyncio.create_task(self.build()[1].run()))

    async def kill(self, number: int) -> None:
        task = self.tasks.pop(number)
        task.cancel()
        await asyncio.wait([task])

    async def settle(self) -> None:
        """Until both sleep and nothing waits."""
        for _ in range(400):
            await asyncio.sleep(0.001)
            for claim, work in await self.store.begin("hand", [self.new_id()], ttl=3_600, collect=lambda _: False, step=_step):
                if work is not None:
                    await self.store.finish(claim, work.turn, (), (), state="done", report=Report("", "ok", "d"))
            rows = await self.store.jobs()
            busy = [row for row in rows if row.next_at is not None and row.next_at + timedelta(minutes=5) <= self.clock()]
            if self.tasks and not busy and not await self.store.claimed():
                return
            if not self.tasks:
                return


def _step(arrival: Arrival) -> UserStep:
    del arrival
    return UserStep((Text("x"),), "owner", "wake")


@asynccontextmanager
async def two(folder: Path, clock: ManualClock) -> AsyncGenerator[Two]:
    async with open_sqlite(folder / "ohmo.db", clock=clock, new_id=IdSource(), writer="w", failpoint=inert) as store:
        both = Two(store, clock)
        try:
            yield both
        finally:
            while both.tasks:
                await both.kill(0)


def slots(row: JobRow, until: ManualClock) -> list[object]:
    found: list[object] = []
    at = after(row.body, row.body.anchor)
    while at is not None and at <= until() - timedelta(minutes=20):
        found.append(at)
        at = after(row.body, at)
    return found


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_slot_is_doubled_and_none_is_unrecorded(seed: int, tmp_path: Path) -> None:
    dice, clock = random.Random(seed), ManualClock()
    clock.tick(0.123456)
    async with two(tmp_path, clock) as both:
        rows = [await both.desk.create(job) for job in JOBS]
        for _ in range(120):
            while len(both.tasks) < 2 and dice.random() < 0.6:
                both.start()
            if both.tasks and dice.random() < 0.3:
                await both.kill(dice.randrange(len(both.tasks)))
            clock.tick(dice.choice([60, 300, 420, 900, 3_000]))
            await both.settle()
        both.start()
        for _ in range(12):
            clock.tick(120)
            await both.settle()
        for row in rows:
            found = await both.store.occurrences(row.job, limit=10_000)
            dues = [one.due for one in found]
            assert len(dues) == len(set(dues))
            assert sorted(set(slots(row, clock)) - set(dues)) == [], row.name  # pyright: ignore[reportArgumentType]
            assert all(one.reason for one in found if one.state in ("skipped", "missed"))
        ledgers = [await both.store.occurrences(row.job, limit=10_000) for row in rows]
        ran = sum(one.state in ("done", "claimed") for ledger in ledgers for one in ledger)
        assert both.accepted <= ran  # a scheduler that died in the commit could not count it
        assert len(await both.store.inbox(limit=10_000)) == ran
