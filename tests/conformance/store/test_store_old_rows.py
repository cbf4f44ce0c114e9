"""A store of form 4 with jobs whose runs ended in every way, as the last ohmo of that form wrote it
(``form_4.sql``, made by commit 0182705): nothing of what its sentences said is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ohmo.failpoints import inert
from ohmo.store.engines.migrations import MIGRATIONS
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
