"""What a house does for itself while it lives: ends overdue questions, lets go of what is old, and
makes backups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

import ohmo
from channels.contract import Clock, Outbound
from ohmo.config.load import Config
from ohmo.contracts.errors import StoreError
from ohmo.contracts.reports import Reports, ThreadInfo
from ohmo.contracts.store import PostRow, Store
from ohmo.gateway.notices import Notices
from ohmo.ids import derived
from ohmo.lifecycle import within
from ohmo.store import workroom
from ohmo.store.archive import backups, make_backup, prune

log = structlog.get_logger("ohmo.upkeep")
FOREVER = timedelta(days=36_500)
OFTEN = 600.0  # seconds between two looks at what is old
# seconds from a start to the first of them: a house that is started anew every few minutes lets go,
# too
FIRST = 60.0
SOON = timedelta(minutes=2)  # after a start, when a backup is due
CLOCK = 60.0  # seconds between two looks at a ``full_auto`` that will end
AGAIN = 3_600.0  # seconds after a backup that failed
Sleep = Callable[[float], Awaitable[None]]


async def let_go(
    config: Config,
    store: Store,
    before: Callable[[timedelta], datetime],
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Rows and files whose time is over go, a little at a time; None: nothing ever does, but edits
    without an original are ended. ``before``: the moment that lies so far back."""
    keep, pause = config.retention, FIRST
    while True:
        await sleep(pause)
        pause = OFTEN
        await store.prune(
            before(keep.inbox or FOREVER), transcripts=before(keep.transcripts or FOREVER)
        )
        for folder, span in (
            (config.home.spill, keep.spill),
            (config.home.media, keep.media),
            (
                config.home.state("web") / "files",
                keep.media,
            ),  # what was put into the page, sent or never sent
            (config.home.log.parent, keep.logs),
        ):
            if span is not None and (
                gone := await asyncio.to_thread(
                    sweep, folder, before(span).timestamp(), config.home.log
                )
            ):
                log.info("files_let_go", folder=str(folder), files=gone)


def sweep(folder: Path, before: float, but: Path) -> int:
    """Deletes files last written before ``before`` (seconds since 1970) and folders that became
    empty; never ``but``. Returns how many files."""
    gone = 0
    for path in sorted(folder.rglob("*"), reverse=True):  # what is inside comes before its folder
        with suppress(OSError):
            found = path.lstat()
            if path.is_dir() and not path.is_symlink():
                if found.st_mtime < before:
                    path.rmdir()  # only when it is empty
            elif found.st_mtime < before and path != but:
                path.unlink()
                gone += 1
    return gone


async def expiry(
    store: Store, expire: Callable[[], Awaitable[object]], clock: Callable[[], datetime]
) -> None:
    """Sleeps until the next question is overdue; ``expire`` then ends it."""
    changed = asyncio.Event()
    stop_hearing = store.listen(
        lambda hints: (
            changed.set() if any(hint.kind in ("approval", "any") for hint in hints) else None
        )
    )
    try:
        while True:
            changed.clear()
            deadline = await store.next_deadline()
            wait = 3_600.0 if deadline is None else max(0.0, (deadline - clock()).total_seconds())
            if deadline is not None and wait <= 0:
                await expire()
                continue
            with suppress(TimeoutError):
                await within(min(wait + 0.01, 3_600.0), changed.wait())
    finally:
        stop_hearing()


class FullAuto:
    """Ends each ``full_auto`` of a conversation when its time is over, and says so there. ``mode``:
    what holds then."""

    def __init__(self, store: Store, reports: Reports, clock: Clock, mode: str) -> None:
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
            left = [await self._look(info) for info in await self._reports.free_threads()]
            with suppress(TimeoutError):
                await within(min(left, default=3_600.0), self._begun.wait())

    async def _look(self, info: ThreadInfo) -> float:
        """Seconds until the next look; a clock may be set meanwhile. Said first: a death in between
        says it once more under the same id."""
        until, now = info.settings.free_until, self._clock()
        if until is None or info.settings.at(now).mode == "full_auto":
            return CLOCK if until is None else min((until - now).total_seconds() + 0.01, CLOCK)
        text = (
            f"`full_auto` has ended here: `{self._mode}` holds again. `/mode full_auto --i-know`"
            " begins it anew."
        )
        row = PostRow(
            derived("full_auto", info.thread, until.isoformat()),
            "notice",
            Outbound(info.address, text),
        )
        await self._store.post([row])
        await self._store.end_free(info.thread, until)
        return CLOCK


async def keep_backups(
    config: Config, notices: Notices, clock: Callable[[], datetime], sleep: Sleep = asyncio.sleep
) -> None:
    """One backup every ``backups.every``, the newest ``backups.keep`` of them; the owner hears when
    one fails. Where the clock is set back, the next one is never further off than
    ``backups.every``; where it is set forward, one is due at once."""
    every, keep = config.backups.every, config.backups.keep
    folder = config.backups.folder or config.home.backups
    await asyncio.to_thread(workroom.sweep, folder)  # what a killed backup left
    if every is None:
        return
    due: datetime | None = None
    while True:
        try:
            now = clock()
            if due is None:
                known = [
                    one.made
                    for one in await asyncio.to_thread(backups, folder, now)
                    if one.made <= now
                ]
                due = max(now + SOON, known[-1] + every) if known else now + SOON
            due = min(due, now + max(every, SOON))
            if (left := (due - now).total_seconds()) > 0:
                await sleep(min(left, 3_600.0))
                continue
            made = await asyncio.to_thread(
                make_backup, config.home.root, config.database, folder, now, ohmo=ohmo.__version__
            )
            await asyncio.to_thread(prune, folder, keep, now)
        except (StoreError, OSError) as error:
            log.exception("backup_failed")
            await notices.tell(
                "backup",
                f"No backup could be made: {error}. It is tried again in an hour; `ohmo backup`"
                " tries now.",
            )
            await sleep(AGAIN)
        else:
            due = now + every
            notices.over("backup")
            log.info(
                "backup_made",
                path=str(made.path),
                files=made.files,
                rows=sum(made.rows.values()),
                bytes=made.size,
            )
