"""Two checkouts beside each other: ``python -m benchmarks.paired --against FOLDER``. A daemon of
this tree and one of the other live together on one core and answer in turn, so that a slow minute of
the machine falls on both; printed is the ratio of what one message costs.

The other folder holds a checkout with an environment of its own (``make .venv/.installed-dev``).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from benchmarks.overhead import many_chats, one_chat
from benchmarks.rig import FIRST_CHAT, ROOT, Bench, bench


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, all its threads, to the nanosecond: the CPU-time
    clock of another process (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


@dataclass(slots=True)
class Side:
    """One of the two, and what its messages cost: milliseconds, a figure for every turn."""

    name: str
    bench: Bench
    p50: list[float] = field(default_factory=list)
    one: list[float] = field(default_factory=list)
    many: list[float] = field(default_factory=list)

    async def turn(self, number: int, messages: int, width: int, each: int) -> None:
        daemon = self.bench.daemon
        began = cpu_seconds(daemon.pid)
        name = f"turn {number}"
        p50, _, _ = await one_chat(daemon, self.bench.chats, messages, FIRST_CHAT - 2, name)
        between = cpu_seconds(daemon.pid)
        await many_chats(daemon, self.bench.chats, width, each, name)
        ended = cpu_seconds(daemon.pid)
        self.p50.append(p50)
        self.one.append(1e3 * (between - began) / messages)
        self.many.append(1e3 * (ended - between) / (width * each))


def compared(label: str, ours: list[float], theirs: list[float]) -> None:
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    print(
        f"  {label:28} {median(ours):6.2f} ms   {median(theirs):6.2f} ms"
        f"   {median(ratios):6.3f} ×   half of the turns {low:.3f} to {high:.3f}"
    )


async def main(other: Path, turns: int, messages: int, width: int, each: int) -> None:
    async with AsyncExitStack() as stack:
        sides = [
            Side("this tree", await stack.enter_async_context(bench(ROOT))),
            Side("the other", await stack.enter_async_context(bench(other))),
        ]
        for side in sides:  # what is done once is done
            await side.turn(-1, messages, width, 1)
            side.p50.clear()
            side.one.clear()
            side.many.clear()
        for number in range(turns):
            for side in random.sample(sides, 2):
                await side.turn(number, messages, width, each)
    ours, theirs = sides
    print(f"{turns} turns of {messages} messages in one chat, {width * each} in {width} chats")
    print(f"  {'':28} {'this tree':9}   {'the other':9}")
    compared("overhead p50, one chat", ours.p50, theirs.p50)
    compared("CPU per message, one chat", ours.one, theirs.one)
    compared(f"CPU per message, {width} chats", ours.many, theirs.many)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--messages", type=int, default=60, help="of a turn, in one chat")
    parser.add_argument("--chats", type=int, default=50)
    parser.add_argument("--each", type=int, default=4, help="messages of each chat in a turn")
    given = parser.parse_args()
    other = given.against.resolve()
    if not (other / ".venv" / "bin" / "python").exists():
        sys.exit(f"{other}: has no .venv/bin/python; make one there: make .venv/.installed-dev")
    asyncio.run(main(other, given.turns, given.messages, given.chats, given.each))
