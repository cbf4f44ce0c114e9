"""What a new version has to show before it stays: by whoever upgrades, or, when that was killed
meanwhile, by the daemon itself."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import structlog

from channels.durable import write_whole
from channels.record import record
from ohmo.service.undoing import SHOWN, Undoing, resume

log = structlog.get_logger("ohmo.upgrade")
CONNECTED_WITHIN = (
    120.0  # seconds in which every channel that was connected before has to be connected again
)
LOOK = 1.0  # seconds between two looks
_FINAL = (
    "auth_failed",
    "conflict",
    "failed",
    "off",
)  # states of a channel that waiting does not mend


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
    """For a daemon that an upgrade started, in case whoever upgrades is killed. ``undoing``: beside
    the packages it runs from; ``channels`` says how each is, ``tell`` tells the owner. ``returns``:
    whether the next start can put the old version back; a daemon that ends for nothing would only
    end again."""

    undoing: Undoing
    home: Path
    channels: Callable[[], Mapping[str, Connection]]
    tell: Callable[[str], Awaitable[object]]
    returns: Callable[[], bool]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def failed(self) -> str:
        """Why this version has to give way; never returns while it has not to. When the process
        ends then, its next start finds the old version."""
        if await self._untried_alone():
            why = await self._lacks()
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
                    f" back: stop ohmo, run `{sys.executable} -c pass` as that user, and start ohmo"
                    " again."
                )
            else:
                while not await asyncio.to_thread(self._stay):
                    await self.sleep(LOOK)
                await self.tell(
                    "The upgrade was interrupted. The new version has shown since that it runs, and"
                    " every channel is connected as before: it stays."
                )
        return await asyncio.get_running_loop().create_future()

    async def _untried_alone(self) -> bool:
        """Waits while whoever upgrades looks; false: nothing has to be shown."""
        told = False
        while True:
            try:
                stands = await asyncio.to_thread(self._stands)
            except (
                OSError,
                ValueError,
                KeyError,
            ):  # cleared up between two looks, or damaged: neither ends what works
                if not told:
                    log.exception("upgrade_cannot_be_read", folder=str(self.undoing.folder))
                told, stands = True, "watched"
            if stands != "watched":
                return stands == "alone"
            await self.sleep(LOOK)

    def _stands(self) -> Literal["untried", "watched", "alone"]:
        """Whether this version has to show anything, and whether whoever upgrades is still there to
        look."""
        if self.undoing.stage() != "trying":
            return "untried"
        facts = self.undoing.facts()
        if facts["home"] != str(self.home) or self._shown() == facts["name"]:
            return "untried"
        return "alone" if self.undoing.alone() else "watched"

    def _shown(self) -> str:
        with suppress(FileNotFoundError):
            return (self.home / "run" / SHOWN).read_text(encoding="utf-8")
        return ""

    async def _lacks(self) -> str:
        needed = self.undoing.facts()["connected"].splitlines()
        log.warning("upgrade_interrupted", needed=needed)
        until = self.now() + CONNECTED_WITHIN
        while (found := lacking(needed, self.channels())) is not None:
            if found.final or self.now() >= until:
                return found.why
            await self.sleep(LOOK)
        return ""

    def _stay(self) -> bool:
        """Whether it could be written down. Where the packages belong to somebody else, whoever
        starts next as them clears up."""
        try:
            write_whole(self.home / "run" / SHOWN, self.undoing.facts()["name"])
            resume(self.undoing.folder, lambda line: log.warning("upgrade_taken_back", why=line))
        except OSError:
            log.exception("upgrade_not_settled")
            return False
        return True
