"""Which version of ohmo runs: the one in the environment it was installed into, or the one in an
environment that `ohmo upgrade` built below that. Decided at every start of ohmo."""

from __future__ import annotations

import fcntl
import importlib
import os
import stat
import sys
from pathlib import Path

import ohmo
from channels.durable import settle_path
from channels.record import record

BUILT_FOR = "launcher"  # in a built environment: the version that has to be installed above it


@record
class Versions:
    """The folder ``versions`` of the environment that ohmo was installed into. That environment is
    never changed by an upgrade: whatever starts ohmo names it, and it goes on as the version in
    force. ``current`` leads there."""

    base: Path  # the environment that the shell and the units of services name

    @property
    def folder(self) -> Path:
        """Of the environments that upgrades built."""
        return self.base / "versions"

    @property
    def trial(self) -> Path:
        """As long as it is there, the version in force has yet to show that it runs."""
        return self.folder / "trial.json"

    @property
    def python(self) -> Path:
        """The interpreter that starts ohmo, now and after every upgrade."""
        return self.base / "bin" / Path(sys.executable).name

    def in_force(self) -> Path:
        """Asked by the version in ``base`` only. An environment that was built when another one was
        installed there counts nothing. Raises OSError."""
        try:
            chosen = self.folder / (self.folder / "current").readlink()
        except FileNotFoundError:
            return self.base
        built_for = (chosen / BUILT_FOR).read_text(encoding="utf-8")
        return chosen if built_for == ohmo.__version__ else self.base

    def switch(self, environment: Path) -> None:
        """The next start finds this one in force. Done whole or not at all; raises OSError."""
        link = self.folder / "current"
        if environment == self.base:
            link.unlink(missing_ok=True)
        else:
            fresh = self.folder / "next"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(environment.name)
            fresh.replace(link)
        settle_path(self.folder)

    def own(self) -> int | None:
        """A descriptor that keeps other upgrades away until it is closed, also by a child that
        inherited it; None: there is another. Raises OSError."""
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o755)  # the service may run as somebody else, and looks
        lock = self.folder / "lock"
        lock.touch()
        lock.chmod(0o644)
        return locked(lock, fcntl.LOCK_EX)

    def owned(self) -> bool:
        """Whether somebody upgrades at this moment. Raises OSError."""
        lock = self.folder / "lock"
        descriptor = locked(lock, fcntl.LOCK_SH)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None and lock.exists()


def installed() -> Versions:
    """Of the interpreter that runs this."""
    prefix = Path(sys.prefix)
    return Versions(prefix.parents[1] if (prefix / BUILT_FOR).exists() else prefix)


def locked(file: Path, kind: int) -> int | None:
    """A descriptor with this lock (flock(2)); None: somebody else has one that forbids it, or there
    is no such file. Raises OSError."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def only_roots(python: Path) -> bool:
    """Whether an environment can be changed by nobody but root, so that root may run it at every
    start."""
    prefix, program = python.parents[1], python.resolve()
    looked = (
        prefix,
        python.parent,
        program,
        *program.parents[:2],
        *prefix.glob("lib/*"),
        *prefix.glob("lib/*/site-packages"),
    )
    above = (
        *prefix.parents,
        *prefix.resolve().parents,
        *program.parents,
    )  # whose owner could put another environment in its place
    return all(_roots(path, 0o022) for path in looked) and all(
        _roots(path, 0o022) or _roots(path, 0, stat.S_ISVTX) for path in above
    )


def _roots(path: Path, forbidden: int, wanted: int = 0) -> bool:
    """Whether the folder or file is root's, with none of these bits of its mode, and all of
    those."""
    found = path.stat()
    return found.st_uid == 0 and not found.st_mode & forbidden and found.st_mode & wanted == wanted


def enter(module: str, *, supervises: bool = False) -> None:
    """Goes on as the version in force: returns when that is this one, else this process becomes
    ``python -m module`` of that one, with the same arguments. Takes back before what an interrupted
    upgrade left. ``supervises``: it outlives the versions that it starts."""
    versions = Versions(Path(sys.prefix))
    if not versions.folder.is_dir():  # never upgraded, or the version in force already
        return
    if versions.trial.exists():
        # by name: an upgrade that was interrupted is rare, and this is a part of every start
        rollback = importlib.import_module("ohmo.service.rollback")
        rollback.resume(versions, _say, shares=not supervises)
    try:
        chosen = versions.in_force()
        if chosen != versions.base:
            python = chosen / "bin" / versions.python.name
            os.execv(python, [str(python), "-P", "-m", module, *sys.argv[1:]])  # noqa: S606 - ours
    except OSError as error:
        _say(
            f"{versions.folder / 'current'} leads to no version that can be started ({error});"
            " without this link the one runs that was installed first"
        )
        sys.exit(1)


def _say(line: str) -> None:
    print(f"ohmo: {line}", file=sys.stderr)
