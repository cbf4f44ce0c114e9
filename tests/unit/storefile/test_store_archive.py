"""Backups: consistent while somebody writes, verified, taken back as a whole; a damaged store is
filled in from the newest."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sqlite3
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ohmo.ambient import inert
from ohmo.contracts.errors import StoreError
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.archive import backups, make_backup, prune, wrong_with
from ohmo.storefile.inspection import compact
from ohmo.storefile.lock import hold_home, staging_dir, sweep
from ohmo.storefile.recovery import examine
from ohmo.storefile.restore import JOURNAL, finish_restore, restore
from ohmo.storefile.salvage import Reconciled
from ohmo.storefile.transfer import transfer
from tests.programs import run_process

sys.path.insert(0, str(Path(__file__).parent))
from tests.unit.storefile.homes import furnished, markers, say

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def test_a_backup_holds_the_home_and_nothing_that_is_made_anew(home: Path) -> None:
    database = furnished(home)
    # the daemon is in the middle of a transaction
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("BEGIN IMMEDIATE")
        say(writer, 77, waiting=True)
        made = make_backup(home, database, home / "backups", NOW)
    with tarfile.open(made.path) as tar:
        names = {member.name for member in tar if member.isfile()}
    assert names == set(
        """
        manifest.json ohmo.db config.yaml .env SOUL.md memory/a/note.md skills/x/SKILL.md
        state/matrix/crypto.db
    """.split()
    )
    assert made.rows["inbox"] == 20
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert wrong_with(made.path) is None
    assert [path.name for path in (home / "backups").iterdir()] == [made.path.name]


@pytest.mark.parametrize("part", ["cut", "flipped", "empty", "foreign", "escaping", "link"])
def test_what_is_not_a_whole_backup_is_refused_and_changes_nothing(part: str, home: Path) -> None:
    database = furnished(home)
    path = make_backup(home, database, home / "backups", NOW).path
    raw = path.read_bytes()
    if part == "cut":
        path.write_bytes(raw[: len(raw) // 2])
    elif part == "flipped":
        plain = bytearray(gzip.decompress(raw))
        at = plain.index(b"note")
        plain[plain.index(b"soul") : plain.index(b"soul") + 4] = b"evil"
        assert at
        path.write_bytes(gzip.compress(bytes(plain)))
    elif part == "empty":
        path.write_bytes(b"")
    elif part == "foreign":
        path.write_bytes(gzip.compress(b"not a tar"))
    else:
        with tarfile.open(path, "w:gz") as tar:
            member = tarfile.TarInfo("memory/../../evil" if part == "escaping" else "SOUL.md")
            if part == "link":
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member, io.BytesIO())
    before = {name: name.read_bytes() for name in home.rglob("*") if name.is_file()}
    assert wrong_with(path)
    with pytest.raises(StoreError, match="nothing was changed"):
        restore(path, home, NOW)
    assert {name: name.read_bytes() for name in home.rglob("*") if name.is_file()} == before
    assert not (home.parent / "evil").exists()


def test_restore_brings_everything_back_and_keeps_what_it_replaces(home: Path) -> None:
    database = furnished(home)
    path = make_backup(home, database, home / "backups", NOW).path
    database.write_bytes(b"ruin")
    (home / "ohmo.db-wal").write_bytes(b"old log")
    (home / "SOUL.md").write_text("changed")
    done = restore(path, home, NOW)
    assert len(markers(database)) == 20
    assert (home / "SOUL.md").read_text() == "soul"
    assert not (home / "ohmo.db-wal").exists()
    assert done.aside is not None
    assert (done.aside / "ohmo.db").read_bytes() == b"ruin"
    assert (done.aside / "ohmo.db-wal").read_bytes() == b"old log"
    assert (done.aside / "SOUL.md").read_text() == "changed"
    assert not (home / JOURNAL).exists()


def test_a_home_that_moved_goes_on_with_what_was_open(home: Path, tmp_path: Path) -> None:
    path = make_backup(home, furnished(home), home / "backups", NOW).path
    there = tmp_path / "there"
    there.mkdir()
    assert restore(path, there, NOW).reconciled is None
    assert sorted(set(markers(there / "ohmo.db").values())) == ["answered", "waiting"]


def test_what_happened_since_the_backup_is_not_done_again(home: Path, tmp_path: Path) -> None:
    database = furnished(home)
    with hold_home(home):  # the daemon works
        path = make_backup(home, database, home / "backups", NOW).path
    with closing(sqlite3.connect(database)) as later, later:
        later.execute(
            "UPDATE inbox SET state = 'ended', ending = 'answered', ended_at = 6 WHERE thread ="
            " 't1'"
        )
        later.execute("INSERT INTO seen VALUES ('telegram', '1', 'm', 't99', 1, 1)")
        say(later, 99, waiting=True)
    done = restore(path, home, NOW)
    # nine of the backup, and the one that only the replaced store knew
    assert done.reconciled == Reconciled(10, True)
    found = markers(database)
    assert {n: found[n] for n in (1, 3, 99)} == {1: "answered", 3: "dead", 99: "dead"}
    with closing(sqlite3.connect(database)) as store:
        # its platform may tell it again
        assert store.execute("SELECT thread FROM seen").fetchall() == [("t99",)]
        assert store.execute("PRAGMA foreign_key_check").fetchall() == []
    there = tmp_path / "elsewhere"
    there.mkdir()
    assert restore(path, there, NOW).reconciled == Reconciled(10, False)


def post(
    connection: sqlite3.Connection, id: str, thread: str, state: str, kind: str = "message"
) -> None:
    ended, error = (None, None) if state == "ready" else (7, "refused" if state == "dead" else None)
    connection.execute(
        "INSERT INTO outbox (id, thread, seq, channel, account, kind, body, state, at, ready_at,"
        " expires, ttl, ended_at, error) VALUES (?, ?, 5 + (SELECT COUNT(*) FROM outbox),"
        " 'telegram', '1', ?, '{}', ?, 1, 1, 1, 1, ?, ?)",
        (id, thread, kind, state, ended, error),
    )


def posts(database: Path) -> dict[str, tuple[str, str | None]]:
    with closing(sqlite3.connect(database)) as store:
        return {
            one: (state, error)
            for one, state, error in store.execute("SELECT id, state, error FROM outbox")
        }


def test_dead_letters_that_only_the_replaced_store_has_stay_dead_letters(home: Path) -> None:
    """What it has heard is no news, so nobody would ever tell them again."""
    database = furnished(home)
    with hold_home(home):
        path = make_backup(home, database, home / "backups", NOW).path
    with closing(sqlite3.connect(database)) as later, later:
        say(later, 98, waiting=True)
        later.execute(
            "UPDATE inbox SET state = 'ended', ending = 'dead', reason = 'poison', ended_at = 6"
            " WHERE thread = 't98'"
        )
        post(later, "dead", "t98", "dead")
        post(later, "sent", "t98", "sent")
        say(later, 99, waiting=False)
        post(later, "alone", "t99", "dead")
    assert restore(path, home, NOW).reconciled == Reconciled(11, True, 2)
    assert markers(database)[98] == "dead"
    with closing(sqlite3.connect(database)) as store:
        assert store.execute("SELECT reason FROM inbox WHERE thread = 't98'").fetchall() == [
            ("poison",)
        ]
        assert store.execute("PRAGMA foreign_key_check").fetchall() == []
    assert posts(database) == {"dead": ("dead", "refused"), "alone": ("dead", "refused")}


def test_what_was_open_in_a_house_whose_numbers_meet_those_of_the_backup_gets_numbers_of_its_own(
    home: Path, tmp_path: Path
) -> None:
    """Two houses in the same chats: the one thread, numbered twice. Then one's backup is taken back
    over the other, and this one's over that."""
    (other := tmp_path / "other").mkdir()
    paths: list[Path] = []
    for root, name in ((home, "mine"), (other, "theirs")):
        with closing(sqlite3.connect(furnished(root, 1))) as store, store:
            store.execute("UPDATE threads SET next_seq = 9")
            for seq, what in (
                (2, f"{name} waits"),
                (3, f"{name} is dead"),
                (4, f"{name} has an end"),
            ):
                ended = (
                    (None, None, "waiting")
                    if seq == 2
                    else ("dead" if seq == 3 else "answered", 5, "ended")
                )
                store.execute(
                    "INSERT INTO inbox (thread, seq, sort, kind, message, album, person, said_at,"
                    " at, ready_at, body, ending, ended_at, state) VALUES ('t0', ?, '1', 'message',"
                    " ?, '', '1', 1, 1, 1, ?, ?, ?, ?)",
                    (seq, what, what, *ended),
                )
                store.execute(
                    "INSERT INTO seen VALUES ('telegram', '1', ?, 't0', ?, 1)", (what, seq)
                )
            for one in ("goes", "is dead"):
                post(store, f"{name} {one}", "t0", "dead" if one == "is dead" else "ready")
            store.execute(
                "INSERT INTO inbox (thread, seq, sort, kind, message, album, person, said_at, at,"
                " ready_at, body, state, ending, ended_at) VALUES ('t0', ?, '7', 'message', 'of"
                " both', '', '1', 1, 1, 1, ?, ?, ?, ?)",
                (
                    7,
                    name,
                    *(("waiting", None, None) if name == "mine" else ("ended", "answered", 5)),
                ),
            )
        with hold_home(root):
            paths.append(make_backup(root, root / "ohmo.db", tmp_path / name, NOW).path)
    there = tmp_path / "there"
    there.mkdir()
    (there / "memory").mkdir()
    assert restore(paths[0], there, NOW).aside is None  # an empty folder is nothing to keep
    for turn, path in enumerate((paths[1], paths[0], paths[1], paths[1]), 1):
        restore(path, there, NOW + timedelta(hours=turn))
        with closing(sqlite3.connect(there / "ohmo.db")) as store:
            dead = [
                row[0]
                for row in store.execute(
                    "SELECT message FROM inbox WHERE ending = 'dead' ORDER BY message"
                )
            ]
            assert dead == ["mine is dead", "mine waits", "theirs is dead", "theirs waits"], turn
            unsent = [
                row[0]
                for row in store.execute("SELECT id FROM outbox WHERE state = 'dead' ORDER BY id")
            ]
            assert unsent == ["mine goes", "mine is dead", "theirs goes", "theirs is dead"], turn
            numbers = store.execute(
                "SELECT seq FROM inbox WHERE thread = 't0' UNION ALL SELECT seq FROM outbox WHERE"
                " thread = 't0'"
            ).fetchall()
            assert len(numbers) == len(set(numbers)), turn
            assert (
                max(numbers)[0]
                < store.execute("SELECT next_seq FROM threads WHERE thread = 't0'").fetchone()[0]
            )
            names = (
                "SELECT message, event_key FROM inbox i JOIN seen s ON s.thread = i.thread AND"
                " s.seq = i.seq WHERE ending = 'dead'"
            )
            assert [row for row in store.execute(names) if row[0] != row[1]] == []
            assert store.execute("PRAGMA foreign_key_check").fetchall() == []


def test_of_a_damaged_store_that_is_replaced_what_was_open_and_can_be_read_is_not_lost(
    home: Path,
) -> None:
    database = furnished(home)
    with hold_home(home):
        path = make_backup(home, database, home / "backups", NOW).path
    with closing(sqlite3.connect(database)) as later:
        for n in range(100, 140):
            say(later, n, waiting=True)
        later.commit()
        (size,) = later.execute("PRAGMA page_size").fetchone()
        (page,) = later.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'audit'"
        ).fetchone()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    done = restore(path, home, NOW)
    assert done.reconciled == Reconciled(50, False)
    assert {markers(database)[n] for n in range(100, 140)} == {"dead"}


def test_a_damaged_store_that_cannot_be_looked_through_for_want_of_room_holds_no_restore_up(
    home: Path,
) -> None:
    database = furnished(home)
    with hold_home(home):
        path = make_backup(home, database, home / "backups", NOW).path
    with database.open("r+b") as file:
        file.seek(1024)
        file.write(b"\xff" * 200_000)
        file.truncate(16 << 20)  # there is room for the backup, and none for one more copy of this
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, limits[1]))
    try:
        done = restore(path, home, NOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.reconciled == Reconciled(10, False)
    assert len(markers(database)) == 20
    assert not list(home.glob(".*-*"))


def test_whoever_was_shown_out_since_the_backup_is_not_let_in_again(home: Path) -> None:
    database = furnished(home)
    with closing(sqlite3.connect(database)) as store, store:
        for person in ("out", "in"):
            store.execute(
                "INSERT INTO people VALUES ('telegram', '1', ?, 'Ann', 'user', NULL, NULL,"
                " 'owner', 1)",
                (person,),
            )
    with hold_home(home):
        path = make_backup(home, database, home / "backups", NOW).path
    with closing(sqlite3.connect(database)) as later, later:
        later.execute("UPDATE people SET role = 'revoked', at = 2 WHERE person = 'out'")
        later.execute(
            "INSERT INTO people VALUES ('telegram', '1', 'stranger', 'Bob', 'revoked', NULL, NULL,"
            " 'owner', 2)"
        )
        later.execute(
            "INSERT INTO people VALUES ('telegram', '1', 'new', 'Eve', 'admin', NULL, NULL,"
            " 'owner', 2)"
        )
    restore(path, home, NOW)
    with closing(sqlite3.connect(database)) as store:
        found = dict(store.execute("SELECT person, role FROM people").fetchall())
    assert found == {"out": "revoked", "in": "user", "stranger": "revoked"}


def test_an_answer_that_was_on_its_way_is_dropped_only_where_it_is_known_to_have_come_to_its_end(
    home: Path, tmp_path: Path
) -> None:
    database = furnished(home)
    with closing(sqlite3.connect(database)) as store, store:
        for one in ("went", "waits", "failed"):
            post(store, one, "t0", "ready")
        post(store, "draft", "t0", "ready", "draft")
    with hold_home(home):
        path = make_backup(home, database, home / "backups", NOW).path
    (there := tmp_path / "there").mkdir()
    restore(path, there, NOW)  # the disk with the store is gone
    assert {one: state for one, (state, _) in posts(there / "ohmo.db").items()} == {
        "went": "dead",
        "waits": "dead",
        "failed": "dead",
        "draft": "dropped",
    }
    with closing(sqlite3.connect(database)) as later, later:
        later.execute("UPDATE outbox SET state = 'sent', ended_at = 7 WHERE id = 'went'")
        later.execute("UPDATE outbox SET state = 'dead', ended_at = 7 WHERE id = 'failed'")
    restore(path, home, NOW)
    assert {one: state for one, (state, _) in posts(database).items()} == {
        "went": "dropped",
        "waits": "dead",
        "failed": "dead",
        "draft": "dropped",
    }


def test_a_restore_that_was_killed_is_finished_by_whoever_comes_next(home: Path) -> None:
    """After every single step: the journal says what is left to do."""
    database = furnished(home)
    path = make_backup(home, database, home / "backups", NOW).path
    (home / "SOUL.md").write_text("changed")
    deaths = 0
    for death in range(1, 40):
        process = os.fork()
        if process == 0:  # dies at its n-th step, as by kill -9
            hits = iter(range(1, 1_000))

            def die(name: str, at: int = death, hits: Iterator[int] = hits) -> None:
                if next(hits) == at:
                    os._exit(9)

            restore(path, home, NOW, die)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        finish_restore(home)
        assert (home / "SOUL.md").read_text() == "soul"
        assert len(markers(database)) == 20
        assert not list(home.glob(".restore-*"))
        if code == 0:
            break
        deaths += 1
        (home / "SOUL.md").write_text("changed")
    assert deaths > 3


def test_old_backups_go_and_the_newest_stay(home: Path) -> None:
    furnished(home)
    for day in range(5):
        make_backup(home, home / "ohmo.db", home / "backups", NOW + timedelta(days=day))
    assert len(prune(home / "backups", 2)) == 3
    assert [one.made for one in backups(home / "backups")] == [
        NOW + timedelta(days=3),
        NOW + timedelta(days=4),
    ]


def test_a_full_disk_leaves_no_half_backup(home: Path) -> None:
    furnished(home)
    with pytest.raises(StoreError, match="cannot be written"):
        make_backup(home, home / "ohmo.db", Path("/proc/nowhere"), NOW)


def test_what_a_damaged_store_lost_comes_from_the_newest_backup(home: Path) -> None:
    database = furnished(home)
    make_backup(home, database, home / "backups", NOW)
    database.write_bytes(b"")
    health = examine(database, lambda: NOW, inert, MIGRATIONS, home / "backups")
    assert health.state == "replaced"
    assert "backup of 2026-11-21 12:00" in health.detail
    found = markers(database)
    assert len(found) == 20
    # neither answered again nor silently dropped
    assert {what for n, what in found.items() if n % 2} == {"dead"}
    assert {what for n, what in found.items() if not n % 2} == {"answered"}


def test_a_damaged_store_without_backup_says_so(home: Path) -> None:
    database = furnished(home)
    database.write_bytes(b"")
    assert (
        "There is no backup"
        in examine(database, lambda: NOW, inert, MIGRATIONS, home / "backups").detail
    )


def test_a_store_is_moved_row_by_row_into_an_empty_file_only(home: Path) -> None:
    database = furnished(home)
    target = home / "other" / "moved.db"
    rows = transfer(f"sqlite:///{database}", f"sqlite:///{target}")
    assert rows["inbox"] == 20
    assert markers(target) == markers(database)
    with pytest.raises(StoreError, match="exists already"):
        transfer(f"sqlite:///{database}", f"sqlite:///{target}")
    with pytest.raises(StoreError, match="already"):
        transfer(f"sqlite:///{database}", f"sqlite:///{database}")
    with pytest.raises(StoreError, match="expected sqlite"):
        transfer(f"sqlite:///{database}", "mysql://x")


_MOVING = """
import sys
from ohmo.ambient import from_environment
from ohmo.storefile.transfer import transfer
transfer(sys.argv[1], sys.argv[2], from_environment({"OHMO_FAILPOINTS": "move.step=kill@2"}))
"""


def test_a_move_that_was_killed_leaves_no_half_store_and_is_made_again(home: Path) -> None:
    source, target = f"sqlite:///{furnished(home)}", home / "there" / "ohmo.db"
    died = subprocess.run(
        [sys.executable, "-c", _MOVING, source, f"sqlite:///{target}"],
        check=False,
        timeout=60,
        capture_output=True,
    )
    assert died.returncode == -9, died.stderr
    assert not target.exists()  # else a daemon would begin there, empty and without a word
    assert transfer(source, f"sqlite:///{target}")["inbox"] == 20
    assert [path.name for path in target.parent.iterdir()] == ["ohmo.db"]


def test_compacting_gives_pages_back_and_keeps_rows(home: Path) -> None:
    database = furnished(home)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE big (x BLOB)")
        connection.execute("INSERT INTO big VALUES (zeroblob(3000000))")
        connection.execute("DROP TABLE big")
    before, after = compact(database)
    assert before - after > 2_000_000
    assert len(markers(database)) == 20


def test_the_manifest_can_be_read_by_people(home: Path) -> None:
    furnished(home)
    made = make_backup(home, home / "ohmo.db", home / "named.tar.gz", NOW, ohmo="0.1.0")
    assert made.path == home / "named.tar.gz"
    with tarfile.open(made.path) as tar:
        file = tar.extractfile("manifest.json")
        assert file is not None
        told = json.load(file)
    assert told["ohmo"] == "0.1.0"
    assert len(told["files"]["SOUL.md"]["sha256"]) == 64


@pytest.mark.parametrize("kind", ["larger than the disk", "sparse", "twice"])
def test_an_archive_made_to_hurt_is_refused_before_it_is_unpacked(kind: str, home: Path) -> None:
    path = home / "evil.tar.gz"
    member = tarfile.TarInfo("SOUL.md")
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        if kind == "twice":
            tar.addfile(member, io.BytesIO())
        if kind == "sparse":
            member.pax_headers = {
                "GNU.sparse.major": "1",
                "GNU.sparse.minor": "0",
                "GNU.sparse.realsize": str(1 << 60),
                "GNU.sparse.name": "SOUL.md",
            }
            body = b"1\n1152921504606846975\n1\n".ljust(512, b"\0") + b"x"
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
        elif kind == "twice":
            tar.addfile(member, io.BytesIO())
        else:
            member.size = 1 << 50
            tar.fileobj.write(member.tobuf(tarfile.GNU_FORMAT))  # type: ignore[union-attr] # no body follows
    with pytest.raises(
        StoreError, match=r"larger than the free space|which no backup of ohmo holds"
    ):
        restore(path, home, NOW)
    assert sorted(entry.name for entry in home.iterdir()) == ["evil.tar.gz"]


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def pax(record: bytes) -> bytes:
    line = next(
        found
        for n in range(len(record) + 3, len(record) + 12)
        if len(found := b"%d %s\n" % (n, record)) == n
    )
    return header("x", len(line), tarfile.XHDTYPE) + line.ljust(-(-len(line) // 512) * 512, b"\0")


LONG, END = 80 << 20, b"\0" * 1024  # bytes no reader may take into memory because a header says so
HURTS = {
    "an extended header": lambda: header("x", LONG, tarfile.XHDTYPE) + b"\0" * LONG,
    "a global one": lambda: header("x", LONG, tarfile.XGLTYPE) + b"\0" * LONG,
    "a long name": lambda: header("x", LONG, tarfile.GNUTYPE_LONGNAME) + b"\0" * LONG,
    "a list": lambda: header("manifest.json", LONG) + b"\0" * LONG,
    "a list under another name": lambda: (
        pax(b"path=manifest.json") + header("SOUL.md", LONG) + b"\0" * LONG
    ),
    "a size said later": lambda: pax(b"size=%d" % (1 << 50)) + header("SOUL.md", 0) + END,
    "a size below nothing": lambda: pax(b"size=-512") + header("SOUL.md", 0) + END,
    "headers of headers": lambda: pax(b"mtime=1") * 3_000 + header("SOUL.md", 0) + END,
    "a device": lambda: header("SOUL.md", 0, tarfile.CHRTYPE) + END,
    "a deep list": lambda: (
        header("manifest.json", 200_000) + (b"[" * 200_000).ljust(200_192, b"\0") + END
    ),
}
FRUGAL = """
import resource, sys
from pathlib import Path
from ohmo.storefile.archive import wrong_with
here = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (here + (48 << 20), here + (48 << 20)))
assert wrong_with(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("what", HURTS)
def test_a_small_archive_fills_neither_memory_nor_disk(what: str, home: Path) -> None:
    path = home / "evil.tar.gz"
    path.write_bytes(gzip.compress(HURTS[what](), 1))
    with pytest.raises(StoreError, match="nothing was changed"):
        restore(path, home, NOW)
    assert sorted(entry.name for entry in home.iterdir()) == ["evil.tar.gz"]
    done = run_process(sys.executable, "-c", FRUGAL, path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_home_of_many_files_is_not_too_many_names(home: Path) -> None:
    path = home / "many.tar.gz"
    with gzip.open(path, "wb", 1) as packed:
        for _ in range(130):
            packed.write(
                (pax(b"mtime=1700000000.123456789") + header("memory", 0, tarfile.DIRTYPE)) * 1_000
            )
        packed.write(END)
    assert "it holds 'memory'" in str(wrong_with(path))  # twice: its list was read to the end


def test_names_of_every_length_and_script_come_back(home: Path) -> None:
    names = [
        "memory/" + "d" * 120 + "/" + "n" * 200,
        "memory/Größe 大小 \U0001f600.md",
        "memory/" + "/".join(["x" * 30] * 20) + "/y",
    ]
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    path = make_backup(home, None, home / "backups", NOW).path
    for name in names:
        (home / name).unlink()
    restore(path, home, NOW)
    assert [(home / name).read_text() for name in names] == names


_DYING = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from ohmo.storefile.lock import staging_dir
home = Path(sys.argv[1])
with staging_dir(home) as room:
    (room / "copy").write_text("secret")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_backup_left_goes_at_once_and_what_a_living_one_makes_stays(
    tmp_path: Path,
) -> None:
    subprocess.run([sys.executable, "-c", _DYING, str(tmp_path)], check=False, timeout=60)
    assert len(list(tmp_path.glob(".backup-*/work/copy"))) == 1
    with staging_dir(tmp_path) as room:
        (room / "copy").write_text("mine")
        assert sweep(tmp_path) == 1
        assert list(tmp_path.glob(".backup-*/work/copy")) == [room / "copy"]
    assert not list(tmp_path.glob(".backup-*"))


def test_a_folder_that_cannot_be_looked_at_is_swept_without_a_word(tmp_path: Path) -> None:
    # stat() raises ENAMETOOLONG, as it does EACCES or EIO, also for root
    assert sweep(tmp_path / ("n" * 300)) == 0


def test_a_workroom_without_its_mark_goes_when_it_is_old_and_stays_when_it_may_just_begin(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / ".backup-old", tmp_path / ".backup-new"
    for room in (old, new):
        (room / "work").mkdir(parents=True)
    hours_ago = old.stat().st_mtime - 7_200
    os.utime(old, (hours_ago, hours_ago))
    assert sweep(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == [new.name]
