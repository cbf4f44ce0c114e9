"""kill -9 while the house lets go of what is old, and while a newer version brings the store
forward: what is open stays, and the next start goes on."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import ohmo
from tests.faults.builds import COMMAND, built
from tests.faults.conftest import Stage
from tests.faults.daemon import Daemon, until
from tests.faults.points import is_of_the_house

DAY = 86_400_000  # ms
OLD = 450  # more than two batches of everything
GONE = "t" * 22
OPEN = (
    "SELECT thread, seq, state FROM inbox WHERE ended_at IS NULL ORDER BY thread, seq",
    "SELECT id, state FROM approvals WHERE state IN ('queued','asked')",
    "SELECT turn, state FROM turns WHERE state IN ('running','parked')",
)
FILL = f"""
INSERT INTO threads (thread, channel, account, chat, topic, person, session_seq, next_seq) VALUES ('{GONE}', 'telegram', '1', 'gone', '', '', 99999, 99999);
CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {OLD}) SELECT i FROM n;
INSERT INTO inbox (thread, seq, sort, kind, message, album, person, said_at, at, ready_at, body, state, ending, turn, ended_at)
  SELECT '{GONE}', i * 4, i, 'message', 'm' || i, '', '1', :then, :then, :then, (SELECT MIN(body) FROM inbox), 'ended', 'answered', 'old' || i, :then FROM n;
INSERT INTO turns (turn, thread, state, person, began, ended) SELECT 'old' || i, '{GONE}', 'done', '1', :then, :then FROM n;
INSERT INTO steps (thread, seq, turn, kind, body, at) SELECT '{GONE}', i * 4 + 1, 'old' || i, 'user', '{{}}', :then FROM n;
INSERT INTO outbox (id, thread, seq, channel, account, kind, body, state, at, ready_at, expires, ttl, ended_at)
  SELECT 'post' || i, '{GONE}', i * 4 + 2, 'telegram', '1', 'message', '{{}}', 'sent', :then, :then, :then, 1, :then FROM n;
INSERT INTO seen SELECT 'telegram', '1', 'event' || i, '{GONE}', i * 4, :then FROM n;
UPDATE inbox SET ended_at = :now WHERE thread = '{GONE}' AND seq <= 40;
UPDATE inbox SET at = :then, said_at = :then WHERE ended_at IS NULL;
UPDATE outbox SET at = :then, ended_at = :then WHERE ended_at IS NOT NULL;
UPDATE turns SET began = :then WHERE ended IS NULL;
UPDATE approvals SET asked_at = :then WHERE state = 'asked'
"""


def grow_old(home: Path) -> None:
    """A long past, and what is open became as old."""
    now = round(time.time() * 1000)
    with closing(sqlite3.connect(home / "ohmo.db")) as store, store:
        for statement in FILL.strip().split(";"):
            store.execute(
                statement,
                {"now": now, "then": now - 40 * DAY} if ":" in statement.replace("::", "") else {},
            )


def open_rows(daemon: Daemon) -> list[object]:
    return [row for query in OPEN for row in daemon.rows(query)]


def left(daemon: Daemon) -> dict[str, int]:
    """Rows of the long past."""
    where = f"WHERE thread = '{GONE}'"
    return {
        table: daemon.rows(f"SELECT COUNT(*) FROM {table} {where}")[0][0]
        for table in ("inbox", "turns", "steps", "outbox", "seen")
    }


async def test_a_kill_while_the_house_lets_go_of_what_is_old_loses_nothing_that_is_open(
    stage: Stage, tmp_path: Path, work: Path
) -> None:
    """Each life dies in the middle of a transaction, the later ones some batches further on."""
    soon = built(
        tmp_path / "soon",
        ohmo.__version__,
        also=(("upkeep/housekeeping.py", "FIRST = 60.0", "FIRST = 0.1"),),
    )
    keep = {
        "retention": {"inbox": "30d", "transcripts": "30d"},
        "permissions": {"approval_timeout": 86_400},
    }
    async with stage("telegram", command=COMMAND, **keep) as scene:
        scene.daemon.environ.update(soon.environ)
        await scene.daemon.start()
        await scene.says(f"#run{{echo x >> {work / 'counter'}}}")
        await scene.asked("telegram")
        await scene.heard(await scene.says())  # behind the question
        await scene.answered(await scene.says(chat="dm:bob"))
        assert await scene.daemon.stop() == 0
        grow_old(scene.daemon.home)
        before = open_rows(scene.daemon)
        assert len(before) >= 3
        rest = sum(left(scene.daemon).values())
        for hit in (1, 2, 4, 5):
            await scene.daemon.start(f"prune.step=kill@{hit}", ready=False)
            await scene.daemon.died()
            assert scene.daemon.integrity() == []
            assert open_rows(scene.daemon) == before
            assert (sum(left(scene.daemon).values()) < rest) == (hit > 1), (
                "a batch is all or nothing"
            )
            rest = sum(left(scene.daemon).values())
        await scene.daemon.start()

        async def gone() -> bool:
            return left(scene.daemon) == {
                "inbox": 10,
                "turns": 0,
                "steps": 0,
                "outbox": 0,
                "seen": 0,
            }

        await until("what is old has gone", gone)
        assert open_rows(scene.daemon) == before
        await scene.press_first("telegram")
        await scene.check(also=is_of_the_house)
        assert (work / "counter").read_text() == "x\n"


async def test_a_daemon_that_dies_while_it_brings_the_store_forward_leaves_it_as_it_was(
    stage: Stage, tmp_path: Path
) -> None:
    old = built(tmp_path / "old", ohmo.__version__)
    new = built(
        tmp_path / "new",
        "0.2.0",
        statement="ALTER TABLE threads ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",
    )
    async with stage("telegram", command=COMMAND) as scene:
        scene.daemon.environ.update(old.environ)
        for chat in ("dm:ada", "dm:bob", "dm:7001"):
            await scene.says(chat=chat)
        await scene.daemon.start("turn.claim=kill@3", ready=False)
        await scene.daemon.died()
        before, schema = (
            open_rows(scene.daemon),
            scene.daemon.rows("SELECT value FROM meta WHERE name = 'schema'"),
        )
        assert before
        scene.daemon.environ.update(new.environ)
        for step in (1, 2):
            await scene.daemon.start(f"migrate.step=kill@{step}", ready=False)
            await scene.daemon.died()
            assert scene.daemon.integrity() == []
            assert (
                open_rows(scene.daemon),
                scene.daemon.rows("SELECT value FROM meta WHERE name = 'schema'"),
            ) == (before, schema)
        await scene.daemon.start()
        await scene.check()
        assert scene.daemon.rows("SELECT DISTINCT colour FROM threads") == [("red",)]
