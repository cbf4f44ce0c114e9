"""A scheduler over a store in memory, and a hand that ends what it started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from channels.contract import Address, ChatId
from channels.errors import Unavailable
from ohmo.ambient import IdSource
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.turns import Accepted, End, Seat
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.cron.reporting import Incidents
from ohmo.cron.scheduler import Scheduler, SchedulerParts
from ohmo.lifecycle import supervised
from ohmo_testing.house import ManualClock, eventually
from tests.store_model.store import MemoryStore


class Rig:
    """A scheduler over a store of a kind; ``refused``: how many notices find no room at first;
    ``bugs``: how many wakes meet a mistake of ours. ``at_once``: the next runs end so before
    anybody can look, each with its reason, "" for well."""

    def __init__(
        self, refused: int = 0, bugs: int = 0, kind: type[MemoryStore] = MemoryStore
    ) -> None:
        self.bugs = bugs
        self.clock = ManualClock()
        self.new_id = IdSource()
        self.refused = refused
        self.store = kind(clock=self.clock)
        self.told: list[str] = []
        self.at_once: list[str] = []
        self.asleep = 0
        self.recorded_before: list[int] = []
        self.desk = CronDesk(
            DeskParts(
                self.store,
                self.publish,
                lambda text: Address("fake", "bot", ChatId(text)),
                lambda _: "",
                (Path("/nowhere"),),
                "UTC",
                self.new_id,
                self.clock,
                self.nothing,
            )
        )

    async def publish(self, wake: Wake) -> Accepted:
        if self.bugs:
            self.bugs -= 1
            raise RuntimeError("a mistake")
        accepted = (await self.store.accept([(wake, Seat("", "wake"))]))[0]
        if self.at_once:
            await self.work(failing=self.at_once.pop(0))
        return accepted

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
            self.store,
            self.desk,
            self.publish,
            Incidents(self.store, self.tell, self.store.retry_arrival),
            self.store.listen,
            self.alarm,
            self.clock,
            lambda _: None,
            self.nothing,
            steady=self.clock.steady,
        )
        self.lives = Scheduler(parts)
        running = asyncio.create_task(
            supervised("cron", self.lives.run, sleep=lambda _: asyncio.sleep(0))
        )
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def fails(self) -> None:
        """The run that waits ends so."""

        async def begun() -> bool:
            return bool(await self.work(failing="no credit"))

        await eventually(begun)

    async def work(self, *, failing: str = "") -> int:
        """Everything that waits is done, or fails for this reason; how much it was."""

        def step(arrival: Arrival) -> UserStep:
            del arrival
            return UserStep((Text("x"),), "owner", "wake")

        found = await self.store.begin(
            "hand", [self.new_id() for _ in range(8)], ttl=60, collect=lambda _: False, step=step
        )
        for claim, work in found:
            assert work is not None
            end = (
                End("failed", failing, Report(failing, failed=True))
                if failing
                else End("done", report=Report("", "ok", "d"))
            )
            await self.store.finish(claim, work.turn, (), (), end)
        return len(found)

    async def ledger(self, name: str) -> list[tuple[str, str | None]]:
        """State and reason of its slots, the oldest first."""
        return [
            (one.state, one.reason) for one in reversed(await self.desk.history(name, limit=1_000))
        ]

    async def claims(self, *names: str) -> None:
        """Wait until runs of exactly these jobs have begun and not ended."""

        async def there() -> bool:
            known = {row.job: row.name for row in await self.desk.list()}
            return sorted(known[one.job] for one in await self.store.claimed()) == sorted(names)

        await eventually(there)

    async def looked(self) -> None:
        """Wait until the scheduler has looked at everything and sleeps again."""
        before = self.asleep
        self.clock.tick(0)
        await eventually(lambda: self.asleep > before)

    async def alarm(self, until: datetime | None, changed: asyncio.Event) -> None:
        self.asleep += 1
        await self.clock.alarm(until, changed)
