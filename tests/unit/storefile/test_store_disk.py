"""Rows 40 and 41 at the store itself: the n-th write, sync or read fails, for many n; what was
acknowledged stays, and the file stays whole."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.disk import READ, SYNC, WRITE, Disk
from tests.programs import run_process

LIFE = Path(__file__).with_name("disk_life.py")


def life(disk: Disk, database: Path, first: int) -> tuple[str, int]:
    """One process that stores 30 messages from number ``first`` on; why it ended, and the first
    that it did not acknowledge."""
    environ = {**os.environ, **disk.environ}
    ended = run_process(
        sys.executable, str(LIFE), str(database), str(first), timeout=120, env=environ, code=0
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    return found["ended"], found["acknowledged"]


def aside(database: Path) -> bool:
    """The store was taken for a damaged one."""
    return (database.parent / "quarantine").exists()


def lost(database: Path, acknowledged: int) -> set[int]:
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return set(range(acknowledged)) - {
            int(row[0]) for row in connection.execute("SELECT message FROM inbox")
        }


@pytest.mark.needs("cc")
def test_a_damaged_store_is_never_followed_by_an_empty_one_that_says_nothing(
    tmp_path: Path,
) -> None:
    """The disk fails at the n-th write of the start that replaces the damaged file; the next start
    sees the damage again."""
    disk, database = Disk(tmp_path), tmp_path / "ohmo.db"
    assert life(disk, database, 0) == ("all", 30)
    raw = bytearray(database.read_bytes())
    raw[20_000:26_000] = bytes(6_000)
    database.write_bytes(raw)
    for after in (0, 20, 90):
        disk.fails(WRITE, errno.EIO, after=after)
        assert life(disk, database, 30)[0] == "closed"
        assert disk.heals()
        assert database.read_bytes() == raw
    assert life(disk, database, 30) == ("replaced", 60)


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("calls", "number"),
    [(WRITE, errno.ENOSPC), (WRITE, errno.EIO), (SYNC, errno.EIO), (READ, errno.EIO)],
)
def test_no_call_that_fails_costs_what_was_acknowledged(
    tmp_path: Path, calls: int, number: int
) -> None:
    disk, database, outcomes = Disk(tmp_path), tmp_path / "ohmo.db", set[str]()
    ended, known = life(disk, database, 0)
    assert (ended, known) == ("all", 30)
    for after in (0, 1, 3, 8, 28, 34):
        disk.fails(calls, number, after=after)
        ended, known = life(disk, database, known)
        outcomes.add(ended)
        if disk.heals():
            # every message is stored by then: what fails is the note beside the file
            closing = (calls, after) == (SYNC, 34)
            assert ended != "all" or calls == READ or closing  # some pages are in memory
        assert lost(database, known) == set()
        assert not aside(database)
    assert life(disk, database, known) == ("all", known + 30)
    assert ("fatal" if calls == SYNC else "closed") in outcomes
