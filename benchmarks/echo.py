"""A Messages endpoint whose cost does not depend on how long a conversation is: ``python -m
benchmarks.echo`` prints its port. Nothing is parsed; the answer to a request is the last word in its
bytes that begins with ``bench-word-``. The answer is the event stream of ``tests.platforms.model``, made
once.
"""

from __future__ import annotations

import asyncio
import re
import signal

from tests.platforms.model import anthropic_wire
from tests.platforms.model.script import Turn

WORD = re.compile(rb"bench-word-[\w-]+")
HERE = "HERE"
EVENTS = b"".join(
    anthropic_wire.frame(name, data)
    for name, data in anthropic_wire.events(Turn(chunks=1), HERE, "claude-sonnet-4-5", 100)
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncontent-length: %d\r\n\r\n"


def word(body: bytes) -> bytes:
    at = body.rfind(b"bench-word-")
    found = WORD.match(body, at) if at >= 0 else None
    return found[0] if found is not None else b"nothing"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, kept alive."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = re.search(rb"content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1]) if length is not None else 0)
            answer = EVENTS.replace(HERE.encode(), b"echo: " + word(body))
            writer.write(HEAD % len(answer) + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
