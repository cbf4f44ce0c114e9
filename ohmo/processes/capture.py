"""Keeps head and tail of a stream in little memory, and spills the whole of it to a file with a
bound of its own."""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import suppress

_STEP = 1 << 20
_PUSH = 8 << 20


def _write_back(file: int, start: int, count: int) -> None:
    """Begin to write to the disk, without waiting: what is written at the end keeps nobody waiting
    then. Linux does this for pages that are said not to be needed (posix_fadvise(2)); elsewhere it
    is left to the system."""
    if sys.platform == "linux":
        os.posix_fadvise(file, start, count, os.POSIX_FADV_DONTNEED)


class Ends:
    """The first and the last bytes of a stream."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_room = head
        self._tail_room = tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        free = self._head_room - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        if not data:
            return
        self._tail.append(data[-self._tail_room :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def take(self) -> tuple[bytes, bytes, int]:
        """Head, tail and the true size."""
        tail = b"".join(self._tail)
        return bytes(self._head), tail[-self._tail_room :] if tail else b"", self.total


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
        try:
            self._feed(data)
        except OSError as error:
            self._broken = error
            self.drop()

    def _feed(self, data: bytes) -> None:
        if self._file is None:
            if self.total + len(data) <= self._quiet:
                self._waiting += data
                self.total += len(data)
                return
            self._file = os.open(
                self._part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600
            )
            earlier, self._waiting, self.total = bytes(self._waiting), bytearray(), 0
            self._write(earlier)
        self._write(data)

    def _write(self, data: bytes) -> None:
        """Past ``half`` the file's second half is a ring."""
        view = memoryview(data)
        while view:
            at = (
                self.total
                if self.total < self._half
                else self._half + (self.total - self._half) % self._half
            )
            room = (self._half if at < self._half else 2 * self._half) - at
            written = os.pwrite(self._file or 0, view[:room], at)
            self.total += written
            view = view[written:]
        if self.total - self._pushed >= _PUSH and not self.cut:  # a ring is read again at the end
            _write_back(self._file or 0, self._pushed, self.total - self._pushed)
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
            self._straighten(self.cut)
        os.fsync(self._file)
        os.close(self._file)
        self._file = None
        # ``channels.durable`` would bring pathlib into every keeper
        os.replace(self._part, self._path)  # noqa: PTH105
        return self._path

    def _straighten(self, cut: int) -> None:
        """Rewrites the ring in order, with a line that says what was left out."""
        assert self._file is not None
        start = (self.total - self._half) % self._half
        whole = os.open(
            self._part + "2", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600
        )
        with suppress(OSError):
            os.unlink(self._part + "2")  # noqa: PTH108
        self._copy(self._file, whole, self._half + start, self._half - start)
        self._copy(self._file, whole, self._half, start)
        os.lseek(whole, 0, os.SEEK_SET)
        os.lseek(self._file, self._half, os.SEEK_SET)
        os.write(self._file, f"\n[... {cut} bytes left out ...]\n".encode())
        while chunk := os.read(whole, _STEP):
            os.write(self._file, chunk)
        os.close(whole)

    @staticmethod
    def _copy(source: int, target: int, start: int, count: int) -> None:
        while count > 0:
            chunk = os.pread(source, min(count, _STEP), start)
            if not chunk:
                return
            os.write(target, chunk)
            start, count = start + len(chunk), count - len(chunk)

    def drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with suppress(OSError):
                os.unlink(self._part)  # noqa: PTH108
