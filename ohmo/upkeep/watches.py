"""Watches that say what they see: memory that is short, a store that takes nothing, a ``full_auto``
whose time is over."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import structlog

from channels.contract import Clock, Outbound
from ohmo.ambient import NewId, derived
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.reports import OwnerNotices, Reports
from ohmo.contracts.store import Store
from ohmo.lifecycle import within

_memory_log = structlog.get_logger("ohmo.memory")
_store_log = structlog.get_logger("ohmo.store")
HIGH, LOW = 0.85, 0.75  # of the limit: from there on it is short, and below that no longer
LOOK = 2.0  # seconds between two looks
WARNING = (
    "memory is short: one turn runs at a time until less than three quarters of what ohmo may use"
    " is used"
)


class Narrowed(Protocol):
    def narrow(self, width: int | None) -> None:
        """At most so many turns begin beside each other from now on; None: as many as before."""
        ...


class MemoryWatch:
    """``share``: used of what may be used, 0 to 1; None without a limit. ``sleep`` waits so many
    seconds."""

    def __init__(
        self,
        pool: Narrowed,
        notices: OwnerNotices,
        share: Callable[[], float | None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._pool = pool
        self._notices = notices
        self._share = share
        self._sleep = sleep
        self._is_short = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """For the status."""
        return (WARNING,) if self._is_short else ()

    async def run(self) -> None:
        """Until cancelled, or at once where there is no limit."""
        while (share := await asyncio.to_thread(self._share)) is not None:
            if not self._is_short and share >= HIGH:
                self._is_short = True
                self._pool.narrow(1)
                gc.collect()
                _memory_log.warning("memory_is_short", used=round(share, 2))
                await self._notices.tell(
                    "memory",
                    f"Memory is short: ohmo and what it runs use {share:.0%} of what they may."
                    " Until that is over one turn runs at a time; messages wait and none is lost."
                    " `ohmo status` says when it is over.",
                )
            elif self._is_short and share < LOW:
                self._is_short = False
                self._pool.narrow(None)
                _memory_log.warning("memory_is_back", used=round(share, 2))
            await self._sleep(LOOK)


_UNLIMITED = 1 << 60  # version 1 writes a number near 2**63 where nobody set a limit
_FILES = (  # the limit, what is used, and the name of what the kernel can drop of it at once
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory_share(
    process: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """0.0 to 1.0, of the tightest of our groups; None: nobody set a limit, or there are no groups
    here."""
    shares = [share for folder in _groups(process, mount) if (share := _share(folder)) is not None]
    return max(shares, default=None)


def _groups(process: Path, mount: Path) -> Iterator[Path]:
    """From our own up to the top one. In a container the top one is our own, whatever its name
    outside is."""
    try:
        lines = process.read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        top = mount / "memory" if kinds else mount
        folder = top / path.lstrip("/")
        while folder != top:
            yield folder
            folder = folder.parent
        yield top


def _share(folder: Path) -> float | None:
    for limit, used, droppable in _FILES:
        try:
            most = (folder / limit).read_text(encoding="ascii").strip()
            if most == "max" or not 0 < int(most) < _UNLIMITED:
                return None
            rows = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
            stat = dict(row.split() for row in rows)
            whole = int((folder / used).read_text(encoding="ascii"))
            return (whole - int(stat.get(droppable, 0))) / int(most)
        except (OSError, ValueError):
            continue
    return None


AGAIN = 600.0  # seconds in which a store that comes and goes is told of once


class Watched(Protocol):
    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None: ...


class StoreWatch:
    """``say_now`` speaks past the store; whether it was said."""

    def __init__(
        self,
        store: Watched,
        notices: OwnerNotices,
        say_now: Callable[[Outbound, str], Awaitable[bool]],
        new_id: NewId,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._notices = notices
        self._say_now = say_now
        self._new_id = new_id
        self._monotonic = monotonic
        self._since = self._told = float("-inf")

    async def run(self) -> None:
        """Until cancelled."""
        await self._store.watch(self._changed)

    async def _changed(self, away: str) -> None:
        now = self._monotonic()
        if not away:
            lasted = round(now - self._since)
            _store_log.warning("store_is_back", seconds=lasted)
            span = f"{lasted} s" if lasted < 120 else f"{lasted // 60} minutes"
            await self._notices.tell(
                "store away",
                f"Messages can be stored again; for {span} they could not be. What was said"
                " meanwhile is read now.",
            )
            return
        self._since = now
        _store_log.error("store_away", why=away)
        if now - self._told >= AGAIN:
            self._told = now
            text = (
                f"Nothing can be stored: {away}. No message is accepted until that is mended; then"
                " ohmo goes on by itself and reads what was said meanwhile."
            )
            address = self._notices.owner_place()
            said = await self._say_now(Outbound(address, text), self._new_id())
            _store_log.warning("owner_told_past_the_store", said=said, channel=address.channel)


CLOCK = 60.0  # seconds between two looks at a ``full_auto`` that will end


class FullAuto:
    """Ends each ``full_auto`` of a conversation when its time is over, and says so there. ``mode``:
    what holds then."""

    def __init__(
        self, store: Store, reports: Reports, clock: Clock, mode: Callable[[], str]
    ) -> None:
        self._store = store
        self._reports = reports
        self._clock = clock
        self._mode = mode
        self._begun = asyncio.Event()

    def begun(self) -> None:
        """One was chosen."""
        self._begun.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._begun.clear()
            pause = 3_600.0  # seconds until the next look; a clock may be set meanwhile
            for info in await self._reports.free_threads():
                pause = min(pause, CLOCK)
                until, now = info.settings.free_until, self._clock()
                if until is None:
                    continue
                if info.settings.at(now).mode == "full_auto":
                    pause = min(pause, (until - now).total_seconds() + 0.01)
                    continue
                # Said first: a death in between says it once more under the same id.
                text = (
                    f"`full_auto` has ended here: `{self._mode()}` holds again. `/mode full_auto"
                    " --i-know` begins it anew."
                )
                notice = derived("full_auto", info.thread, until.isoformat())
                await self._store.post([PostRow(notice, "notice", Outbound(info.address, text))])
                await self._store.end_free(info.thread, until)
            with suppress(TimeoutError):
                await within(pause, self._begun.wait())
