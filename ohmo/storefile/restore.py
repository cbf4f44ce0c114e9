"""Taking a backup back: what it replaces is kept aside, and a kill in the middle is finished by the
next start."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from channels.durable import settle_path, write_whole
from channels.record import record
from ohmo.ambient import Failpoint, inert
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.archive import DATABASE, MANIFEST, BackupError, unpack
from ohmo.storefile.lock import staging_dir
from ohmo.storefile.recovery import create
from ohmo.storefile.salvage import Reconciled, reconcile, salvage

JOURNAL = "restoring"  # names the two folders while files are being exchanged
_WITH_DATABASE = tuple(
    f"{DATABASE}{end}" for end in ("-wal", "-shm", "-known", "-suspect", ".whole", ".new")
)


@record
class Restored:
    """``aside``: where what was replaced lies; None: nothing was. ``reconciled``: None: nothing was
    open in the store, or it goes on as it was."""

    rows: Mapping[str, int]
    names: tuple[str, ...]
    aside: Path | None
    reconciled: Reconciled | None = None


def restore(archive: Path, home: Path, now: datetime, failpoint: Failpoint = inert) -> Restored:
    """The caller owns the home (``ohmo.storefile.lock``). Nothing is changed before the whole
    archive was unpacked and compared. Raises BackupError, OSError."""
    finish_restore(home)
    stage = Path(tempfile.mkdtemp(prefix=".restore-", dir=home))
    try:
        rows = unpack(archive, stage)
        reconciled = _reconcile(stage, home, now)
        (stage / MANIFEST).unlink()
        names = tuple(sorted(entry.name for entry in stage.iterdir()))
        aside = home / "quarantine" / f"before-restore-{now:%Y%m%dT%H%M%S}"
        while aside.exists():
            aside = aside.with_name(aside.name + "-")
        for entry in (stage, *stage.rglob("*")):  # nobody else reads it
            entry.chmod(0o700 if entry.is_dir() else 0o600)
            settle_path(entry)
        journal = {"stage": stage.name, "aside": str(aside.relative_to(home))}
        write_whole(home / JOURNAL, json.dumps(journal))
    except BackupError as error:
        shutil.rmtree(stage, ignore_errors=True)
        raise BackupError(f"{archive}: {error}; nothing was changed") from error
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    finish_restore(home, failpoint)
    return Restored(rows, names, aside if aside.exists() else None, reconciled)


def _reconcile(stage: Path, home: Path, now: datetime) -> Reconciled | None:
    """A backup made while nobody worked, unpacked where there is no store, is a home that moved: it
    goes on with what was open. Every other one is older than what happened since; of a replaced
    store that is damaged as much is known as can be read."""
    if not (stage / DATABASE).exists():
        return None
    replaced = home / DATABASE
    manifest = json.loads((stage / MANIFEST).read_text(encoding="utf-8"))
    if not os.path.lexists(replaced) and manifest.get("at_rest") is True:
        return None
    moment = int(now.timestamp() * 1_000)
    try:
        reconciled = reconcile(stage / DATABASE, moment, replaced)
        if reconciled.later or not replaced.is_file():
            return reconciled
        # no restore fails for want of room to read what is ruined anyway
        with suppress(OSError, sqlite3.Error), staging_dir(home) as room:
            create(room / DATABASE, inert, MIGRATIONS)
            if salvage(replaced, room / DATABASE, moment):
                return replace(reconcile(stage / DATABASE, moment, room / DATABASE), later=False)
        return reconciled
    except sqlite3.Error as error:
        raise BackupError(f"its store cannot be looked through ({error})") from error


def finish_restore(home: Path, failpoint: Failpoint = inert) -> bool:
    """Exchanges what a journal names; does nothing when there is none. May be repeated at any
    point. Returns whether there was one."""
    journal = home / JOURNAL
    try:
        folders: Any = json.loads(journal.read_text(encoding="utf-8"))
    except FileNotFoundError:
        for leftover in home.glob(".restore-*"):  # unpacked, but never begun
            shutil.rmtree(leftover, ignore_errors=True)
        for unfinished in home.glob(f".{JOURNAL}.*"):
            unfinished.unlink(missing_ok=True)
        return False
    except ValueError as error:
        raise BackupError(f"{journal}: cannot be read; run ohmo restore again") from error
    stage = home / str(folders["stage"])
    aside = home / str(folders["aside"])
    aside.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = sorted(entry.name for entry in stage.iterdir()) if stage.exists() else []
    for name in names:
        # a log of the old store must never meet the new one
        replaced = (name, *_WITH_DATABASE) if name == DATABASE else (name,)
        for old in [home / part for part in replaced]:
            if old.is_dir() and not old.is_symlink() and not any(old.iterdir()):
                old.rmdir()  # nothing to keep
            if os.path.lexists(old) and not os.path.lexists(aside / old.name):
                failpoint("restore.step")
                old.replace(aside / old.name)
        failpoint("restore.step")
        (stage / name).replace(home / name)
    shutil.rmtree(stage, ignore_errors=True)
    if not any(aside.iterdir()):
        aside.rmdir()
    settle_path(home)
    journal.unlink()
    settle_path(home)
    return True
