"""What a check is, what it finds, and the ground it stands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Literal, TypeVar

from channels.contract import Manifest
from channels.record import record
from ohmo.config.home import Home
from ohmo.config.load import Config
from ohmo.cron.zones import local_zone, zone_of
from ohmo.doctor.machine import Machine
from ohmo.service.contract import Standing

State = Literal["ok", "note", "warning", "problem", "skipped"]
Json = dict[str, Any]


@record
class Finding:
    """``text``: what was seen, one line. ``next``: what to do about it; empty only for ok, note and
    skipped."""

    state: State
    text: str
    next: str = ""


@record
class Kept:
    """Who keeps the daemon of this home. ``stale``: what is installed is not what would be
    installed now. ``broken``: why nobody can tell."""

    manager: str = ""
    installed: bool = False
    stale: bool = False
    standing: Standing | None = None
    broken: str = ""


@record
class Ground:
    """What one examination looks at. ``config`` None: it cannot be read, ``mistakes`` says why.
    ``ask``: GET of the local API, None when nobody answers. ``holder``: the pid in the lock of the
    home when somebody holds it, else None. ``kept`` None: somebody else than ohmo keeps it (a
    container)."""

    home: Home
    environ: Mapping[str, str]
    config: Config | None
    mistakes: tuple[str, ...]
    manifests: Mapping[str, Manifest]
    broken: tuple[str, ...]
    ask: Callable[[str], Json | None]
    holder: str | None
    machine: Machine
    now: datetime
    version: str
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
        if (owner := root.stat().st_uid) != self.machine.user:
            return f"it belongs to user {owner}"
        return "it belongs to another program" if not self.closed and self.home.foreign() else ""

    @property
    def database(self) -> Path | None:
        """The SQLite file, or None when the store is elsewhere."""
        return self.config.database if self.config is not None else self.home.database


T = TypeVar("T")
Examine = Callable[[Ground], Finding]
Mend = Callable[[Ground], str]


@record
class Check:
    """``mend`` puts it right, may be repeated, and returns what it did in a few words. ``live``: it
    speaks to the world and runs only with --live."""

    name: str
    title: str
    examine: Examine = field(repr=False)
    mend: Mend | None = field(default=None, repr=False)
    live: bool = False


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
    find: Callable[[Ground], T | Finding],
) -> Callable[[Callable[[Ground, T], Finding]], Examine]:
    """For a check that looks at something that may not be there: it is handed what ``find`` found,
    or is not run, and ``find`` says why."""

    def with_it(look: Callable[[Ground, T], Finding]) -> Examine:
        def examine(ground: Ground) -> Finding:
            found = find(ground)
            return found if isinstance(found, Finding) else look(ground, found)

        return examine

    return with_it


def config(ground: Ground) -> Config | Finding:
    """The configuration, when it can be read."""
    if ground.config is None:
        return skipped("config.yaml cannot be read; see configuration.file")
    return ground.config


def status(ground: Ground) -> Json | Finding:
    """What the daemon says of itself, when one runs and answers."""
    if ground.holder is None:
        return skipped("no daemon is running")
    found = ground.ask("/api/v1/status")
    return found if found is not None else skipped("it does not answer; see daemon.answers")


def kept(ground: Ground) -> Kept | Finding:
    """Who keeps the daemon, unless a container engine does."""
    return skipped("a container engine keeps it") if ground.kept is None else ground.kept
