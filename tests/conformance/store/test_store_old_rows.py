"""A store of form 4 with jobs whose runs ended in every way, as the last ohmo of that form wrote it
(``form_4.sql``, made by commit 0182705): nothing of what its sentences said is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from store_engines import sqlite_store
from store_words import Clock, told

from ohmo.ambient import inert
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.tool import BegunUnder
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.recovery import bring_forward, create

ROWS = Path(__file__).with_name("form_4.sql")


def old_store(path: Path) -> Path:
    create(path, inert, {number: MIGRATIONS[number] for number in range(1, 5)})
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ROWS.read_text(encoding="utf-8"))
    bring_forward(path, inert, MIGRATIONS)
    return path


def test_the_sentences_of_old_runs_become_causes(tmp_path: Path) -> None:
    with closing(sqlite3.connect(old_store(tmp_path / "ohmo.db"))) as connection:
        found = connection.execute("SELECT job, state, cause, reason FROM occurrences").fetchall()
    told = {(job.removeprefix("id-"), state, cause) for job, state, cause, _ in found}
    assert told == {
        ("brief", "done", None),
        ("brief", "done", "caught_up"),
        ("brief", "failed", None),
        ("brief", "failed", "stopped"),
        ("brief", "failed", "interrupted"),
        ("brief", "claimed", None),
        ("gone", "failed", "removed"),
        ("late", "claimed", "caught_up"),
        ("hand", "claimed", "by_hand"),
        ("once", "skipped", "coalesced"),
        ("toolate", "missed", "too_late"),
        ("none", "missed", "not_running"),
        ("busy", "skipped", "overlap"),
        ("busy", "skipped", "queue_full"),
    }
    assert {reason for *_, reason in found if reason and "Ada" in reason} == {
        "stopped by Ada Lovelace"
    }


async def test_a_turn_that_was_open_goes_on_and_knows_of_no_policy(tmp_path: Path) -> None:
    clock = Clock()
    clock.tick(86_400)
    async with sqlite_store(old_store(tmp_path / "ohmo.db"), clock) as store:
        await store.reclaim("new")
        turns = [f"turn{number}" for number in range(4)]
        begun = await store.begin(
            "new", turns, ttl=30, collect=lambda _: False, step=told, under=_none_is_known
        )
    resumed = [work for _, work in begun if work is not None and work.resumed]
    assert len(resumed) == 3
    assert {work.under for work in resumed} == {None}


def _none_is_known(first: Arrival) -> BegunUnder:
    raise AssertionError(f"{first.key} does not begin now")
