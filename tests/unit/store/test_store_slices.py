"""Sums over a table in slices are the sums over the table; a question that is asked all the time
costs a share of a core."""

from __future__ import annotations

import asyncio
import ctypes
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ohmo.database.sql_store import CachedAnswer
from ohmo.store.statements import Op
from ohmo.store.usage_totals import sums


def run(database: sqlite3.Connection, op: Op[Any]) -> Any:
    try:
        statement = next(op)
        while True:
            statement = op.send(database.execute(*statement).fetchall())
    except StopIteration as done:
        return done.value


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    one = sqlite3.connect(":memory:")
    one.execute("PRAGMA temp_store = MEMORY")
    one.execute("CREATE TABLE fruit (at INTEGER, id TEXT, kind TEXT, weight INTEGER)")
    one.execute("CREATE INDEX fruit_at ON fruit (at, id)")
    yield one
    one.close()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1_000])
@pytest.mark.parametrize("key", [("at",), ("at", "id")])
def test_slices_of_any_size_give_the_sums_of_the_whole(
    database: sqlite3.Connection, size: int, key: tuple[str, ...]
) -> None:
    rows = [
        (number // 5, f"{number}", "apple" if number % 3 else "pear", number)
        for number in range(1, 60)
    ]  # five of each moment
    database.executemany("INSERT INTO fruit VALUES (?, ?, ?, ?)", rows)
    found = run(
        database,
        sums(
            "fruit WHERE weight > 4",
            key,
            (1, "")[: len(key)],
            ("kind",),
            "COUNT(*), SUM(weight)",
            size=size,
        ),
    )
    counted = [row for row in rows if row[3] > 4 and row[0] >= 1 + (len(key) == 1)]
    assert found == {
        (kind,): [
            sum(1 for row in counted if row[2] == kind),
            sum(row[3] for row in counted if row[2] == kind),
        ]
        for kind in ("apple", "pear")
    }


def test_an_empty_table_has_no_sums(database: sqlite3.Connection) -> None:
    assert run(database, sums("fruit WHERE TRUE", ("at",), (0,), ("kind",), "COUNT(*)")) == {}


@pytest.mark.needs("own-sqlite")
def test_what_is_sorted_meanwhile_stays_small(database: sqlite3.Connection) -> None:
    libraries = [
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "libsqlite3" in line
    ]
    sqlite = ctypes.CDLL(libraries[0])
    sqlite.sqlite3_memory_used.restype = sqlite.sqlite3_memory_highwater.restype = ctypes.c_longlong
    database.executemany(
        "INSERT INTO fruit VALUES (?, ?, ?, ?)",
        ((n, f"{n}", "a kind with a name of some length", n) for n in range(50_000)),
    )
    sqlite.sqlite3_memory_highwater(1)
    before = sqlite.sqlite3_memory_used()
    assert run(database, sums("fruit WHERE TRUE", ("at",), (-1,), ("kind",), "COUNT(*)")) == {
        ("a kind with a name of some length",): [50_000]
    }
    assert sqlite.sqlite3_memory_highwater(0) - before < 1 << 20, (
        "bytes; all rows at once are five times as much"
    )


@dataclass
class Dear:
    """Takes ``takes`` seconds of its own clock."""

    takes: float
    now: float = 0.0
    asked: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> int:
        self.asked += 1
        await self.gate.wait()
        self.now += self.takes
        if self.takes > 100:
            raise OSError("away")
        return self.asked


@pytest.mark.parametrize(("takes", "good"), [(0.1, 5.0), (2.0, 30.0)])
async def test_an_answer_is_good_for_fifty_times_what_it_took_but_not_for_ever(
    takes: float, good: float
) -> None:
    dear = Dear(takes)
    dear.gate.set()
    sparing = CachedAnswer(dear, monotonic=lambda: dear.now)
    assert [await sparing(), await sparing()] == [1, 1]
    dear.now += good - 0.01
    assert await sparing() == 1
    dear.now += 0.01
    assert await sparing() == 2


async def test_who_comes_meanwhile_gets_the_same_answer_and_who_leaves_takes_nothing_away() -> None:
    dear = Dear(1.0)
    sparing = CachedAnswer(dear, monotonic=lambda: dear.now)
    first, second = asyncio.create_task(sparing()), asyncio.create_task(sparing())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    dear.gate.set()
    assert await second == 1
    assert dear.asked == 1


async def test_a_failure_is_nobodys_answer_later() -> None:
    dear = Dear(1000.0)
    dear.gate.set()
    sparing = CachedAnswer(dear, monotonic=lambda: dear.now)
    with pytest.raises(OSError, match="away"):
        await sparing()
    dear.takes = 1.0
    assert await sparing() == 2
