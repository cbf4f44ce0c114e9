"""A file of lines that never outgrows its bound: it is turned over, and what is older is
compressed."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


class RotatingFile:
    """Appends lines; at ``max_bytes``, and at the first line of a new day (UTC), the file becomes
    ``.1`` and the oldest of ``keep`` goes. ``.1`` stays as it is, so that whoever follows the log
    reads it to its end; older ones are compressed. A file that cannot be turned over grows to twice
    its size. Any OSError is the caller's to survive.

    Not ``logging.handlers.RotatingFileHandler``: for all of this (also mode 0600, a line that was
    cut, a full disk that is told of) each of its methods would have to be replaced."""

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        keep: int,
        today: Callable[[], int] = lambda: int(time.time() // 86_400),
    ) -> None:
        self._path = path
        self._max = max_bytes
        self._keep = keep
        self._today = today
        self._file: BinaryIO | None = None
        self._size = self._day = 0

    def write(self, line: bytes) -> None:
        """Raises OSError; the next call starts afresh."""
        try:
            if self._file is None:
                self._open()
            if self._size and (self._size + len(line) > self._max or self._day != self._today()):
                self._turn_over(len(line))
            assert self._file is not None
            written = self._file.write(line)
            self._size += written
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(handle, "ab", buffering=0)
        found = os.fstat(handle)
        self._size = found.st_size
        self._day = int(found.st_mtime // 86_400) if found.st_size else self._today()
        last = os.pread(handle, 1, self._size - 1) if self._size else b""
        if last not in (b"\n", b""):  # a line was cut by a full disk or a kill
            self._size += self._file.write(b"\n")

    def _turn_over(self, more: int) -> None:
        try:
            self._rotate()
        except OSError:
            self._open()
            if self._size + more > 2 * self._max:
                raise
        else:
            self._open()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            # where both are there, the packed one was cut by a kill; the plain one takes its place
            for ending in (".gz", ""):
                older = self._numbered(number, ending)
                if older.exists():
                    older.replace(self._numbered(number + 1, ending))
                    self._numbered(number + 1, "" if ending else ".gz").unlink(missing_ok=True)
        self._path.replace(self._numbered(1, ""))
        if self._keep > 1 and self._numbered(2, "").exists():
            self._compress(2)

    def _compress(self, number: int) -> None:
        """What cannot be compressed (no room for both) stays as it is."""
        plain, packed = self._numbered(number, ""), self._numbered(number, ".gz")
        try:
            with plain.open("rb") as old, packed.open("wb") as raw:
                os.fchmod(raw.fileno(), 0o600)
                with gzip.GzipFile("", "wb", 6, raw) as file:
                    shutil.copyfileobj(old, file)
        except OSError:
            packed.unlink(missing_ok=True)
            return
        plain.unlink()

    def _numbered(self, number: int, ending: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}{ending}")
