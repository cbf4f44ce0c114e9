"""What a turn costs late in a conversation: CPU of the daemon and bytes written around turns 20, 300 and 500. ``python -m benchmarks.history``.

The model's share (the body it is sent grows with the history) is measured beside it: the same request through the SDK alone."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence

from benchmarks.rig import FIRST_CHAT, Chats, Daemon, cores, cpu, home, model_server, show, telegram, written

SAID = "Could you look at the build of last night and tell me what broke? " * 5  # about 330 characters


async def turns(daemon: Daemon, chats: Chats, first: int, last: int) -> tuple[float, float]:
    """CPU in milliseconds and bytes written, of one turn."""
    spent, bytes_before = cpu(daemon.pid), written(daemon.pid)
    for number in range(first, last):
        text = f"{number}. {SAID}".strip()
        chats.says(FIRST_CHAT, text)
        await chats.answered(FIRST_CHAT, text)
    count = last - first
    return 1e3 * (cpu(daemon.pid) - spent) / count, (written(daemon.pid) - bytes_before) / count


async def main(marks: Sequence[int], width: int) -> None:
    ours, theirs = cores()
    if theirs is not None:
        os.sched_setaffinity(0, {theirs})
    async with telegram() as chats, model_server(theirs) as model:
        with home(model, chats.server) as root:
            daemon = Daemon(root, ours)
            await daemon.start()
            try:
                await daemon.ready()
                await measured(daemon, chats, marks, width)
            finally:
                await daemon.stop()


async def measured(daemon: Daemon, chats: Chats, marks: Sequence[int], width: int) -> None:
    at, first = 0, 0.0
    for mark in marks:
        await turns(daemon, chats, at, mark - width // 2)
        spent, size = await turns(daemon, chats, mark - width // 2, mark + width // 2)
        at, first = mark + width // 2, first or spent
        goal = {300: "<= 1.1", 500: "<= 1.3"}.get(mark, "")
        show(f"CPU of the daemon, turn {mark}", spent, "ms", f"{spent / first:.2f}x of turn {marks[0]} {goal}")
        show(f"written to disk, turn {mark}", size / 1024, "KiB", "<= 64")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--marks", type=int, nargs="+", default=[20, 300, 500])
    parser.add_argument("--width", type=int, default=30, help="turns measured around each mark")
    given = parser.parse_args()
    asyncio.run(main(given.marks, given.width))
