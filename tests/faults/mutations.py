"""Row 48: the store file is ruined in a thousand ways; nothing may get lost in silence. ``python -m tests.faults.mutations --seeds 1000``."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from ohmo.failpoints import inert
from ohmo.store.archive import make_backup
from ohmo.store.health import examine
from ohmo.store.inspection import problem
from ohmo.store.schema import MIGRATIONS

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "store"))
from homes import furnished, markers

KINDS = ("flip", "truncate", "empty", "zeros", "foreign", "gone", "header", "log")
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ruin(database: Path, kind: str, draw: random.Random) -> None:
    """One mutation of the file."""
    raw = bytearray(database.read_bytes())
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
        case "gone":
            database.unlink()
            database.with_name("ohmo.db-wal").write_bytes(b"")
            return
        case "header":
            raw[: draw.randrange(1, 100)] = bytes(1)
        case _:
            database.with_name("ohmo.db-wal").write_bytes(draw.randbytes(4_000))
            return
    database.write_bytes(raw)


def one(seed: int, folder: Path, *, backup: bool) -> tuple[str, str]:
    """Kind and outcome: ``sound`` (nothing was lost), ``told`` (what is missing was told), ``SILENT`` or ``SLOW`` (a violation)."""
    draw = random.Random(seed)
    home = folder / str(seed)
    home.mkdir()
    database = furnished(home)
    before = markers(database)
    if backup:
        make_backup(home, database, home / "backups", NOW)
    kind = draw.choice(KINDS)
    ruin(database, kind, draw)
    began = time.monotonic()
    health = examine(database, lambda: NOW, inert, MIGRATIONS, home / "backups")
    if time.monotonic() - began > 10:
        return kind, "SLOW"
    assert problem(database) is None
    after = markers(database) if health.state == "sound" else None
    if health.state == "sound":
        return kind, "sound" if after == before else "SILENT"
    whole = markers(database).keys() == before.keys()
    if not health.detail or (backup and not whole):
        return kind, "SILENT"
    return kind, "told, whole" if whole else "told"


def campaign(seeds: range, *, backup: bool) -> Counter[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="ohmo-mutations-") as folder:
        return Counter(one(seed, Path(folder), backup=backup) for seed in seeds)


HEAD = """# A store that was ruined

`python -m tests.faults.mutations --seeds 1000` ruins the store file of a small home (bits flipped, cut, emptied, overwritten, its header or log gone,
another file in its place) and starts it. *sound*: nothing was lost, the log healed it or nothing that counts was hit. *told*: the owner is told that
messages may be missing, and the damaged file lies in the quarantine. *told, whole*: the same, and everything came back. A start that loses a message
without a word (SILENT) or takes longer than 10 s (SLOW) is a violation.

| seeds | backup | damage | outcome | starts |
|---|---|---|---|--:|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--table", type=Path, help="written anew, such as docs/mutations.md")
    wanted = parser.parse_args()
    violations, lines = 0, list[str]()
    for with_backup in (False, True):
        found = campaign(range(wanted.first, wanted.first + wanted.seeds), backup=with_backup)
        for (kind, outcome), count in sorted(found.items()):
            violations += count if outcome.isupper() else 0
            cells = (f"{wanted.first} to {wanted.first + wanted.seeds - 1}", "yes" if with_backup else "no", kind, outcome, count)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
    if wanted.table is not None:
        wanted.table.write_text(f"{HEAD}{chr(10).join(lines)}\n\n{violations} violations.\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
