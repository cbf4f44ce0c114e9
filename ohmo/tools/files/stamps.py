"""Remembers how a file looked when a thread last read or wrote it."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock

Stamp = tuple[int, int, int]
_MOST = 10_000


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_size, status.st_ino)


class FileStamps:
    """Bounded; what is forgotten counts as never read. Used from threads."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], Stamp] = OrderedDict()
        self._lock = Lock()

    def remember(self, thread: str, path: Path, status: os.stat_result) -> None:
        with self._lock:
            self._seen[(thread, str(path))] = stamp_of(status)
            self._seen.move_to_end((thread, str(path)))
            if len(self._seen) > _MOST:
                self._seen.popitem(last=False)

    def changed(self, thread: str, path: Path, status: os.stat_result | None) -> bool:
        """Whether the thread knows the file and it looks different now. ``status``: None: it is
        gone."""
        with self._lock:
            seen = self._seen.get((thread, str(path)))
        return seen is not None and (status is None or stamp_of(status) != seen)
