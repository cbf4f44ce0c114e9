"""Takes an upgrade back from wherever it was interrupted; needs nothing of ohmo, which may lie in
pieces then: a hook of the interpreter runs a copy of it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager, suppress
from pathlib import Path

FOLDER = ".ohmo-upgrade"  # beside site-packages, as long as an upgrade is under way
# the site module of Python runs a line of such a file that begins with import, at every start of
# the interpreter
HOOK = "ohmo-upgrade.pth"
SUPERVISOR = "ohmo.service.supervisor"
# in run/ of the home: the daemon that was tried says there that it showed what it can
SHOWN = "upgrade.shown"
AS_HOOK = "ohmo_upgrade"  # the name under which the hook runs this file
WAIT = 60.0  # seconds to wait for somebody else who takes the upgrade back


class Undoing:
    """What was kept of an upgrade, and how far it is.

    Stages: ``keeping`` (copies are made), ``installing`` (packages may be torn), ``trying`` (the
    new version is whole and shows what it can); then on the way back ``aside`` and ``state`` (only
    when the store's form was changed), ``clearing`` and ``filling``; ``over`` in the end (only
    clearing up is left). Each can be repeated from any point of it, and going on to the next is one
    rename, which also a full disk allows. ``reached`` hears each step before it is made."""

    def __init__(self, folder: Path, reached: Callable[[str], None] = lambda _: None) -> None:
        self.folder = folder
        self.packages = folder / "packages"
        self._journal = folder / "journal.json"
        self._failed = folder / "failed"
        self._reached = reached
        self._lock = folder / "lock"
        self._turn = folder / "turn"
        self._running = folder / "running"

    def hold(self, *, make: bool = False) -> int | None:
        """A descriptor that owns this upgrade until it is closed, also by a child that inherited
        it; None: somebody else does. Raises OSError."""
        if make:  # everybody may look whether they are held: the service may run as somebody else
            self.folder.mkdir(exist_ok=True)
            self.folder.chmod(0o755)
            for lock in (self._lock, self._turn, self._running):
                lock.touch()
                lock.chmod(0o644)
        return _locked(self._lock, fcntl.LOCK_EX)

    def alone(self) -> bool:
        """Whether nobody owns it: whoever began it was killed."""
        descriptor = _locked(self._lock, fcntl.LOCK_SH)
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    @contextmanager
    def turn(self) -> Generator[bool]:
        """One at a time decides and takes back; an interpreter that starts meanwhile waits until
        packages are whole. False: it is over, or takes too long."""
        until = time.monotonic() + WAIT
        while (
            (descriptor := _locked(self._turn, fcntl.LOCK_EX)) is None
            and self._turn.exists()
            and time.monotonic() < until
        ):
            time.sleep(0.02)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def use(self) -> None:
        """Says, until this process ends, that it runs what is in place; a supervisor outlives the
        versions it starts and says nothing."""
        if SUPERVISOR not in sys.orig_argv:
            _locked(self._running, fcntl.LOCK_SH)

    def used(self) -> bool:
        """Whether a daemon runs in that home, or something runs that was started from a new version
        that is whole."""
        descriptor = _locked(self._running, fcntl.LOCK_EX)
        if descriptor is not None:
            os.close(descriptor)
        return (descriptor is None and self.stage() == "trying") or _held(
            Path(self.facts()["home"])
        )

    def stage(self) -> str:
        """Empty: nothing is under way."""
        return next((file.suffix[1:] for file in self.folder.glob("at.*")), "")

    def begin(
        self, *, site: Path, home: Path, kept: Path, aside: Path, connected: Iterable[str] = ()
    ) -> None:
        """``kept``: the copies of the store's files in ``home``; ``aside``: where a store goes that
        the old version cannot read. ``connected``: the channels that were, and have to be again."""
        facts = {
            "site": str(site),
            "home": str(home),
            "kept": str(kept),
            "aside": str(aside),
            "connected": "\n".join(connected),
        }
        facts["name"] = f"{time.time_ns():x}-{os.getpid()}"
        self._failed.mkdir(exist_ok=True)
        self._journal.write_text(json.dumps(facts), encoding="utf-8")
        self._journal.chmod(0o644)
        _settle(self._journal)
        (self.folder / "at.keeping").touch()
        _settle(self.folder)

    def arm(self) -> None:
        """Everything is kept: from here on the next start of the interpreter takes back what is not
        finished."""
        site, script = Path(self.facts()["site"]), self.folder / "undoing.py"
        shutil.copyfile(__file__, script)
        script.chmod(0o644)
        self._to("installing")
        line = (
            f"import os, runpy; p = {str(script)!r}; os.path.exists(p) and runpy.run_path(p,"
            f" run_name={AS_HOOK!r})\n"
        )
        (site / HOOK).write_text(line, encoding="utf-8")

    def tried(self) -> None:
        """The new version is whole: from here on it has to show what it can."""
        self._to("trying")

    def has_shown(self) -> bool:
        """Whether a daemon said so of this very upgrade."""
        facts = self.facts()
        home = Path(facts["home"])
        with (
            suppress(OSError),
            as_owner(home),
        ):  # whatever lies there: nobody waits for it, and no link is followed
            descriptor = os.open(
                home / "run" / SHOWN, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            )
            try:
                return os.read(descriptor, 200) == facts["name"].encode()
            finally:
                os.close(descriptor)
        return False

    def drop(self) -> None:
        """Whatever lies in site-packages now stays. Raises OSError."""
        self._to("over")
        facts = self.facts()
        shutil.rmtree(self.packages, ignore_errors=True)
        shutil.rmtree(self._failed, ignore_errors=True)
        self._reached("clear up")
        home = Path(facts["home"])
        with suppress(OSError), as_owner(home):
            (home / "run" / SHOWN).unlink(missing_ok=True)
        (Path(facts["site"]) / HOOK).unlink(missing_ok=True)
        shutil.rmtree(self.folder)

    def take_back(self) -> bool:
        """Packages and, when its form was changed, the store are those of before. True: the changed
        store lies aside now. Raises OSError."""
        facts = self.facts()
        site, home, kept, aside = (Path(facts[name]) for name in ("site", "home", "kept", "aside"))
        stage = self.stage()
        if stage in ("installing", "trying"):
            with as_owner(home):
                changed = form(home / "ohmo.db") != form(kept / "ohmo.db")
            stage = self._to("aside" if changed else "clearing")
        if (
            stage == "aside"
        ):  # the packages come last: until they are back this is found and gone on with
            with as_owner(home):
                make(aside)
                self._move(store_files(home), aside)
            stage = self._to("state")
        if stage == "state":
            with as_owner(home):
                for file in store_files(kept):
                    self._reached(f"copy {file.name}")
                    copy(file, home / file.name)
            stage = self._to("clearing")
        if stage == "clearing":
            self._move([path for path in sorted(site.iterdir()) if path.name != HOOK], self._failed)
            self._to("filling")
        self._move(sorted(self.packages.iterdir()), site)
        self.drop()
        with as_owner(home):
            return aside.exists()

    def _move(self, paths: list[Path], folder: Path) -> None:
        for path in paths:
            self._reached(f"move {path.name} to {folder.name}")
            target = folder / path.name
            if (
                target.is_dir() and not target.is_symlink()
            ):  # made meanwhile by an interpreter that started
                shutil.rmtree(target)
            path.replace(target)

    def facts(self) -> dict[str, str]:
        """What the journal says; empty: nothing is under way."""
        try:
            return json.loads(self._journal.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def _to(self, stage: str) -> str:
        self._reached(stage)
        present = self.stage()
        if present != stage:
            (self.folder / f"at.{present}").replace(self.folder / f"at.{stage}")
            _settle(self.folder)
        return stage


def store_files(folder: Path) -> list[Path]:
    """The store's file and what SQLite keeps beside it, the file itself last: where it is, the
    others are."""
    return sorted(
        (file for file in folder.glob("ohmo.db*") if file.is_file()),
        key=lambda file: -len(file.name),
    )


def copy(source: Path, target: Path) -> None:
    """Whole or not at all."""
    fresh = target.with_name(f".{target.name}.returning")
    fresh.unlink(missing_ok=True)
    shutil.copy2(source, fresh)
    _settle(fresh)
    fresh.replace(target)


def make(folder: Path) -> None:
    """A folder only for whoever makes it."""
    for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        one.mkdir(mode=0o700)


@contextmanager
def as_owner(home: Path) -> Generator[None]:
    """As the person to whom ``home`` belongs, when root upgrades: what they put there, a link above
    all, leads root nowhere, and they can read what is made. Raises OSError: root of a container
    that may not be anybody else."""
    owner = _owner(home)
    if os.geteuid() != 0 or owner is None:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([owner.st_gid])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def _owner(home: Path) -> os.stat_result | None:
    """Of the folder itself, else of the one it lies in, whose owner could put another in its place;
    None: root's all the way up."""
    for path in (home, *home.parents):
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        if found.st_uid != 0:
            return found
    return None


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


def _settle(path: Path) -> None:
    """``channels.durable.settle_path``, once more: see above."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(lock: Path, kind: int) -> int | None:
    """A descriptor with this lock; None: somebody else has it, or the file is gone. Raises
    OSError."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _held(home: Path) -> bool:
    """Whether a daemon runs there: ``ohmo.storefile.lock.is_held``, once more."""
    try:
        with as_owner(home):
            descriptor = os.open(home / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    with closing(os.fdopen(descriptor)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def resume(folder: Path, say: Callable[[str], None]) -> None:
    """What an interrupted upgrade needs now; nothing while somebody works on it, or while what it
    installed runs. Raises OSError."""
    undoing = Undoing(folder)
    with undoing.turn() as mine:
        if not mine:
            return
        owned = undoing.hold()
        if owned is None:
            undoing.use()
            return
        with closing(os.fdopen(owned)):
            _decide(undoing, say)


def _decide(undoing: Undoing, say: Callable[[str], None]) -> None:
    """A version that did not show what it can does not stay."""
    stage = undoing.stage()
    if stage in ("keeping", "over") or (stage == "trying" and undoing.has_shown()):
        with suppress(
            PermissionError
        ):  # the service runs as somebody else: whoever installed it clears up, and nothing hangs on it
            undoing.drop()
    elif stage and undoing.used():
        undoing.use()
    elif stage:
        aside = undoing.facts()["aside"]
        store = f"; its store too, the changed one lies in {aside}" if undoing.take_back() else ""
        tried = " before the new version had shown that it runs" if stage == "trying" else ""
        say(f"ohmo: an upgrade was interrupted{tried}; the version of before is back{store}")


if __name__ == AS_HOOK:
    here = Path(__file__).parent
    try:
        resume(here, lambda line: print(line, file=sys.stderr))
    except OSError as error:
        print(
            f"ohmo: an upgrade was interrupted and cannot be taken back ({error}); run as the owner"
            f" of {here}: {sys.executable} -c pass",
            file=sys.stderr,
        )
