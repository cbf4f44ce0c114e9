"""What SQLite takes for a beginning (no file, no log, something else in its place) is told as a
loss; a log that was only folded is none."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.ambient import inert
from ohmo.contracts.errors import ConfigError
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.archive import BackupError, backups, make_backup
from ohmo.storefile.lock import hold_home
from ohmo.storefile.open_store import open_sqlite
from ohmo.storefile.recovery import Health, examine
from ohmo.storefile.restore import restore
from ohmo.storefile.wal_check import known_file, remember
from tests.unit.storefile.homes import furnished, markers, say

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """Left behind by a life that was killed: 20 messages in the file and in a backup, two more in
    the log."""
    alive, left = tmp_path / "alive", tmp_path / "home"
    alive.mkdir()
    database = furnished(alive)
    make_backup(alive, database, left / "backups", NOW - timedelta(hours=1))
    async with open_sqlite(database, clock=lambda: NOW, writer="this-life", failpoint=inert):
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            for number in (20, 21):
                say(connection, number, waiting=True)
        for file in alive.glob("ohmo.db*"):
            shutil.copy(file, left / file.name)
    return left


def look(home: Path) -> Health:
    return examine(home / "ohmo.db", lambda: NOW, inert, MIGRATIONS, home / "backups")


def flipped(file: Path, share: float) -> None:
    raw = bytearray(file.read_bytes())
    raw[int(len(raw) * share)] ^= 4
    file.write_bytes(raw)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])


def folded_by_somebody_else(home: Path) -> None:
    with closing(sqlite3.connect(home / "ohmo.db")) as connection:
        connection.execute("SELECT COUNT(*) FROM inbox").fetchone()
    assert not (home / "ohmo.db-wal").exists()


def begun_anew(home: Path) -> None:
    """A loss of power: all was folded and the log has a new head, but no new commit; the index is
    of before."""
    file, log, index = (home / f"ohmo.db{end}" for end in ("", "-wal", "-shm"))
    before, frames = index.read_bytes(), log.read_bytes()[32:]
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        folded = file.read_bytes()
        say(connection, 22, waiting=True)
        head = log.read_bytes()[:32]
    file.write_bytes(folded)
    log.write_bytes(head + frames)
    index.write_bytes(before)


@pytest.mark.parametrize(
    ("ruin", "word"),
    [
        (lambda home: (home / "ohmo.db-wal").unlink(), "its log is gone"),
        (
            lambda home: [(home / f"ohmo.db-{end}").unlink() for end in ("wal", "shm")],
            "its log is gone",
        ),
        (lambda home: (home / "ohmo.db-wal").write_bytes(b""), "its log is gone"),
        (lambda home: flipped(home / "ohmo.db-wal", 0.0), "its log is gone or cannot be read"),
        (lambda home: flipped(home / "ohmo.db-wal", 0.7), "pages that were committed"),
        (lambda home: cut(home / "ohmo.db-wal"), "pages that were committed"),
        (
            lambda home: [
                file.unlink() for file in home.glob("ohmo.db*") if "known" not in file.name
            ],
            "the file is gone",
        ),
    ],
    ids=[
        "log",
        "log and index",
        "empty log",
        "head of the log",
        "a bit of the log",
        "end of the log",
        "everything",
    ],
)
async def test_a_log_that_lost_what_was_committed_is_told_and_the_backup_fills_in(
    home: Path, ruin: Callable[[Path], object], word: str
) -> None:
    ruin(home)
    health = look(home)
    assert health.state == "replaced"
    assert word in health.detail
    assert health.quarantined is not None
    assert markers(home / "ohmo.db").keys() >= set(range(20))
    assert look(home).state == "sound"


@pytest.mark.parametrize(
    "touch",
    [
        lambda home: None,
        lambda home: (home / "ohmo.db-shm").unlink(),
        lambda home: flipped(home / "ohmo.db-shm", 0.0005),
        folded_by_somebody_else,
        begun_anew,
        lambda home: known_file(home / "ohmo.db").write_bytes(b"\xff{"),
        lambda home: known_file(home / "ohmo.db").unlink(),
    ],
    ids=[
        "nothing",
        "index gone",
        "index flipped",
        "folded by another program",
        "log begun anew",
        "mark unreadable",
        "mark gone",
    ],
)
async def test_a_kill_alone_and_what_loses_nothing_is_no_damage(
    home: Path, touch: Callable[[Path], object]
) -> None:
    touch(home)
    assert look(home) == Health("sound")
    assert markers(home / "ohmo.db").keys() == set(range(22))


@pytest.mark.parametrize("name", ["ohmo.db", "ohmo.db-wal", "ohmo.db-shm"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
async def test_something_else_in_its_place_is_put_aside(home: Path, name: str, kind: str) -> None:
    place = home / name
    place.unlink()
    {
        "folder": place.mkdir,
        "pipe": lambda: os.mkfifo(place),
        "link": lambda: place.symlink_to("nowhere"),
    }[kind]()
    health = look(home)
    assert health.state == "replaced"
    assert {"folder": "a folder", "pipe": "a named pipe", "link": "a link to nothing"}[
        kind
    ] in health.detail
    assert health.quarantined is not None
    assert os.path.lexists(health.quarantined / name)
    assert markers(home / "ohmo.db").keys() >= set(range(20))


async def test_a_lost_log_is_still_known_after_a_kill_before_it_was_mended(home: Path) -> None:
    cut(home / "ohmo.db-wal")

    def dies(name: str) -> None:
        raise KeyboardInterrupt(name)

    with pytest.raises(KeyboardInterrupt):
        examine(home / "ohmo.db", lambda: NOW, dies, MIGRATIONS, home / "backups")
    assert "pages that were committed" in look(home).detail


async def test_a_store_that_was_closed_in_peace_needs_no_log(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.db"
    async with open_sqlite(path, clock=lambda: NOW, writer="one", failpoint=inert) as store:
        assert store.health.state == "new"
    assert not path.with_name("ohmo.db-wal").exists()
    assert look(tmp_path) == Health("sound")


@pytest.mark.parametrize("name", ["quarantine", "ohmo.db.new", "ohmo.db.whole", "ohmo.db-suspect"])
async def test_nothing_that_lies_in_the_way_keeps_a_store_from_being_mended(
    home: Path, name: str
) -> None:
    (home / name).write_text("x") if name == "quarantine" else (home / name).mkdir()
    (home / "ohmo.db").write_bytes(b"x" * 5_000)
    assert look(home).state == "replaced"
    assert markers(home / "ohmo.db").keys() >= set(range(20))


async def test_what_bears_a_backup_s_name_and_is_none_holds_nobody_up(home: Path) -> None:
    folder = home / "backups"
    os.mkfifo(folder / "ohmo-20281122T122128Z.tar.gz")
    (folder / "ohmo-20291122T122128Z.tar.gz").mkdir()
    (folder / "ohmo-20301122T122128Z.tar.gz").symlink_to("nowhere")
    assert len(backups(folder)) == 1
    (home / "ohmo.db").write_bytes(b"x" * 5_000)
    assert "more came from the backup" in look(home).detail
    with pytest.raises(BackupError, match="it is no file; nothing was changed"):
        restore(folder / "ohmo-20281122T122128Z.tar.gz", home, NOW)


async def test_a_restore_over_a_killed_life_is_no_damage(home: Path) -> None:
    remember(home / "ohmo.db", "this-life")
    restore(backups(home / "backups")[0].path, home, NOW)
    assert look(home) == Health("sound")
    # what the replaced store had heard is no news
    assert markers(home / "ohmo.db").keys() == set(range(22))


async def test_a_restore_is_not_displaced_by_a_store_that_was_made_of_a_damaged_one(
    home: Path,
) -> None:
    (home / "ohmo.db.whole").write_bytes(b"older")
    (home / "ohmo.db.new").write_bytes(b"half made")
    aside = restore(backups(home / "backups")[0].path, home, NOW).aside
    assert aside is not None
    assert [(aside / f"ohmo.db.{end}").read_bytes() for end in ("whole", "new")] == [
        b"older",
        b"half made",
    ]
    assert not list(home.glob("ohmo.db.*"))
    assert look(home) == Health("sound")


def test_a_lock_that_is_a_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(ConfigError, match="cannot be used as a lock"), hold_home(tmp_path):
        pass


async def test_a_mark_that_cannot_be_written_keeps_no_store_closed(home: Path) -> None:
    before = known_file(home / "ohmo.db").read_text()
    remember(home / "config.yaml" / "ohmo.db", "x")  # no folder
    known_file(home / "ohmo.db").unlink()
    known_file(home / "ohmo.db").mkdir()
    (known_file(home / "ohmo.db") / "x").touch()
    assert look(home) == Health("sound")
    assert known_file(home / "ohmo.db").read_text() != before


def ruined(log: Path, how: str, share: float, earlier: bytes) -> None:
    whole = log.read_bytes()
    at = min(int(len(whole) * share), len(whole) - 1)
    match how:
        case "missing":
            log.unlink()
        case "cut":
            log.write_bytes(whole[:at])
        case "flipped":
            log.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        case _:
            log.write_bytes(earlier)


@settings(max_examples=40, deadline=None)
@given(
    commits=st.integers(1, 6),
    kept=st.integers(0, 5),
    how=st.sampled_from(["missing", "cut", "flipped", "an earlier copy"]),
    share=st.floats(0, 1),
)
def test_whatever_happens_to_the_log_a_store_that_counts_as_sound_has_every_commit(
    commits: int, kept: int, how: str, share: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        alive, left = Path(folder) / "alive", Path(folder) / "home"
        alive.mkdir()
        left.mkdir()
        database = furnished(alive)
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            earlier = b""
            for number in range(20, 20 + commits):
                if number == 20 + kept:
                    earlier = (alive / "ohmo.db-wal").read_bytes() if number > 20 else b""
                say(connection, number, waiting=True)
            for file in alive.glob("ohmo.db*"):
                shutil.copy(file, left / file.name)
        remember(left / "ohmo.db")
        ruined(left / "ohmo.db-wal", how, share, earlier)
        if look(left).state == "sound":
            assert markers(left / "ohmo.db").keys() == set(range(20 + commits))
