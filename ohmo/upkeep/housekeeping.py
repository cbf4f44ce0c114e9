"""Retention and backups: what a daemon lets go of, and what it keeps a copy of, while it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

import ohmo
from ohmo.config.load import Config
from ohmo.contracts.errors import StoreError
from ohmo.contracts.reports import OwnerNotices
from ohmo.contracts.store import Store
from ohmo.cron.times import Schedule
from ohmo.memory.tidying import Tidying
from ohmo.storefile import lock
from ohmo.storefile.archive import backups, make_backup, prune

log = structlog.get_logger("ohmo.upkeep")
FOREVER = timedelta(days=36_500)
OFTEN = 600.0  # seconds between two looks at what is old
# seconds from a start to the first of them: a house that is started anew every few minutes lets go,
# too
FIRST = 60.0
Sleep = Callable[[float], Awaitable[None]]


async def let_go(
    config: Config,
    store: Store,
    before: Callable[[timedelta], datetime],
    sleep: Sleep = asyncio.sleep,
    tidy: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Rows and files whose time is over go, a little at a time; None: nothing ever does, but edits
    without an original are ended. ``before``: the moment that lies so far back.
    ``tidy``: lets go of checkpoints, and renews the files of what still runs."""
    keep, pause = config.retention, FIRST
    while True:
        await sleep(pause)
        pause = OFTEN
        await store.prune(
            before(keep.inbox or FOREVER), transcripts=before(keep.transcripts or FOREVER)
        )
        if tidy is not None:
            await tidy()
        for folder, span in (
            (config.home.spill, keep.spill),
            (config.home.media, keep.media),
            # what was put into the page, sent or never sent
            (config.home.state("web") / "files", keep.media),
            (config.home.log.parent, keep.logs),
        ):
            if span is None:
                continue
            oldest = before(span).timestamp()
            gone = await asyncio.to_thread(sweep, folder, oldest, config.home.log)
            if gone:
                log.info("files_let_go", folder=str(folder), files=gone)


def sweep(folder: Path, before: float, but: Path) -> int:
    """Deletes files last written before ``before`` (seconds since 1970) and folders that became
    empty; never ``but``. Returns how many files."""
    gone = 0
    for path in sorted(folder.rglob("*"), reverse=True):  # what is inside comes before its folder
        with suppress(OSError):
            if path.lstat().st_mtime >= before:
                continue
            if path.is_dir() and not path.is_symlink():
                path.rmdir()  # only when it is empty
            elif path != but:
                path.unlink()
                gone += 1
    return gone


async def consolidate(
    tidying: Tidying,
    schedule: Schedule,
    notices: OwnerNotices,
    clock: Callable[[], datetime],
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Notes are looked through whenever that is due; the owner hears what waits for a word."""
    since = clock()
    while (due := schedule.after(since)) is not None:
        if (now := clock()) < due:
            since = min(since, now)  # the clock was set back
            await sleep(min((due - now).total_seconds(), 3_600.0))
            continue
        since = now
        if found := await tidying.everywhere():
            log.info("memory_tidied", proposals=len(found))
            named = ", ".join(f"{one.number} ({one.scope.label})" for one in found)
            await notices.tell(
                f"memory:{named}",
                f"Notes could be tidied: proposal {named}. `ohmo memory proposals` shows what would"
                " change; nothing does before you accept it.",
            )


SOON = timedelta(minutes=2)  # after a start, when a backup is due
AGAIN = 3_600.0  # seconds after a backup that failed


async def keep_backups(
    config: Config,
    notices: OwnerNotices,
    clock: Callable[[], datetime],
    sleep: Sleep = asyncio.sleep,
) -> None:
    """One backup every ``backups.every``, the newest ``backups.keep`` of them; the owner hears when
    one fails. Where the clock is set back, the next one is never further off than
    ``backups.every``; where it is set forward, one is due at once."""
    every, keep = config.backups.every, config.backups.keep
    folder = config.backups.folder or config.home.backups
    await asyncio.to_thread(lock.sweep, folder)  # what a killed backup left
    if every is None:
        return
    due: datetime | None = None
    while True:
        try:
            now = clock()
            if due is None:
                made = [backup.made for backup in await asyncio.to_thread(backups, folder, now)]
                past = [moment for moment in made if moment <= now]
                due = max(now + SOON, past[-1] + every) if past else now + SOON
            due = min(due, now + max(every, SOON))
            if (left := (due - now).total_seconds()) > 0:
                await sleep(min(left, 3_600.0))
                continue
            backup = await asyncio.to_thread(
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
                path=str(backup.path),
                files=backup.files,
                rows=sum(backup.rows.values()),
                bytes=backup.size,
            )
