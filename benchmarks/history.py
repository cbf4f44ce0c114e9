"""What a turn costs late in a conversation: CPU of the daemon and bytes written around turns 20,
300 and 500. ``python -m benchmarks.history``.

The model call is subtracted: what it sends grows with the history. It is measured in the same run,
alone, with the same history and the same client."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from benchmarks.rig import FIRST_CHAT, Chats, Daemon, bench, cpu, process, show, written

SAID = "Could you look at the build of last night and tell me what broke? "


async def turns(
    daemon: Daemon, chats: Chats, said: str, first: int, last: int
) -> tuple[float, float]:
    """CPU in milliseconds and bytes written, of one turn."""
    spent, bytes_before = cpu(daemon.pid), written(daemon.pid)
    for number in range(first, last):
        text = f"{number}. {said}".strip()
        chats.says(FIRST_CHAT, text)
        await chats.answered(FIRST_CHAT, text)
    count = last - first
    return 1e3 * (cpu(daemon.pid) - spent) / count, (written(daemon.pid) - bytes_before) / count


async def calls(
    model: str, said: str, marks: Sequence[int], width: int, core: int | None
) -> list[float]:
    """CPU in milliseconds of the model call alone around each mark."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.asking",
        model,
        said,
        json.dumps(list(marks)),
        str(width),
    ]
    async with process(command, core=core) as child:
        assert child.stdout is not None
        return json.loads(await asyncio.wait_for(child.stdout.readline(), 120))


async def main(marks: Sequence[int], width: int, said: str) -> None:
    async with bench() as one:
        alone = await calls(one.model, said, marks, width, one.core)
        print(f"messages of {len(said)} characters, answers a little longer")
        await measured(one.daemon, one.chats, said, dict(zip(marks, alone, strict=True)), width)


async def measured(
    daemon: Daemon, chats: Chats, said: str, marks: dict[int, float], width: int
) -> None:
    at, first = 0, 0.0
    for mark, call in marks.items():
        bytes_before, since = written(daemon.pid), at
        await turns(daemon, chats, said, at, mark - width // 2)
        spent, size = await turns(daemon, chats, said, mark - width // 2, mark + width // 2)
        at, first = mark + width // 2, first or spent - call
        whole = (written(daemon.pid) - bytes_before) / (at - since)
        goal = {300: "<= 1.1", 500: "<= 1.3"}.get(mark, "")
        show(
            f"turn {mark}: CPU of the daemon, the model call taken off",
            spent - call,
            "ms",
            f"{(spent - call) / first:.2f}x {goal}",
        )
        show("    with the model call", spent, "ms")
        show(
            f"    written to disk, turns {since} to {at}",
            whole / 1024,
            "KiB",
            f"<= 64    {size / 1024:.0f} in the last {width}",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--marks", type=int, nargs="+", default=[20, 300, 500])
    parser.add_argument("--width", type=int, default=36, help="turns measured around each mark")
    parser.add_argument("--said", default=SAID, help="what is said each time")
    given = parser.parse_args()
    if any(
        later - earlier <= given.width
        for earlier, later in zip([-given.width // 2, *given.marks], given.marks, strict=False)
    ):
        parser.error(
            f"--marks: they have to rise by more than --width, which is {given.width}; else there"
            " is nothing between them"
        )
    asyncio.run(main(given.marks, given.width, given.said))
