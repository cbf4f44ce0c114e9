"""One backup every ``backups.every``, the newest ``backups.keep`` of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

import ohmo
from ohmo.config.load import Config
from ohmo.contracts.errors import StoreError
from ohmo.contracts.status import OwnerNotices
from ohmo.storefile import staging_dir
from ohmo.storefile.archive import backups, make_backup, prune

log = structlog.get_logger("ohmo.upkeep")
SOON = timedelta(minutes=2)  # after a start, when a backup is due
AGAIN = 3_600.0  # seconds after a backup that failed
Sleep = Callable[[float], Awaitable[None]]


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
    await asyncio.to_thread(staging_dir.sweep, folder)  # what a killed backup left
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
