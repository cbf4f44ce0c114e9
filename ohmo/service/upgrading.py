"""An upgrade: the new version is built in an environment of its own beside the present one, and
stays in force only when it shows that it runs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import ohmo
from channels.durable import write_whole
from channels.record import record
from ohmo.config.home import Home
from ohmo.contracts.errors import OhmoError
from ohmo.service.health_gate import CONNECTED_WITHIN, LOOK, Connection, CrashLoop, lacking
from ohmo.service.protocol import Manager, ServiceFailed
from ohmo.service.rollback import Attempt, as_owner, copy, forget, go_back, make, store_files, turn
from ohmo.service.versions import BUILT_FOR, Versions


class UpgradeFailed(OhmoError):
    """The new version did not show that it runs; the old one is in force."""


_COPIED = ("bin", "etc", "include", "lib", "lib64", "pyvenv.cfg", "share")  # of an environment
_UNDER_WAY = (
    "an upgrade was interrupted here; the daemon that runs shows within two minutes whether the new"
    " version stays (`ohmo logs` says so). Upgrade again then; stopped before, the old version"
    " returns"
)


@record
class Parts:
    """What an upgrade works with. Whatever is called here raises OhmoError or OSError."""

    versions: Versions
    prefix: Path  # the environment that runs this
    home: Home
    # puts the new version into an environment; its installer keeps the descriptor open, so that no
    # other upgrade begins before it has ended
    install: Callable[[Path, int], None]
    healthy: Callable[[Path], str]  # why the version in an environment is not well; empty: it is
    service: Manager | None  # None: nothing was running
    say: Callable[[str], None]
    channels: Callable[[], Mapping[str, Connection]]  # asks the daemon that runs
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    reached: Callable[[str], None] = lambda _: None  # hears each step before it is taken


class Upgrade:
    """One attempt."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._before: Mapping[str, Connection] = {}  # the channels as the old version left them

    def run(self) -> None:
        """Raises UpgradeFailed once the old version is in force again, with the reason, or when
        another upgrade is under way; ServiceFailed when even the old one does not start; OSError.
        Killed anywhere, the next start of ohmo goes on with it (``ohmo.service.rollback``)."""
        parts = self._parts
        owned = parts.versions.own()
        if owned is None:
            raise UpgradeFailed("another upgrade is under way here")
        try:
            if parts.versions.trial.exists():
                raise UpgradeFailed(_UNDER_WAY)
            fresh = parts.versions.folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S.%f}"
            try:
                self._build(fresh, owned)
            except (OhmoError, OSError, KeyboardInterrupt) as error:
                shutil.rmtree(fresh, ignore_errors=True)
                raise UpgradeFailed(f"nothing was changed: {_named(error)}") from error
            why = ""
            try:
                attempt = self._put_in_force(fresh)
                if parts.service is not None:
                    parts.service.start()
                    why = self._connected()
                if parts.service is not None and not why:
                    now = parts.service.standing()
                    if now.state != "running":
                        why = f"the service is {now.state} ({now.detail})"
            except (OhmoError, OSError, KeyboardInterrupt) as error:  # TimeoutError is an OSError
                self._return(_named(error))
            if why:
                self._return(why)
            forget(parts.versions, attempt, parts.reached)
        finally:
            os.close(owned)

    def _build(self, fresh: Path, owned: int) -> None:
        """The present environment once more, then the new version in it. The files are hard links:
        an installer replaces files and does not write into them."""
        parts = self._parts
        in_use = (parts.prefix.name, (parts.versions.folder / "current").resolve().name)
        for older in parts.versions.folder.iterdir():
            if older.is_dir() and not older.is_symlink() and older.name not in in_use:
                shutil.rmtree(older)
        fresh.mkdir()
        fresh.chmod(0o755)
        for name in _COPIED:
            source = parts.prefix / name
            if source.is_dir() and not source.is_symlink():
                shutil.copytree(source, fresh / name, symlinks=True, copy_function=_link)
            elif source.exists():
                _link(str(source), str(fresh / name))
        built_for = ohmo.__version__
        if parts.prefix != parts.versions.base:
            built_for = (parts.prefix / BUILT_FOR).read_text(encoding="utf-8")
        write_whole(fresh / BUILT_FOR, built_for, mode=0o644)
        parts.reached("install")
        parts.install(fresh, owned)
        if why := parts.healthy(fresh):
            raise UpgradeFailed(why)

    def _put_in_force(self, fresh: Path) -> Attempt:
        """Stops the service, keeps a copy of the store, and says what is on trial before it is."""
        parts = self._parts
        if parts.service is not None:
            self._before = self._channels()
            parts.say("stopping the service")
            parts.service.stop()
        root = parts.home.root
        kept = root / "backups" / "before-upgrade"
        with as_owner(root):
            shutil.rmtree(kept, ignore_errors=True)
            make(kept)
            for file in store_files(root):
                copy(file, kept / file.name)
        parts.say(f"kept the state in {kept}")
        attempt = Attempt(
            name=fresh.name,
            previous="" if parts.prefix == parts.versions.base else parts.prefix.name,
            home=str(root),
            kept=str(kept),
            aside=str(root / "quarantine" / f"failed-upgrade-{datetime.now(UTC):%Y%m%d-%H%M%S}"),
            connected=self._needed(),
        )
        parts.reached("trial")
        attempt.write(parts.versions.trial)
        parts.reached("switch")
        parts.versions.switch(fresh)
        return attempt

    def _connected(self) -> str:
        """Why a channel that worked before does not work now. One that did not work before holds
        nothing back, but is named."""
        parts = self._parts
        deadline = parts.now() + CONNECTED_WITHIN
        parts.say("waiting until the channels are connected again")
        seen = self._channels()
        while (lack := lacking(self._needed(), seen)) is not None:
            if lack.final or parts.now() >= deadline:
                return lack.why
            parts.sleep(LOOK)
            seen = self._channels()
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

    def _return(self, why: str) -> NoReturn:
        """The old version is in force and runs as before; raises UpgradeFailed then."""
        parts = self._parts
        if not parts.versions.trial.exists():
            if parts.service is not None:
                parts.service.start()
            raise UpgradeFailed(f"nothing was changed: {why}")
        parts.say(f"going back: {why}")
        if parts.service is not None:
            with suppress(ServiceFailed):
                parts.service.stop()
        with turn(parts.versions.trial):
            attempt = Attempt.read(parts.versions.trial)
            changed = go_back(parts.versions, attempt, parts.reached)
        if changed:
            parts.say(
                "the new version had changed the store's form: the state of before is back, the"
                f" changed one lies in {attempt.aside}"
            )
        if parts.service is not None:
            with as_owner(parts.home.root):  # its deaths do not put the old one into safe mode
                CrashLoop(parts.home.root / "run" / "starts.json").ended()
            parts.service.start()
        raise UpgradeFailed(
            f"the upgrade was taken back: {why}; the old version is in place and your messages are"
            " kept"
        )


def _named(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
