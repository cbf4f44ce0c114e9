"""Two schedulers, each with its own connection to one store and no lock between them, are killed at
random while virtual days go by.

``python -m tests.unit.cron.soak --slots 1000000 --table docs/evidence/cron-soak.md``: every slot
has one row, and no slot ran twice. A round is one seed: random jobs in random zones, random gaps in
which nobody is awake, deaths at any moment and between a claim and what follows it."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import zoneinfo
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from channels.contract import Address, ChatId
from ohmo.ambient import IdSource, inert
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import JobRow, Report
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.turns import Accepted, End, Seat
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.cron.reporting import Incidents
from ohmo.cron.scheduler import Scheduler, SchedulerParts
from ohmo.cron.times import after
from ohmo.store.statements import instant
from ohmo.storefile.open_store import SqliteStore, open_sqlite
from ohmo_testing.house import ManualClock

ZONES = sorted(
    name for name in zoneinfo.available_timezones() if name not in ("localtime", "Factory")
)
SCHEDULES = (
    "*/5 * * * *",
    "*/2 * * * *",
    "* * * * *",
    "30 1,2,3 * * *",
    "0 9 * * 1-5",
    "15 0,12 * * *",
    "*/20 2-4 * * *",
)
DEATH = 0.01  # of the claims end their scheduler


class Died(Exception):
    """The scheduler's process ended here."""


@dataclass
class Tally:
    slots: int = 0
    states: Counter[str] = field(default_factory=Counter[str])
    kills: int = 0
    doubled: int = 0
    unrecorded: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def add(self, other: Tally) -> None:
        self.slots, self.kills = self.slots + other.slots, self.kills + other.kills
        self.doubled, self.unrecorded = (
            self.doubled + other.doubled,
            self.unrecorded + other.unrecorded,
        )
        self.states.update(other.states)
        self.wrong += other.wrong


class Night:
    """The schedulers, and a hand that runs what waits and counts how often."""

    def __init__(
        self, stores: tuple[SqliteStore, SqliteStore], clock: ManualClock, dice: random.Random
    ) -> None:
        self.stores = stores
        self.clock = clock
        self.dice = dice
        self.new_id = IdSource()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.ran: Counter[tuple[str, datetime]] = Counter()
        self.kills = 0
        self.desk = self.build(0)[0]

    def build(self, number: int) -> tuple[CronDesk, Scheduler]:
        store = self.stores[number]

        async def publish(wake: Wake) -> Accepted:
            return (await store.accept([(wake, Seat("", "wake"))]))[0]

        async def tell(once: str, text: str) -> None:
            del once, text

        async def prepare() -> None:
            return

        async def nothing_asked(_: object) -> None:
            return

        def resolve(text: str) -> Address:
            return Address("fake", "bot", ChatId(text))

        def failpoint(name: str) -> None:
            del name
            if self.dice.random() < DEATH:
                raise Died

        desk = CronDesk(
            DeskParts(
                store,
                publish,
                resolve,
                lambda _: "",
                (Path("/nowhere"),),
                "UTC",
                self.new_id,
                self.clock,
                nothing_asked,
            )
        )
        parts = SchedulerParts(
            store,
            desk,
            publish,
            Incidents(store, tell, store.retry_arrival),
            store.listen,
            self.clock.alarm,
            self.clock,
            failpoint,
            prepare,
            steady=lambda: self.clock().timestamp(),
        )
        return desk, Scheduler(parts)

    def start(self, number: int) -> None:
        if number not in self.tasks:
            self.tasks[number] = asyncio.create_task(self.build(number)[1].run())

    async def kill(self, number: int) -> None:
        if (task := self.tasks.pop(number, None)) is not None:
            self.kills += not task.done()
            task.cancel()
            await asyncio.wait([task])

    async def work(self) -> None:
        """What waits is done."""

        def step(arrival: Arrival) -> UserStep:
            del arrival
            return UserStep((Text("x"),), "owner", "wake")

        store = self.stores[0]
        for claim, work in await store.begin(
            "hand",
            [self.new_id() for _ in range(16)],
            ttl=3_600,
            collect=lambda _: False,
            step=step,
        ):
            if work is not None:
                await store.finish(
                    claim, work.turn, (), (), End("done", report=Report("", "ok", "d"))
                )
                for arrival in work.arrivals:
                    assert isinstance(arrival, Wake)
                    assert arrival.occurrence is not None
                    self.ran[arrival.occurrence.job, arrival.occurrence.due] += 1

    async def settle(self, *, deadly: bool = True) -> None:
        """Until nothing waits and nothing moves any more while the clock stands still, or everybody
        is dead."""
        still, before = 0, None
        while still < 4:
            await asyncio.sleep(0.001)
            for number in [number for number, task in self.tasks.items() if task.done()]:
                self.kills += 1
                await self.kill(number)
            if deadly and self.tasks and self.dice.random() < 0.02:
                await self.kill(self.dice.choice(list(self.tasks)))
            await self.work()
            now = (
                [row.next_at for row in await self.stores[0].jobs()],
                await self.stores[0].claimed(),
            )
            still = still + 1 if now == before and not now[1] else 0
            before = now

    async def late(self) -> bool:
        due = self.clock() - timedelta(minutes=12)
        return any(
            row.next_at is not None and row.next_at <= due for row in await self.stores[0].jobs()
        )


@asynccontextmanager
async def night(folder: Path, clock: ManualClock, dice: random.Random) -> AsyncGenerator[Night]:
    async with open_sqlite(folder / "ohmo.db", clock=clock, writer="a", failpoint=inert) as one:
        async with open_sqlite(folder / "ohmo.db", clock=clock, writer="b", failpoint=inert) as two:
            found = Night((one, two), clock, dice)
            try:
                yield found
            finally:
                for number in list(found.tasks):
                    await found.kill(number)


def random_job(dice: random.Random, number: int) -> dict[str, object]:
    when: dict[str, object] = (
        {"schedule": dice.choice(SCHEDULES)}
        if dice.random() < 0.35
        else {"every": f"{dice.choice((2, 3, 5))}s"}
    )
    often = "every" in when or str(when.get("schedule")).startswith(("* ", "*/2 "))
    return {
        "name": f"job{number}",
        "prompt": "x",
        "tz": dice.choice(ZONES),
        **when,
        "jitter": dice.choice(("0s", "0s", "4m")),
        "catch_up": dice.choice(("none", "once") if often else ("none", "once", "all")),
        "overlap": dice.choice(("skip", "queue")),
    }


async def one_round(seed: int, folder: Path, steps: int) -> Tally:
    dice = random.Random(seed)
    clock = ManualClock(
        datetime(
            dice.randrange(1990, 2036), dice.randrange(1, 13), dice.randrange(1, 28), tzinfo=UTC
        )
        + timedelta(seconds=0.123)
    )
    async with night(folder, clock, dice) as it:
        rows = [await it.desk.create(random_job(dice, number)) for number in range(6)]
        for _ in range(steps):
            if dice.random() < 0.8:  # everybody sleeps for a while
                for number in list(it.tasks):
                    await it.kill(number)
                clock.tick(dice.choice((600, 1_800, 1_900)))
            for number in range(2):
                if dice.random() < 0.8:
                    it.start(number)
            clock.tick(dice.choice((3, 20, 40)))
            await it.settle()
        for _ in range(200):
            clock.tick(60)
            it.start(0)
            await it.settle(deadly=False)
            if not await it.late():
                break
        return judged(folder / "ohmo.db", rows, it)


def spanned(found: Sequence[tuple[int, str, str | None]]) -> list[tuple[datetime, datetime]]:
    """Of more than a thousand slots that were missed at once the oldest row stands for those that
    have none, up to the next one that has, and says so. ``found`` is in order of time."""
    return [
        (instant(due), instant(following))
        for (due, _, why), (following, _, _) in itertools.pairwise(found)
        if "every slot from here to" in (why or "")
    ]


def judged(database: Path, rows: list[JobRow], it: Night) -> Tally:
    """What the ledger must hold by now against what it holds."""
    tally = Tally(kills=it.kills, doubled=sum(count - 1 for count in it.ran.values()))
    tally.wrong += [
        f"{job} {due} ran {count} times" for (job, due), count in it.ran.items() if count > 1
    ]
    with closing(sqlite3.connect(database)) as connection:
        for row in rows:
            found = connection.execute(
                "SELECT due, state, reason FROM occurrences WHERE job = ? ORDER BY due", (row.job,)
            ).fetchall()
            tally.states.update(state for _, state, _ in found)
            dues = {instant(due) for due, _, _ in found}
            spans = spanned(found)
            tally.wrong += [
                f"{row.name} {due}: {state} without a reason"
                for due, state, why in found
                if state in ("skipped", "missed") and not why
            ]
            at = after(row.body, row.body.anchor)
            while at is not None and at <= it.clock() - timedelta(minutes=12):
                tally.slots += 1
                if at not in dues and not any(first <= at <= last for first, last in spans):
                    tally.unrecorded += 1
                    tally.wrong.append(
                        f"{row.name} ({row.body.spec.schedule or row.body.spec.every},"
                        f" {row.body.spec.tz}) {at} is unrecorded"
                    )
                at = after(row.body, at)
    return tally


HEAD = """# Two schedulers, random deaths

`python -m tests.unit.cron.soak --slots 1000000` lets two schedulers work on one store without a lock between them while virtual days go by: six random
jobs per round in random zones and years, gaps in which nobody is awake, deaths at any moment and between a claim and what follows. Every slot must
have a row in the ledger or lie in the stretch that one row names (nobody was awake for hours: one row tells of all its slots), and none may run twice.
The states count rows.

| seeds | rounds | slots | done | skipped, with a reason | missed, with a reason | deaths | doubled | unrecorded | minutes |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.cron.soak", description=__doc__)
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--steps", type=int, default=60, help="of a round")
    parser.add_argument("--table", type=Path)
    wanted = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    total, rounds, began = Tally(), 0, time.monotonic()
    while total.slots < wanted.slots:
        folder = Path(tempfile.mkdtemp(prefix="ohmo-cron-soak-"))
        total.add(asyncio.run(one_round(wanted.seed + rounds, folder, wanted.steps)))
        shutil.rmtree(folder)
        rounds += 1
        print(
            f"{rounds} rounds, {total.slots} slots, {total.kills} deaths, {total.doubled} doubled,"
            f" {total.unrecorded} unrecorded",
            *total.wrong[:5],
            sep="\n  ",
            flush=True,
        )
    minutes, states = (time.monotonic() - began) / 60, total.states
    cells = (
        f"{wanted.seed} to {wanted.seed + rounds - 1}",
        rounds,
        total.slots,
        states["done"],
        states["skipped"],
        states["missed"],
        total.kills,
    )
    if wanted.table is not None:
        line = (
            "| "
            + " | ".join(map(str, (*cells, total.doubled, total.unrecorded, f"{minutes:.0f}")))
            + " |\n"
        )
        wanted.table.write_text(HEAD + line)
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
