"""Row 12: kill -9 at every statement of a migration; the next start finishes it, and until then the
old version opens the old file."""

from __future__ import annotations

import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ohmo.ambient import inert
from ohmo.database.migrations import MIGRATIONS, NewerSchema, newest
from ohmo.storefile.recovery import bring_forward, create
from tests.faults.daemon import ROOT
from tests.programs import run_process

NEXT = newest(MIGRATIONS) + 1
STATEMENTS = (
    "ALTER TABLE threads ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",
    "CREATE TABLE moods (thread TEXT PRIMARY KEY, mood TEXT NOT NULL)",
    "INSERT INTO moods (thread, mood) SELECT thread, 'calm' FROM threads",
)
LATER = {**MIGRATIONS, NEXT: STATEMENTS}
DYING = """
import sys
from pathlib import Path
from ohmo.ambient import from_environment
from ohmo.storefile.recovery import bring_forward
from tests.faults.test_faults_migration import LATER
bring_forward(Path(sys.argv[1]), from_environment({"OHMO_FAILPOINTS": f"migrate.step=kill@{sys.argv[2]}"}), LATER)
"""


def old_store(path: Path) -> None:
    create(path, inert, MIGRATIONS)
    with closing(sqlite3.connect(path)) as connection:
        for number in range(100):
            connection.execute(
                "INSERT INTO threads (thread, channel, account, chat, topic, person) VALUES (?,"
                " 'c', 'a', ?, '', '')",
                (f"t{number}", number),
            )
        connection.commit()


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]


@pytest.mark.parametrize("step", range(1, len(STATEMENTS) + 2))
def test_a_kill_in_a_migration_leaves_the_old_store_and_the_next_start_finishes_it(
    tmp_path: Path, step: int
) -> None:
    path = tmp_path / "ohmo.db"
    old_store(path)
    died = run_process(sys.executable, "-c", DYING, str(path), str(step), cwd=ROOT)
    assert died.returncode == -signal.SIGKILL, died.stderr
    bring_forward(path, inert, MIGRATIONS)  # the old version: as if nothing had been tried
    assert rows(path, "threads") == 100
    bring_forward(path, inert, LATER)
    assert rows(path, "threads") == 100
    assert rows(path, "moods") == 100
    with pytest.raises(NewerSchema):
        bring_forward(path, inert, MIGRATIONS)
