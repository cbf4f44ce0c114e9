"""The wire: lines from one file descriptor, text to another, without ever blocking the event
loop."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable

from channels.errors import NotReady

_AT_ONCE = 4096  # bytes read between two looks at other work
# bytes: pipe(7), PIPE_BUF: a write of so few does not block when poll(2) says there is room
_PIECE = 512
_BACKGROUND = 1.0  # seconds between looks whether the terminal is ours again


class Terminal:
    """Reads no byte behind the line it returns: what is not yet said to the house still stands in
    the pipe, whatever happens to us."""

    def __init__(self, source: int = 0, screen: int = 1) -> None:
        self._source = source
        self._screen = screen
        self._line = bytearray()
        self._writing = asyncio.Lock()

    async def line(self) -> str | None:
        """The next line without its end; None when there will be no more. Cancelled, it keeps what
        it has read of it."""
        loop = asyncio.get_running_loop()
        while True:
            await _ready(loop.add_reader, loop.remove_reader, self._source)
            if self._in_background():
                await asyncio.sleep(_BACKGROUND)
                continue
            try:
                whole = self._read()
            except OSError:
                whole = None  # the terminal is gone: nobody can type any more
            if whole is False:
                continue
            text, self._line = self._line.decode(errors="replace"), bytearray()
            return text.rstrip("\r\n") if whole or text else None

    async def show(self, text: str) -> None:
        """Returns when the terminal has taken it all. Raises NotReady when it is gone."""
        loop, rest = asyncio.get_running_loop(), memoryview(text.encode(errors="replace"))
        async with self._writing:
            while rest:
                await _ready(loop.add_writer, loop.remove_writer, self._screen)
                try:
                    rest = rest[os.write(self._screen, rest[:_PIECE]) :]
                except OSError as error:
                    raise NotReady(f"the terminal is gone: {error.strerror}") from error

    def _read(self) -> bool | None:
        """What is there of one line. True: all of it. None: the end of the input."""
        waiting = select.poll()
        waiting.register(self._source, select.POLLIN)
        for _ in range(_AT_ONCE):
            byte = os.read(self._source, 1)
            if not byte:
                return None
            self._line += byte
            if byte == b"\n":
                return True
            if not waiting.poll(0):
                return False
        return False

    def _in_background(self) -> bool:
        """Reading now would stop the whole process: termios(3), SIGTTIN."""
        return os.isatty(self._source) and os.tcgetpgrp(self._source) != os.getpgrp()


async def _ready(
    add: Callable[[int, Callable[[], None]], object], remove: Callable[[int], object], file: int
) -> None:
    ready = asyncio.get_running_loop().create_future()
    try:
        add(file, lambda: None if ready.done() else ready.set_result(None))
    except OSError:
        return  # epoll_ctl(2), EPERM: regular files and /dev/null are always ready
    try:
        await ready
    finally:
        remove(file)
