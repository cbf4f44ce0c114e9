"""A program at a terminal of its own: what it shows is waited for with a bound, and it ends with
the test."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.children import default_signals, die_with_parent

BOUND = 60.0  # seconds: many processes may share few cores
SIZE = 40, 100  # rows and columns


class Terminal:
    """``shown``: everything so far. Keys are what a person types; Ctrl-C is ``\\x03``."""

    def __init__(self, process: int, screen: int) -> None:
        self.process = process
        self._screen = screen
        self.shown = b""
        self._code: int | None = None
        self._seen = 0

    def piece(self, within: float = BOUND) -> bytes:
        """What it shows next; empty once it has closed its terminal."""
        assert select.select([self._screen], [], [], within)[0], (
            f"nothing for {within:g} s after {self.shown!r}"
        )
        try:
            piece = os.read(self._screen, 65_536)
        except OSError:  # Linux: the other side is closed
            piece = b""
        self.shown += piece
        return piece

    def until(self, text: str, within: float = BOUND) -> None:
        end = time.monotonic() + within
        while text.encode() not in self.shown:
            assert time.monotonic() < end, self.shown
            assert self.piece(max(end - time.monotonic(), 0.1)), f"it ended: {self.shown!r}"

    def after(self, text: str, within: float = BOUND) -> None:
        """Waits for it behind what was waited for in this way before."""
        end = time.monotonic() + within
        while (found := self.shown.find(text.encode(), self._seen)) < 0:
            assert time.monotonic() < end, self.shown[self._seen :]
            assert self.piece(max(end - time.monotonic(), 0.1)), f"it ended: {self.shown!r}"
        self._seen = found + len(text.encode())

    def types(self, keys: str | bytes) -> None:
        os.write(self._screen, keys.encode() if isinstance(keys, str) else keys)

    def ended(self, within: float = BOUND) -> int:
        """Its exit code; what it still shows is read."""
        end = time.monotonic() + within
        while self._code is None:
            assert time.monotonic() < end, f"it does not end: {self.shown!r}"
            if select.select([self._screen], [], [], 0.05)[0] and not self.piece():
                time.sleep(0.01)
            pid, status = os.waitpid(self.process, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def close(self) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self._screen)


@contextmanager
def terminal(
    words: Sequence[str], environ: Mapping[str, str], cwd: Path | None = None
) -> Generator[Terminal]:
    """``words``: the program, by its path, and its arguments."""
    process, screen = pty.fork()
    if process == 0:
        try:
            default_signals()
            die_with_parent()
            if cwd is not None:
                os.chdir(cwd)
            os.execve(words[0], list(words), dict(environ))
        finally:
            os._exit(127)
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    found = Terminal(process, screen)
    try:
        yield found
    finally:
        found.close()
