"""The store, without a daemon: its file, its laws, its dead letters, its backups."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from channels.text import wall
from ohmo.database.migrations import NewerSchema
from ohmo.doctor.check import Check, Facts, Finding, needs, note, ok, problem, skipped, warning
from ohmo.storefile import archive, inspection

BIG_LOG = 256 * 2**20  # bytes of write-ahead log that is folded in by nobody
HOLLOW = 64 * 2**20  # bytes of free pages worth giving back
OLD = timedelta(minutes=10)
ELSEWHERE = "the store is not a file"


def _file(facts: Facts) -> Path | Finding:
    """The file to look at, or why there is none."""
    path = facts.database
    if path is None:
        return skipped(ELSEWHERE)
    return path if path.exists() else skipped("there is no store yet; the first start makes it")


def _with_store(look: Callable[[Facts, sqlite3.Connection], Finding]) -> Callable[[Facts], Finding]:
    """With a read-only connection; a store that cannot be read is ``store.sound``'s to tell."""

    def examine(facts: Facts) -> Finding:
        path = _file(facts)
        if isinstance(path, Finding):
            return path
        try:
            with closing(inspection.reading(path)) as connection:
                return look(facts, connection)
        except sqlite3.Error as error:
            return skipped(f"the store cannot be read ({error}); see store.sound")

    return examine


@needs(_file)
def sound(_: Facts, path: Path) -> Finding:
    try:
        found = inspection.problem(path)
    except NewerSchema:
        return skipped("see store.version")
    except sqlite3.Error as error:
        found = str(error)
    if found is None:
        return ok(str(path))
    return problem(
        f"{path}: damaged ({found})",
        "stop ohmo, then ohmo restore with the newest backup; a start puts the file aside and"
        " salvages",
    )


@needs(_file)
def version(_: Facts, path: Path) -> Finding:
    try:
        inspection.version(path)
    except NewerSchema as error:
        return problem(
            str(error), "start the newer ohmo again, or ohmo restore a backup of this version"
        )
    except sqlite3.Error:
        return skipped("see store.sound")
    return ok()


@needs(_file)
def log(_: Facts, path: Path) -> Finding:
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    if size < BIG_LOG:
        return ok()
    return warning(
        f"{log}: {size // 2**20} MiB are not folded into the store",
        "stop ohmo, then ohmo store compact",
    )


@_with_store
def hollow(_: Facts, connection: sqlite3.Connection) -> Finding:
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    if free * size < HOLLOW or free * 2 < pages:
        return ok()
    return note(
        f"{free * size // 2**20} MiB of {pages * size // 2**20} MiB are empty pages",
        "stop ohmo, then ohmo store compact",
    )


@_with_store
def laws(_: Facts, connection: sqlite3.Connection) -> Finding:
    found = inspection.broken_laws(connection)
    return (
        problem(
            f"{len(found)} rules of the store are broken, the first: {found[0]}",
            "keep a copy (ohmo backup), then ohmo inbox audit and report it",
        )
        if found
        else ok()
    )


@_with_store
def dead_letters(_: Facts, connection: sqlite3.Connection) -> Finding:
    count = int(
        connection.execute(
            "SELECT COUNT(*) FROM inbox WHERE state = 'ended' AND ending = 'dead'"
        ).fetchone()[0]
    )
    return (
        warning(
            f"{count} messages failed for good (dead letters)",
            "ohmo inbox list --state dead, then ohmo inbox retry ID",
        )
        if count
        else ok()
    )


@_with_store
def dead_posts(_: Facts, connection: sqlite3.Connection) -> Finding:
    count = int(
        connection.execute(
            "SELECT COUNT(*) FROM outbox WHERE state = 'dead' AND kind <> 'draft'"
        ).fetchone()[0]
    )
    return (
        warning(
            f"{count} answers could not be delivered", "ohmo outbox list, then ohmo outbox retry ID"
        )
        if count
        else ok()
    )


@_with_store
def waiting(facts: Facts, connection: sqlite3.Connection) -> Finding:
    row = connection.execute(
        "SELECT MIN(at), COUNT(*) FROM inbox WHERE state = 'waiting' AND kind IN ('message','wake')"
    ).fetchone()
    if (
        row[0] is None
        or int(facts.now.timestamp() * 1000) - int(row[0]) < OLD.total_seconds() * 1000
    ):
        return ok()
    step = (
        "ohmo run"
        if facts.holder is None
        else "ohmo inbox list --state waiting, then ohmo inbox why ID"
    )
    return warning(
        f"{row[1]} messages wait, the oldest for more than {OLD.seconds // 60} minutes", step
    )


@_with_store
def clock(facts: Facts, connection: sqlite3.Connection) -> Finding:
    newest = connection.execute("SELECT MAX(at) FROM inbox").fetchone()[0]
    ahead = 0 if newest is None else int(newest) - int(facts.now.timestamp() * 1000)
    if ahead < 300_000:
        return ok()
    return problem(
        f"the newest message is {ahead // 60_000} minutes in the future: the clock was set back",
        "if it is wrong now, set it right (timedatectl); if it was wrong before, this ends when"
        " that time has come",
    )


@_with_store
def asking(_: Facts, connection: sqlite3.Connection) -> Finding:
    count = int(
        connection.execute("SELECT COUNT(*) FROM people WHERE role = 'asking'").fetchone()[0]
    )
    return (
        note(
            f"{count} people ask to be let in", "ohmo pairing list, then ohmo pairing approve CODE"
        )
        if count
        else ok()
    )


def _folder(facts: Facts) -> Path:
    written = None if facts.config is None else facts.config.backups.folder
    return written or facts.home.backups


@needs(_file)
def recent(facts: Facts, _: Path) -> Finding:
    if facts.config is None or facts.config.backups.every is None:
        return skipped("backups.every says never")
    found = archive.backups(_folder(facts), facts.now)
    if not found:
        return note(
            f"there is no backup in {_folder(facts)} yet",
            "ohmo backup makes one; the daemon does so by itself",
        )
    age = facts.now - found[-1].made
    if age < -timedelta(hours=1):
        return warning(
            f"every backup is dated in the future, the newest {wall(found[-1].made, facts.zone)}",
            "set the clock right (timedatectl), then ohmo backup",
        )
    if age <= 2 * facts.config.backups.every + timedelta(hours=1):
        return ok(f"the newest is {age} old")
    return warning(
        f"the newest backup is {age.days} days old",
        "ohmo backup, and ohmo logs --level error tells why the daemon made none",
    )


def whole(facts: Facts) -> Finding:
    found = archive.backups(_folder(facts), facts.now)
    if not found:
        return skipped("there is no backup yet")
    wrong = archive.wrong_with(found[-1].path)
    return (
        problem(f"{found[-1].path}: {wrong}", "delete it, then ohmo backup makes another")
        if wrong
        else ok(str(found[-1].path))
    )


CHECKS = (
    Check("store.sound", "the store is whole", sound),
    Check("store.version", "the store is not newer than this ohmo", version),
    Check("store.log", "its log is folded in", log),
    Check("store.hollow", "it holds no large emptiness", hollow),
    Check("store.laws", "its rules hold", laws),
    Check("store.dead_letters", "no message ended unanswered", dead_letters),
    Check("store.dead_posts", "every answer was delivered", dead_posts),
    Check("store.waiting", "nothing waits long", waiting),
    Check("store.clock", "the clock goes forward", clock),
    Check("store.asking", "nobody waits at the door", asking),
    Check("backup.recent", "there is a recent backup", recent),
    Check("backup.whole", "the newest backup is whole", whole),
)
