"""Sums over a table in slices are the sums over the table."""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
