"""What a new version has to show before it stays: by whoever upgrades, or, when that was killed
meanwhile, by the daemon itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from channels.durable import write_whole
from channels.record import record
from ohmo.service.rollback import SHOWN, Attempt, forget
from ohmo.service.versions import Versions

log = structlog.get_logger("ohmo.upgrade")
CONNECTED_WITHIN = 120.0  # seconds for every channel that was connected before to be so again
LOOK = 1.0  # seconds between two looks
# states of a channel that waiting does not mend
_FINAL = ("auth_failed", "conflict", "failed", "off")


@record
class Connection:
    """What the daemon says of one channel: its state, and in ``detail`` why it is not connected."""

    state: str
    detail: str = ""


@record
class Lacking:
    """Why a version is not good enough. ``final``: waiting does not help."""

    why: str
    final: bool


def lacking(needed: Iterable[str], seen: Mapping[str, Connection]) -> Lacking | None:
    """Which channel that worked before does not work now; None: all do. ``seen`` empty: the daemon
    does not answer yet."""
    found = {
        name: seen.get(name, Connection("off", "the new version does not know it"))
        for name in sorted(needed)
    }
    missing = {name: channel for name, channel in found.items() if channel.state != "connected"}
    if not missing:
        return None
    final = [name for name, channel in missing.items() if seen and channel.state in _FINAL]
    name = (final or list(missing))[0]
    return Lacking(
        f"{name} was connected before and is not now:"
        f" {missing[name].detail or missing[name].state}",
        bool(final),
    )


@record
class Trial:
    """For a daemon that an upgrade started, in case whoever upgrades is killed."""

    versions: Versions
    home: Path
    channels: Callable[[], Mapping[str, Connection]]
    tell: Callable[[str], Awaitable[object]]  # the owner
    # whether the next start can put the old version back; else this one would only end again
    returns: Callable[[], bool]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def failed(self) -> str:
        """Why this version has to give way; never returns while it has not to. When the process
        ends then, its next start finds the old version."""
        attempt = await self._left_alone()
        if attempt is not None:
            why = await self._lacks(attempt)
            if why and await asyncio.to_thread(self.returns):
                await self.tell(
                    "The upgrade was interrupted, and the new version did not show that it runs:"
                    f" {why}. The version of before comes back now."
                )
                return why
            if why:
                await self.tell(
                    "The upgrade was interrupted, and the new version did not show that it runs:"
                    f" {why}. It stays until the owner of its packages puts the version of before"
                    f" back: stop ohmo, run `{self.versions.python} -m ohmo.service.rollback` as"
                    " that user, and start ohmo again."
                )
            else:
                while not await asyncio.to_thread(self._stays, attempt):
                    await self.sleep(LOOK)
                await self.tell(
                    "The upgrade was interrupted. The new version has shown since that it runs, and"
                    " every channel is connected as before: it stays."
                )
        return await asyncio.get_running_loop().create_future()

    async def _left_alone(self) -> Attempt | None:
        """Waits while whoever upgrades looks; None: nothing has to be shown."""
        told = False
        while await asyncio.to_thread(self.versions.trial.exists):
            try:
                attempt = await asyncio.to_thread(Attempt.read, self.versions.trial)
                if attempt.home != str(self.home) or await asyncio.to_thread(attempt.has_shown):
                    return None
                if not await asyncio.to_thread(self.versions.owned):
                    return attempt
            except FileNotFoundError:  # decided between two looks
                return None
            except (OSError, ValueError):  # what is damaged ends nothing that works
                if not told:
                    log.exception("upgrade_cannot_be_read", file=str(self.versions.trial))
                told = True
            await self.sleep(LOOK)
        return None

    async def _lacks(self, attempt: Attempt) -> str:
        log.warning("upgrade_interrupted", needed=attempt.connected)
        until = self.now() + CONNECTED_WITHIN
        while (found := lacking(attempt.connected, self.channels())) is not None:
            if found.final or self.now() >= until:
                return found.why
            await self.sleep(LOOK)
        return ""

    def _stays(self, attempt: Attempt) -> bool:
        """Whether it could be written down. Where the packages belong to somebody else, whoever
        starts next as them clears up."""
        try:
            write_whole(self.home / "run" / SHOWN, attempt.name)
            with suppress(PermissionError):
                forget(self.versions, attempt)
        except OSError:
            log.exception("upgrade_not_settled")
            return False
        return True
