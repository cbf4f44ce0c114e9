"""Takes an upgrade back: the store when its form was changed, then the link to the version in
force. Whoever starts ohmo next does so when whoever upgraded was killed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from channels.durable import settle_path, write_whole
from channels.record import record
from ohmo.regular_file import open_regular
from ohmo.service.versions import BUILT_FOR, Versions, installed, locked
from ohmo.storefile.lock import is_held

SHOWN = "upgrade.shown"  # in run/ of the home: the version on trial says there that it runs
WAIT = 60.0  # seconds to wait for somebody else who takes the upgrade back
LOOK = 0.02  # seconds between two looks meanwhile


@record
class Attempt:
    """One upgrade whose new version is in force and has yet to show that it runs."""

    name: str  # folder of the environment on trial; no other upgrade has the same
    previous: str  # folder of the environment to go back to; empty: the one installed first
    home: str
    kept: str  # folder of the copies of the store's files
    aside: str  # folder for a store that the previous version cannot read
    connected: list[str]  # channels that were connected before and have to be again

    def write(self, file: Path) -> None:
        """Whole or not at all; raises OSError."""
        write_whole(file, json.dumps(asdict(self)), mode=0o644)

    @classmethod
    def read(cls, file: Path) -> Attempt:
        """Raises OSError; ValueError when the file is damaged."""
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except TypeError as error:
            raise ValueError(f"{file}: damaged") from error

    def has_shown(self) -> bool:
        """Whether a daemon wrote down that this very version runs."""
        shown = Path(self.home) / "run" / SHOWN
        with suppress(OSError), as_owner(Path(self.home)), open_regular(shown) as file:
            return file.read(200) == self.name.encode()
        return False


def resume(versions: Versions, say: Callable[[str], None], *, shares: bool = True) -> None:
    """What an interrupted upgrade needs at a start. Nothing while somebody works on it, or while
    what it put in force runs: a version that did not show that it runs does not stay otherwise.
    ``shares``: until this process ends, nobody takes the version that is in force from it."""
    try:
        with turn(versions.trial) as is_ours:
            if not is_ours:
                return
            attempt = Attempt.read(versions.trial)
            if attempt.has_shown():
                # nothing hangs on it: its owner clears up at their start
                with suppress(PermissionError):
                    forget(versions, attempt)
                return
            if versions.owned() or _is_used(versions, attempt):
                running = locked(_mark(versions, attempt), fcntl.LOCK_SH) if shares else None
                if running is not None:
                    # what this process becomes has it, to its end
                    os.set_inheritable(running, True)
                return
            changed = go_back(versions, attempt)
            store = f"; its store too, the changed one lies in {attempt.aside}" if changed else ""
            say(
                "an upgrade was interrupted before the new version had shown that it runs; the"
                f" version of before is back{store}"
            )
    except (OSError, ValueError) as error:
        say(
            f"an upgrade was interrupted and cannot be taken back ({error}); run as the owner of"
            f" {versions.folder}: {versions.python} -m ohmo.service.rollback"
        )


def _mark(versions: Versions, attempt: Attempt) -> Path:
    """The file of which everything that was started from the version on trial shares a lock."""
    return versions.folder / attempt.name / BUILT_FOR


def _is_used(versions: Versions, attempt: Attempt) -> bool:
    """Whether something runs that was started from the version on trial, or a daemon does in that
    home."""
    mark = _mark(versions, attempt)
    descriptor = locked(mark, fcntl.LOCK_EX)
    if descriptor is not None:
        os.close(descriptor)
    elif mark.exists():
        return True
    with as_owner(Path(attempt.home)):
        return is_held(Path(attempt.home) / "lock", unclear=False)


@contextmanager
def turn(trial: Path) -> Generator[bool]:
    """One at a time decides; whoever starts meanwhile waits. False: nothing is on trial any more,
    or it takes too long. Raises OSError."""
    until = time.monotonic() + WAIT
    descriptor = locked(trial, fcntl.LOCK_EX)
    while descriptor is None and trial.exists() and time.monotonic() < until:
        time.sleep(LOOK)
        descriptor = locked(trial, fcntl.LOCK_EX)
    try:
        yield descriptor is not None and trial.exists()
    finally:
        if descriptor is not None:
            os.close(descriptor)


def go_back(
    versions: Versions, attempt: Attempt, reached: Callable[[str], None] = lambda _: None
) -> bool:
    """Puts the previous version in force. True: with the store of before, the changed one lies
    aside now. Killed at any point (``reached`` hears each), the next one goes on from there. Raises
    OSError."""
    if not os.access(versions.folder, os.W_OK):  # before the store is touched
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(versions.folder))
    with as_owner(Path(attempt.home)):
        changed = _restore(Path(attempt.home), Path(attempt.kept), Path(attempt.aside), reached)
    reached("link")
    versions.switch(versions.folder / attempt.previous if attempt.previous else versions.base)
    forget(versions, attempt, reached)
    return changed


def forget(
    versions: Versions, attempt: Attempt, reached: Callable[[str], None] = lambda _: None
) -> None:
    """The version in force stays. Raises OSError."""
    reached("over")
    versions.trial.unlink(missing_ok=True)
    settle_path(versions.folder)
    reached("clear up")
    with suppress(OSError), as_owner(Path(attempt.home)):
        (Path(attempt.home) / "run" / SHOWN).unlink(missing_ok=True)


def _restore(home: Path, kept: Path, aside: Path, reached: Callable[[str], None]) -> bool:
    """The store of before, when the new version changed its form: otherwise what arrived meanwhile
    would be lost."""
    leaving = aside.with_name(f"{aside.name}.part")
    if not aside.exists():
        if not leaving.exists() and form(home / "ohmo.db") == form(kept / "ohmo.db"):
            return False
        make(leaving)
        for file in store_files(home):
            reached(f"put {file.name} aside")
            file.replace(leaving / file.name)
        leaving.rename(aside)
    for file in store_files(kept):
        reached(f"copy {file.name}")
        copy(file, home / file.name)
    return True


def store_files(folder: Path) -> list[Path]:
    """The store's file and what SQLite keeps beside it, the file itself last: where it is, the
    others are."""
    files = [file for file in folder.glob("ohmo.db*") if file.is_file()]
    return sorted(files, key=lambda file: -len(file.name))


def copy(source: Path, target: Path) -> None:
    """Whole or not at all. Raises OSError."""
    fresh = target.with_name(f".{target.name}.returning")
    fresh.unlink(missing_ok=True)
    shutil.copy2(source, fresh)
    settle_path(fresh)
    fresh.replace(target)


def make(folder: Path) -> None:
    """A folder only for whoever makes it."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700)


@contextmanager
def as_owner(home: Path) -> Generator[None]:
    """As the person to whom ``home`` belongs, when root upgrades: what they put there, a link above
    all, leads root nowhere, and they can read what is made. Raises OSError: root of a container
    that may not be anybody else."""
    # whose the home is, or else the folder it lies in, whose owner could put another in its place;
    # None: root's all the way up
    owner: os.stat_result | None = None
    for path in (home, *home.parents):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if status.st_uid != 0:
                owner = status
                break
    if os.geteuid() != 0 or owner is None:
        yield
        return
    groups = os.getgroups()
    group = os.getegid()
    os.setgroups([owner.st_gid])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def form(database: Path) -> int:
    """The number of the store's schema; 0 when there is none."""
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(database)) as connection:
            rows = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchall()
    except sqlite3.Error:
        return 0
    return int(rows[0][0]) if rows else 0


if __name__ == "__main__":  # root runs this before each start of the system unit
    resume(installed(), lambda line: print(f"ohmo: {line}", file=sys.stderr), shares=False)
