"""An upgrade that can be taken back: the installed packages and the state are kept aside, the new version has to prove itself, or the old one returns."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from channels.record import record
from ohmo.config.home import Home
from ohmo.contracts.errors import OhmoError
from ohmo.service.contract import Manager, ServiceFailed
from ohmo.service.starts import Starts


class UpgradeFailed(OhmoError):
    """The new version did not prove itself; the old one is back."""


CONNECTED_WITHIN = 120.0  # seconds in which every channel that was connected before has to be connected again
LOOK = 1.0  # seconds between two looks at them
_FINAL = ("auth_failed", "conflict", "failed", "off")  # states of a channel that waiting does not mend


@record
class Connection:
    """What the daemon says of one channel: its state, and in ``detail`` why it is not connected."""

    state: str
    detail: str = ""


@record
class Parts:
    """``site``: the site-packages folder ohmo lies in. ``install`` puts the new version there, ``healthy`` says why the new one is not well (empty: it
    is), ``channels`` asks the daemon that runs; all raise OhmoError. ``service`` None: nothing was running. ``now`` and ``sleep`` count seconds."""

    site: Path
    home: Home
    install: Callable[[], None]
    healthy: Callable[[], str]
    service: Manager | None
    say: Callable[[str], None]
    channels: Callable[[], Mapping[str, Connection]]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Upgrade:
    """One attempt, from stop to a version that runs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._before: Mapping[str, Connection] = {}
        self._packages = parts.site.with_name(f".{parts.site.name}.before-upgrade")
        self._state = parts.home.root / "backups" / "before-upgrade"

    def run(self) -> None:
        """Raises UpgradeFailed once the old version is back, with the reason; ServiceFailed when even that does not start."""
        parts = self._parts
        if parts.service is not None:
            self._before = self._channels()
            parts.say("stopping the service")
            parts.service.stop()
        self._keep()
        parts.say(f"kept what is installed, and the state in {self._state}")
        why = self._attempt()
        if not why:
            shutil.rmtree(self._packages)
            return
        parts.say(f"going back: {why}")
        self._return()
        raise UpgradeFailed(f"the upgrade was taken back: {why}; the old version is in place and your messages are kept")

    def _attempt(self) -> str:
        """Why the new version is not good enough; empty when it is."""
        parts = self._parts
        try:
            parts.install()
            if (why := parts.healthy()) or parts.service is None:
                return why
            parts.service.start()
            return parts.healthy() or self._connected() or self._steady()
        except OhmoError as error:
            return str(error)

    def _connected(self) -> str:
        """Why a channel that worked before does not work now. One that did not work before holds nothing back, but is named."""
        parts, until = self._parts, self._parts.now() + CONNECTED_WITHIN
        needed = {name for name, channel in self._before.items() if channel.state == "connected"}
        parts.say("waiting until the channels are connected again")
        while True:
            seen = self._channels()
            missing = {name: seen.get(name, Connection("off", "the new version does not know it")) for name in sorted(needed)}
            missing = {name: channel for name, channel in missing.items() if channel.state != "connected"}
            if not missing:
                break
            final = [name for name, channel in missing.items() if seen and channel.state in _FINAL]
            if final or parts.now() >= until:
                name = (final or list(missing))[0]
                return f"{name} was connected before and is not now: {missing[name].detail or missing[name].state}"
            parts.sleep(LOOK)
        for name, channel in seen.items():
            if channel.state not in ("connected", "off"):
                parts.say(f"{name} is not connected, as before: {channel.detail or channel.state}")
        return ""

    def _channels(self) -> Mapping[str, Connection]:
        """Empty while the daemon does not answer."""
        try:
            return self._parts.channels()
        except OhmoError:
            return {}

    def _steady(self) -> str:
        assert self._parts.service is not None
        found = self._parts.service.standing()
        return "" if found.state == "running" else f"the service is {found.state} ({found.detail})"

    def _keep(self) -> None:
        """Packages as hard links: an installer replaces files and does not write into them. The state as a copy."""
        for folder in (self._packages, self._state):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._parts.site, self._packages, symlinks=True, copy_function=_link)
        self._state.mkdir(mode=0o700, parents=True)
        for file in self._files():
            shutil.copy2(file, self._state / file.name)

    def _return(self) -> None:
        """Packages first. The state only when the new version changed its form: otherwise what arrived meanwhile would be lost."""
        parts = self._parts
        if parts.service is not None:
            with suppress(ServiceFailed):
                parts.service.stop()
        failed = parts.site.with_name(f".{parts.site.name}.failed-upgrade")
        shutil.rmtree(failed, ignore_errors=True)
        parts.site.rename(failed)
        self._packages.rename(parts.site)
        shutil.rmtree(failed)
        if _form(parts.home.database) != _form(self._state / parts.home.database.name):
            aside = parts.home.root / "quarantine" / "failed-upgrade"
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(mode=0o700, parents=True)
            for file in self._files():
                file.rename(aside / file.name)
            for file in self._state.iterdir():
                shutil.copy2(file, parts.home.root / file.name)
            parts.say(f"the new version had changed the store's form: the state of before is back, the changed one lies in {aside}")
        if parts.service is not None:
            Starts(parts.home.root / "run" / "starts.json").ended()  # the deaths of the new version do not put the old one into safe mode
            parts.service.start()

    def _files(self) -> list[Path]:
        return [file for file in sorted(self._parts.home.root.glob("ohmo.db*")) if file.is_file()]


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _form(database: Path) -> int:
    """The number of the store's schema; 0 when there is none."""
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(database)) as connection:
            rows = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchall()
    except sqlite3.Error:
        return 0
    return int(rows[0][0]) if rows else 0
