"""An upgrade that can be taken back: the installed packages and the state are kept aside, the new
version has to prove itself, or the old one returns."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from channels.record import record
from ohmo.config.home import Home
from ohmo.contracts.errors import OhmoError
from ohmo.service.contract import Manager, ServiceFailed
from ohmo.service.starts import Starts
from ohmo.service.trial import CONNECTED_WITHIN, Connection, lacking
from ohmo.service.undoing import FOLDER, Undoing, as_owner, copy, make, resume, store_files


class UpgradeFailed(OhmoError):
    """The new version did not prove itself; the old one is back."""


LOOK = 1.0  # seconds between two looks at the channels
_UNFINISHED = (
    "an upgrade was interrupted here and is taken back once ohmo has stopped: stop it, then upgrade"
    " again"
)
_UNDER_WAY = (
    "an upgrade was interrupted here; the daemon that runs shows within two minutes whether the new"
    " version stays (`ohmo logs` says so). Upgrade again then; stopped before, the old version"
    " returns"
)


@record
class Parts:
    """``site``: the site-packages folder ohmo lies in. ``install`` puts the new version there; it
    gets a descriptor that its installer keeps open, so that nobody takes back what is still being
    written. ``healthy`` says why the new one is not well (empty: it is), ``channels`` asks the
    daemon that runs; all raise OhmoError. ``service`` None: nothing was running. ``now`` and
    ``sleep`` count seconds. ``reached`` hears each step of the way back."""

    site: Path
    home: Home
    install: Callable[[int], None]
    healthy: Callable[[], str]
    service: Manager | None
    say: Callable[[str], None]
    channels: Callable[[], Mapping[str, Connection]]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    reached: Callable[[str], None] = lambda _: None


class Upgrade:
    """One attempt, from stop to a version that runs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._before: Mapping[str, Connection] = {}
        self._undoing = Undoing(parts.site.with_name(FOLDER), parts.reached)
        self._state = parts.home.root / "backups" / "before-upgrade"

    def run(self) -> None:
        """Raises UpgradeFailed once the old version is back, with the reason, or when another
        upgrade is under way; ServiceFailed when even the old one does not start. Interrupted
        anywhere, the next start of ohmo goes on with it (``ohmo.service.undoing``)."""
        parts = self._parts
        if parts.site.with_name(FOLDER).exists():
            resume(parts.site.with_name(FOLDER), parts.say)
        owned = self._undoing.hold(make=True)
        if owned is None:
            raise UpgradeFailed("another upgrade is under way here")
        try:
            if (
                stage := self._undoing.stage()
            ):  # what was kept of the old version is all that there is of it
                raise UpgradeFailed(_UNDER_WAY if stage == "trying" else _UNFINISHED)
            self._run(owned)
        finally:
            if not self._undoing.stage():
                shutil.rmtree(self._undoing.folder, ignore_errors=True)
            os.close(owned)

    def _run(self, owned: int) -> None:
        parts = self._parts
        try:
            if parts.service is not None:
                self._before = self._channels()
                parts.say("stopping the service")
                parts.service.stop()
            self._keep()
        except (OhmoError, OSError, KeyboardInterrupt) as error:
            self._forget(error)
        parts.say(f"kept what is installed, and the state in {self._state}")
        why = self._attempt(owned)
        if not why:
            self._undoing.drop()
            return
        parts.say(f"going back: {why}")
        self._return()
        raise UpgradeFailed(
            f"the upgrade was taken back: {why}; the old version is in place and your messages are"
            " kept"
        )

    def _forget(self, error: BaseException) -> NoReturn:
        """Nothing was replaced yet. Raises UpgradeFailed once the service runs again."""
        if self._undoing.stage():
            self._undoing.drop()
        if self._parts.service is not None:
            self._parts.service.start()
        raise UpgradeFailed(f"nothing was changed: {_named(error)}") from error

    def _attempt(self, owned: int) -> str:
        """Why the new version is not good enough; empty when it is."""
        parts = self._parts
        try:
            parts.install(owned)
            if why := parts.healthy():
                return why
            self._undoing.tried()
            if parts.service is None:
                return ""
            parts.service.start()
            return parts.healthy() or self._connected() or self._steady()
        except (OhmoError, OSError, KeyboardInterrupt) as error:  # TimeoutError is an OSError
            return _named(error)

    def _connected(self) -> str:
        """Why a channel that worked before does not work now. One that did not work before holds
        nothing back, but is named."""
        parts, until = self._parts, self._parts.now() + CONNECTED_WITHIN
        needed = self._needed()
        parts.say("waiting until the channels are connected again")
        while (found := lacking(needed, seen := self._channels())) is not None:
            if found.final or parts.now() >= until:
                return found.why
            parts.sleep(LOOK)
        for name, channel in seen.items():
            if channel.state not in ("connected", "off"):
                parts.say(f"{name} is not connected, as before: {channel.detail or channel.state}")
        return ""

    def _needed(self) -> list[str]:
        return [name for name, channel in self._before.items() if channel.state == "connected"]

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
        """Packages as hard links: an installer replaces files and does not write into them. The
        state as a copy."""
        parts, undoing = self._parts, self._undoing
        shutil.rmtree(undoing.packages, ignore_errors=True)
        aside = parts.home.root / "quarantine" / f"failed-upgrade-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        undoing.begin(
            site=parts.site,
            home=parts.home.root,
            kept=self._state,
            aside=aside,
            connected=self._needed(),
        )
        shutil.copytree(parts.site, undoing.packages, symlinks=True, copy_function=_link)
        with as_owner(parts.home.root):
            shutil.rmtree(self._state, ignore_errors=True)
            make(self._state)
            for file in store_files(parts.home.root):
                copy(file, self._state / file.name)
        undoing.arm()

    def _return(self) -> None:
        """The state only when the new version changed its form: otherwise what arrived meanwhile
        would be lost."""
        parts = self._parts
        if parts.service is not None:
            with suppress(ServiceFailed):
                parts.service.stop()
        aside = self._undoing.facts()["aside"]
        with self._undoing.turn():
            changed = self._undoing.take_back()
        if changed:
            parts.say(
                "the new version had changed the store's form: the state of before is back, the"
                f" changed one lies in {aside}"
            )
        if parts.service is not None:
            with as_owner(parts.home.root):
                Starts(
                    parts.home.root / "run" / "starts.json"
                ).ended()  # the new version's deaths do not put the old one into safe mode
            parts.service.start()


def _named(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
