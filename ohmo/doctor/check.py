"""What a check is, what it finds, and what it looks at: the home, the daemon and the machine."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from channels.contract import Manifest
from channels.record import record
from ohmo.assembly.walls import walls_tried
from ohmo.config.home import Home
from ohmo.config.load import Config
from ohmo.cron.times import local_zone, zone_of
from ohmo.sandbox.walls import Standing as Walls
from ohmo.service.protocol import Standing
from ohmo.upkeep.watches import memory_share

State = Literal["ok", "note", "warning", "problem", "skipped"]
Json = dict[str, Any]


@record
class Finding:
    """What a check saw."""

    state: State
    text: str  # one line
    next: str = ""  # what to do about it; empty only for ok, note and skipped


@record
class Kept:
    """Who keeps the daemon of this home."""

    manager: str = ""
    installed: bool = False
    stale: bool = False  # what is installed is not what would be installed now
    standing: Standing | None = None
    broken: str = ""  # why nobody can tell


def _program(name: str) -> bool:
    return shutil.which(name) is not None or Path(sys.executable).with_name(name).exists()


def _module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _room(path: Path) -> tuple[int, int]:
    """Bytes and file entries (inodes; -1 where there is no such count) left for us."""
    left = os.statvfs(path)
    return left.f_bavail * left.f_frsize, left.f_favail if left.f_files else -1


def _files() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _port_is_free(host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            wire.bind(address)
    except OSError:
        return False
    return True


@record
class Machine:
    """What is asked of the machine, as values: a test brings one that lacks exactly one thing.

    ``room``: bytes and file entries left at a path. ``memory``: the text of /proc/meminfo, empty
    elsewhere than on Linux; ``memory_share``: how much of the limit of a container or a unit is
    used, None without one. ``clock``: seconds of the epoch. ``walls``: the sandbox, tried."""

    python: tuple[int, int] = sys.version_info[:2]
    encoding: str = field(default_factory=sys.getfilesystemencoding)
    has_program: Callable[[str], bool] = _program
    has_module: Callable[[str], bool] = _module
    room: Callable[[Path], tuple[int, int]] = _room
    open_files: Callable[[], int] = _files
    mounts: Callable[[], str] = partial(_text, "/proc/self/mountinfo")
    memory: Callable[[], str] = partial(_text, "/proc/meminfo")
    port_is_free: Callable[[str, int], bool] = _port_is_free
    may_write: Callable[[Path], bool] = partial(os.access, mode=os.W_OK)
    may_read: Callable[[Path], bool] = partial(os.access, mode=os.R_OK | os.X_OK)
    memory_share: Callable[[], float | None] = memory_share
    clock: Callable[[], float] = time.time
    walls: Callable[[Config, Mapping[str, str]], Walls] = walls_tried
    user: int = field(default_factory=os.geteuid)


@record
class Facts:
    """What one examination looks at."""

    home: Home
    environ: Mapping[str, str]
    config: Config | None  # None: it cannot be read
    mistakes: tuple[str, ...]  # why
    manifests: Mapping[str, Manifest]
    broken: tuple[str, ...]  # channel packages that cannot be read
    ask: Callable[[str], Json | None]  # GET of the local API; None: nobody answers
    holder: str | None  # pid in the lock of the home; None: nobody holds it
    machine: Machine
    now: datetime
    version: str
    # None: somebody else than ohmo keeps it (a container)
    kept: Kept | None = None
    upgrade_interrupted: bool = False  # a version on trial, and nobody works on the upgrade
    patience: float = 30.0  # seconds one live check may take

    @property
    def zone(self) -> tzinfo:
        """In which times are told: as in the configuration, else this machine's."""
        written = "local" if self.config is None else self.config.cron.timezone
        return zone_of(local_zone(self.environ) if written == "local" else written)

    @property
    def closed(self) -> bool:
        """The home is there, and not for us to look at."""
        return self.home.root.is_dir() and not self.machine.may_read(self.home.root)

    @property
    def not_ours(self) -> str:
        """Why nothing in the home is ours to mend; empty when it is."""
        root = self.home.root
        if not root.exists():
            return ""
        if not root.is_dir():
            return "it is not a folder"
        owner = root.stat().st_uid
        if owner != self.machine.user:
            return f"it belongs to user {owner}"
        if not self.closed and self.home.foreign():
            return "it belongs to another program"
        return ""

    @property
    def database(self) -> Path | None:
        """The SQLite file, or None when the store is elsewhere."""
        return self.config.database if self.config is not None else self.home.database


T = TypeVar("T")
Examine = Callable[[Facts], Finding]
Mend = Callable[[Facts], str]


@record
class Check:
    """One thing that may be wrong."""

    name: str
    title: str
    examine: Examine = field(repr=False)
    # puts it right, may be repeated, and returns what it did in a few words
    mend: Mend | None = field(default=None, repr=False)
    live: bool = False  # it speaks to the world and runs only with --live


def ok(text: str = "") -> Finding:
    return Finding("ok", text)


def skipped(text: str) -> Finding:
    return Finding("skipped", text)


def note(text: str, next: str = "") -> Finding:
    return Finding("note", text, next)


def warning(text: str, next: str) -> Finding:
    return Finding("warning", text, next)


def problem(text: str, next: str) -> Finding:
    return Finding("problem", text, next)


def needs(
    find: Callable[[Facts], T | Finding],
) -> Callable[[Callable[[Facts, T], Finding]], Examine]:
    """For a check that looks at something that may not be there: it is handed what ``find`` found,
    or is not run, and ``find`` says why."""

    def with_it(look: Callable[[Facts, T], Finding]) -> Examine:
        def examine(facts: Facts) -> Finding:
            found = find(facts)
            return found if isinstance(found, Finding) else look(facts, found)

        return examine

    return with_it


def config(facts: Facts) -> Config | Finding:
    """The configuration, when it can be read."""
    if facts.config is None:
        return skipped("config.yaml cannot be read; see configuration.file")
    return facts.config


def status(facts: Facts) -> Json | Finding:
    """What the daemon says of itself, when one runs and answers."""
    if facts.holder is None:
        return skipped("no daemon is running")
    found = facts.ask("/api/v1/status")
    return found if found is not None else skipped("it does not answer; see daemon.answers")


def kept(facts: Facts) -> Kept | Finding:
    """Who keeps the daemon, unless a container engine does."""
    return skipped("a container engine keeps it") if facts.kept is None else facts.kept
