"""Whether what was started stays up: what a new version has to show before it stays (to whoever
upgrades, or, when that was killed, to the daemon itself), and how many starts came to no good
end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import structlog

from channels.durable import write_whole
from channels.record import record
from ohmo.service.rollback import SHOWN, Attempt, forget
from ohmo.service.versions import Versions

log = structlog.get_logger("ohmo.upgrade")
CONNECTED_WITHIN = 120.0  # seconds for every channel that was connected before to be so again
LOOK = 1.0  # seconds between two looks
WINDOW = 60.0  # seconds
MOST = 3  # starts within the window after which the next one is a safe one
AGAIN = 6 * 3600.0  # seconds after which the same thing is told again
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
    unknown = Connection("off", "the new version does not know it")
    missing: dict[str, Connection] = {}
    final: dict[str, Connection] = {}
    for name in sorted(needed):
        channel = seen.get(name, unknown)
        if channel.state != "connected":
            missing[name] = channel
            if seen and channel.state in _FINAL:
                final[name] = channel
    for name, channel in (final or missing).items():
        why = channel.detail or channel.state
        return Lacking(f"{name} was connected before and is not now: {why}", bool(final))
    return None


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
            log.warning("upgrade_interrupted", needed=attempt.connected)
            why = ""
            deadline = self.now() + CONNECTED_WITHIN
            while (lack := lacking(attempt.connected, self.channels())) is not None:
                if lack.final or self.now() >= deadline:
                    why = lack.why
                    break
                await self.sleep(LOOK)
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
        complained = False
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
                if not complained:
                    log.exception("upgrade_cannot_be_read", file=str(self.versions.trial))
                complained = True
            await self.sleep(LOOK)
        return None

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


class CrashLoop:
    """Counts starts, so that a daemon that dies again and again comes up in safe mode, and
    remembers what the owner was told. It never stops a start: what its file in the home does not
    tell counts as nothing, what cannot be written is forgotten."""

    def __init__(self, file: Path, now: Callable[[], float] = time.time) -> None:
        self._file = file
        self._now = now

    def begin(self) -> bool:
        """One more start. True: it follows ``MOST`` others within ``WINDOW`` of which none was
        stopped in good order."""
        record = self._read()
        now = self._now()
        starts = cast("list[object]", record.get("starts"))
        if not isinstance(starts, list):
            starts = []
        times = [float(at) for at in starts if isinstance(at, int | float)]
        recent = [at for at in times if 0 <= now - at < WINDOW]
        record["starts"] = [*recent[-9:], now]
        self._write(record)
        return len(recent) >= MOST

    def ended(self) -> None:
        """Stopped as asked: the count begins anew."""
        record = self._read()
        if record.get("starts"):
            record["starts"] = []
            self._write(record)

    def first_time(self, text: str) -> bool:
        """Whether the owner was not told ``text`` in the last hours, also by earlier processes;
        from now on they were."""
        record = self._read()
        now = self._now()
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        written = cast("dict[str, object]", record.get("told"))
        if not isinstance(written, dict):
            written = {}
        recent: dict[str, float] = {}
        for key, at in written.items():
            if isinstance(at, int | float) and 0 <= now - at < AGAIN:
                recent[key] = float(at)
        if name in recent:
            return False
        recent[name] = now
        record["told"] = recent
        self._write(record)
        return True

    def _read(self) -> dict[str, Any]:
        try:
            written: object = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", written) if isinstance(written, dict) else {}

    def _write(self, record: dict[str, Any]) -> None:
        with suppress(OSError):
            write_whole(self._file, json.dumps(record))
