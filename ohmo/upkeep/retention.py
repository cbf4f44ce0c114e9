"""Lets go of rows and files whose time is over (``retention`` in the configuration)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from ohmo.config.load import Config
from ohmo.contracts.store import Store

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
