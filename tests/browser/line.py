"""A line between page and house that a test can cut: at once, after so many events, or for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


class Line:
    """Forwards TCP. ``cut_after``: the connection that carries this event (blank line of an event
    stream) ends behind it, once."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.down = False
        self.cut_after: int | None = None
        self.events = 0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(
                self._pump(reader, back, count=False), self._pump(there, writer, count=True)
            )
        self._writers -= {writer, back}
        writer.transport.abort()
        back.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, count: bool
    ) -> None:
        stream = False
        while block := await source.read(65536):
            stream = stream or (count and b"Content-Type: text/event-stream" in block)
            if not stream:
                sink.write(block)
                await sink.drain()
                continue
            for piece in block.splitlines(keepends=True):
                sink.write(piece)
                if piece.startswith(b"event: "):
                    self.events += 1
                    if self.events == self.cut_after:
                        await sink.drain()
                        raise ConnectionAbortedError
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
