"""Row 48: the store file is ruined in a thousand ways; nothing may get lost in silence. ``python -m
tests.faults.mutations --seeds 1000``."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ohmo.ambient import inert
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.archive import make_backup
from ohmo.storefile.inspection import problem
from ohmo.storefile.recovery import examine
from ohmo.storefile.wal_check import remember
from tests.unit.storefile.homes import furnished, markers, say

KINDS = (
    *("flip", "truncate", "empty", "zeros", "foreign", "gone", "header", "log"),
    *(
        "log flip",
        "log cut",
        "log gone",
        "log and index gone",
        "index flip",
        "index gone",
        "all gone",
        "in its place",
        "and newest backup",
    ),
)
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BEFORE = NOW - timedelta(days=1)


def ruin(database: Path, kind: str, draw: random.Random) -> None:
    """One mutation of the files of the store."""
    log, index = (database.with_name(database.name + end) for end in ("-wal", "-shm"))
    match kind:
        case "gone":
            _clear(database, index)
            log.write_bytes(b"")
        case "all gone":
            _clear(database, log, index)
        case "in its place":
            _in_its_place(draw.choice((database, log, index)), draw)
        case "log":
            log.write_bytes(draw.randbytes(4_000))
        case "log gone":
            _clear(log)
        case "log and index gone":
            _clear(log, index)
        case "index gone":
            _clear(index)
        case "log flip":
            _written(log, "flip", draw)
        case "log cut":
            _written(log, "truncate", draw)
        case "index flip":
            _written(index, "flip", draw)
        case "and newest backup":
            newest = max(database.with_name("backups").glob("*.gz"), default=None)
            if newest is not None:
                _written(newest, draw.choice(("truncate", "empty", "foreign")), draw)
            _written(database, "header", draw)
        case _:
            _written(database, kind, draw)


def _written(file: Path, kind: str, draw: random.Random) -> None:
    raw = bytearray(file.read_bytes())
    match kind:
        case "flip":
            for _ in range(draw.choice((1, 8, 64, 512))):
                raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        case "truncate":
            del raw[draw.randrange(len(raw)) :]
        case "empty":
            raw.clear()
        case "zeros":
            at = draw.randrange(len(raw))
            raw[at : at + 4096] = bytes(len(raw[at : at + 4096]))
        case "foreign":
            raw = bytearray(draw.randbytes(5_000))
        case _:
            raw[: draw.randrange(1, 100)] = bytes(1)
    file.write_bytes(raw)


def _clear(*files: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _in_its_place(file: Path, draw: random.Random) -> None:
    _clear(file)
    match draw.choice(("folder", "pipe", "link")):
        case "folder":
            file.mkdir()
        case "pipe":
            os.mkfifo(file)
        case _:
            file.symlink_to("nowhere")


def killed(home: Path, *, backup: bool) -> Path:
    """A home whose daemon was killed: some of its messages stand only in the log. ``backup``: two
    were made, the newer of everything."""
    alive = home / "alive"
    alive.mkdir()
    database = furnished(alive)
    if backup:
        make_backup(alive, database, home / "backups", BEFORE)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("INSERT INTO meta (name, value) VALUES ('life', 'l')")
        for number in range(20, 26):
            say(connection, number, waiting=bool(number % 2))
        if backup:
            make_backup(alive, database, home / "backups", NOW)
        for name in ("ohmo.db", "ohmo.db-wal", "ohmo.db-shm"):
            shutil.copy(alive / name, home / name)
    remember(home / "ohmo.db", "l")
    return home / "ohmo.db"


def one(seed: int, folder: Path, *, backup: bool) -> tuple[str, str]:
    """Kind and outcome: ``sound`` (nothing was lost), ``told`` (what is missing was told),
    ``SILENT`` or ``SLOW`` (a violation)."""
    draw = random.Random(seed)
    home = folder / str(seed)
    home.mkdir()
    kind = draw.choice(KINDS)
    database = killed(home, backup=backup)
    before = markers(home / "alive" / "ohmo.db")
    ruin(database, kind, draw)
    began = time.monotonic()
    health = examine(database, lambda: NOW, inert, MIGRATIONS, home / "backups")
    if time.monotonic() - began > 10:
        return kind, "SLOW"
    assert problem(database) is None
    after = markers(database)
    shutil.rmtree(home)
    if health.state == "sound":
        return kind, "sound" if after == before else "SILENT"
    whole = after.keys() == before.keys()
    # what only the ruined backup knew
    old = after.keys() == set(range(20)) and kind == "and newest backup"
    if not health.detail or health.state != "replaced" or (backup and not whole and not old):
        return kind, "SILENT"
    return kind, "told, whole" if whole else "told"


def campaign(seeds: range, *, backup: bool) -> Counter[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="ohmo-mutations-") as folder:
        return Counter(one(seed, Path(folder), backup=backup) for seed in seeds)


HEAD = """# A store that was ruined

`python -m tests.faults.mutations --seeds 1000` ruins the store of a small home whose daemon was killed, so that a part of its messages stands only in
the log, and starts it. The file, its log or the log's index are flipped in single bits, cut, emptied, overwritten, deleted, or are a folder, a named
pipe or a link to nothing; with the file the newest of two backups is ruined too. *sound*: nothing was lost, the log healed it or nothing that counts
was hit. *told*: the owner is told that messages may be missing, and the damaged file lies in the quarantine. *told, whole*: the same, and everything
came back. A start that loses a message without a word (SILENT) or takes longer than 10 s (SLOW) is a violation.

| seeds | backup | damage | outcome | starts |
|---|---|---|---|--:|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--table", type=Path, help="written anew, such as docs/evidence/mutations.md"
    )
    wanted = parser.parse_args()
    violations, lines = 0, list[str]()
    for with_backup in (False, True):
        found = campaign(range(wanted.first, wanted.first + wanted.seeds), backup=with_backup)
        for (kind, outcome), count in sorted(found.items()):
            violations += count if outcome.isupper() else 0
            cells = (
                f"{wanted.first} to {wanted.first + wanted.seeds - 1}",
                "yes" if with_backup else "no",
                kind,
                outcome,
                count,
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
    if wanted.table is not None:
        wanted.table.write_text(f"{HEAD}{chr(10).join(lines)}\n\n{violations} violations.\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
