"""The file that holds all of a command's output, or its two ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_STEP = 1 << 20  # bytes copied at once within a spill file
_PUSH = 8 << 20  # bytes of a spill file that wait for the disk
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


class Spill:
    """A file that appears only when a stream passes ``quiet`` bytes; holds the first and the last
    ``half`` bytes of it."""

    def __init__(self, path: str, quiet: int, half: int) -> None:
        self._path = path
        self._part = path + ".part"
        self._quiet = quiet
        self._half = half
        self._waiting = bytearray()
        self._file: int | None = None
        self._broken: OSError | None = None
        self._pushed = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        """What the disk does not take is lost here only: the command goes on, ``finish`` raises
        why."""
        if self._broken is not None:
            return
        if self._file is None and self.total + len(data) <= self._quiet:
            self._waiting += data
            self.total += len(data)
            return
        try:
            if self._file is None:
                self._file = os.open(self._part, _NEW_FILE, 0o600)
                earlier = bytes(self._waiting)
                self._waiting = bytearray()
                self.total = 0
                self._write(earlier)
            self._write(data)
        except OSError as error:
            self._broken = error
            self.drop()

    def _write(self, data: bytes) -> None:
        """Past ``half`` the file's second half is a ring."""
        view = memoryview(data)
        while view:
            at, end = self.total, self._half
            if at >= self._half:
                at = self._half + (self.total - self._half) % self._half
                end = 2 * self._half
            written = os.pwrite(self._file or 0, view[: end - at], at)
            self.total += written
            view = view[written:]
        fresh = self.total - self._pushed
        if fresh >= _PUSH and not self.cut:  # a ring is read again at the end
            # Begin to write to the disk, so that nobody waits for it at the end: Linux does this
            # for pages that are said not to be needed (posix_fadvise(2)).
            if sys.platform == "linux":
                os.posix_fadvise(self._file or 0, self._pushed, fresh, os.POSIX_FADV_DONTNEED)
            self._pushed = self.total

    @property
    def cut(self) -> int:
        """Bytes in the middle that the file does not hold."""
        return max(0, self.total - 2 * self._half)

    def finish(self) -> str | None:
        """The finished file's path, None when the stream was short. Raises OSError when it could
        not be kept."""
        if self._broken is not None:
            raise self._broken
        if self._file is None:
            return None
        if self.cut:
            # The ring in order, with a line that says what was left out.
            start = (self.total - self._half) % self._half
            whole = os.open(self._part + "2", _NEW_FILE, 0o600)
            with suppress(OSError):
                os.unlink(self._part + "2")  # noqa: PTH108
            self._copy(self._file, whole, self._half + start, self._half - start)
            self._copy(self._file, whole, self._half, start)
            os.lseek(whole, 0, os.SEEK_SET)
            os.lseek(self._file, self._half, os.SEEK_SET)
            os.write(self._file, f"\n[... {self.cut} bytes left out ...]\n".encode())
            while chunk := os.read(whole, _STEP):
                os.write(self._file, chunk)
            os.close(whole)
        os.fsync(self._file)
        os.close(self._file)
        self._file = None
        # ``channels.durable`` would bring pathlib into every keeper
        os.replace(self._part, self._path)  # noqa: PTH105
        return self._path

    def note(self, end: bytes) -> None:
        """Leaves ``PATH.end``, whole or not at all. Raises OSError."""
        file = os.open(self._path + ".end.part", _NEW_FILE, 0o600)
        os.write(file, end)
        os.close(file)
        os.replace(self._path + ".end.part", self._path + ".end")  # noqa: PTH105

    @staticmethod
    def _copy(source: int, target: int, start: int, count: int) -> None:
        while count > 0:
            chunk = os.pread(source, min(count, _STEP), start)
            if not chunk:
                return
            os.write(target, chunk)
            start += len(chunk)
            count -= len(chunk)

    def drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with suppress(OSError):
                os.unlink(self._part)  # noqa: PTH108
