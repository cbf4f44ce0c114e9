"""A folder for half-made things that goes when its work is done, and is found and swept when its
process was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX, _BUSY = ".backup-", "busy"
_AGE = 3_600.0  # seconds after which one without a ``busy`` is no longer one that begins


@contextmanager
def staging_dir(folder: Path) -> Generator[Path]:
    """An empty folder below ``folder``, only for its owner. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder) as name:
        busy = os.open(Path(name) / _BUSY, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(busy, fcntl.LOCK_EX)  # dies with its process, whatever kills it
            inside = Path(name) / "work"
            inside.mkdir()
            yield inside
        finally:
            shutil.rmtree(
                Path(name) / "work", ignore_errors=True
            )  # ``busy`` goes last: what a kill leaves here is still found
            os.close(busy)


def sweep(folder: Path) -> int:
    """Removes the workrooms of processes that are gone; returns how many. They may hold copies of
    secrets. Blocking; raises nothing."""
    gone = 0
    with suppress(OSError):  # a folder that cannot be looked at holds nobody up
        for path in folder.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove(path)
                gone += 1
    return gone


def _remove(path: Path) -> None:
    """Raises OSError: somebody works in it, or it cannot be removed."""
    try:
        busy = os.open(path / _BUSY, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - path.stat().st_mtime < _AGE:
            raise
        shutil.rmtree(path)
        return
    try:
        fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            shutil.rmtree(path / "work")
        shutil.rmtree(path)
    finally:
        os.close(busy)
