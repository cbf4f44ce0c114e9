"""Two checkouts beside each other: ``python -m benchmarks.paired --against FOLDER``. A daemon of
this tree and one of the other live together on one core and answer in turn, so that a slow minute of
the machine falls on both; printed is the ratio of what one message costs.

The other folder holds a checkout with an environment of its own (``make .venv/.installed-dev``).
With ``--channel NAME`` people talk there instead of in Telegram; a platform that takes one post a
second (Slack) wants few ``--messages``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from benchmarks.overhead import many_chats, one_chat
from benchmarks.platforms import RIGS, house
from benchmarks.profile import Talk
from benchmarks.rig import FIRST_CHAT, ROOT, Bench, Daemon, bench, cores, model_server


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, all its threads, to the nanosecond: the CPU-time
    clock of another process (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


class Telegram:
    """Talks with the daemon of a bench, and sees when an answer comes."""

    def __init__(self, bench: Bench) -> None:
        self.daemon = bench.daemon
        self._chats = bench.chats

    async def one(self, messages: int, name: str) -> float | None:
        """Median milliseconds from a message to its answer."""
        return (await one_chat(self.daemon, self._chats, messages, FIRST_CHAT - 2, name))[0]

    async def many(self, width: int, each: int, name: str) -> None:
        await many_chats(self.daemon, self._chats, width, each, name)


class Elsewhere:
    """The same on any platform, where nobody sees when exactly an answer comes."""

    def __init__(self, daemon: Daemon, talk: Talk, chats: Sequence[str]) -> None:
        self.daemon = daemon
        self._talk = talk
        self._chats = chats

    async def one(self, messages: int, _: str) -> float | None:
        await self._talk.people(["dm:ada"], messages)
        return None

    async def many(self, width: int, each: int, _: str) -> None:
        await self._talk.people(self._chats[:width], each)


@asynccontextmanager
async def talking(
    channel: str | None, checkout: Path, width: int
) -> AsyncGenerator[Telegram | Elsewhere]:
    if channel is None:
        async with bench(checkout) as telegram:
            yield Telegram(telegram)
        return
    core, other = cores()
    if other is not None:
        os.sched_setaffinity(0, {other})
    python = sys.executable if checkout == ROOT else str(checkout / ".venv/bin/python")
    async with (
        model_server(other) as model,
        RIGS[channel]() as rig,
        house({channel: rig}, [channel], model, core, [python], checkout) as (daemon, _),
    ):
        talk = Talk(rig)
        yield Elsewhere(daemon, talk, await talk.begins(width))


@dataclass(slots=True)
class Side:
    """One of the two, and what its messages cost: milliseconds, a figure for every turn."""

    name: str
    people: Telegram | Elsewhere
    p50: list[float] = field(default_factory=list)
    one: list[float] = field(default_factory=list)
    many: list[float] = field(default_factory=list)

    async def turn(self, number: int, messages: int, width: int, each: int) -> None:
        pid = self.people.daemon.pid
        began = cpu_seconds(pid)
        name = f"turn {number}"
        p50 = await self.people.one(messages, name)
        between = cpu_seconds(pid)
        await self.people.many(width, each, name)
        ended = cpu_seconds(pid)
        if p50 is not None:
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


async def main(
    other: Path, channel: str | None, turns: int, messages: int, width: int, each: int
) -> None:
    async with AsyncExitStack() as stack:
        sides = [
            Side(name, await stack.enter_async_context(talking(channel, checkout, width)))
            for name, checkout in (("this tree", ROOT), ("the other", other))
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
    if ours.p50:
        compared("overhead p50, one chat", ours.p50, theirs.p50)
    compared("CPU per message, one chat", ours.one, theirs.one)
    compared(f"CPU per message, {width} chats", ours.many, theirs.many)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--channel", choices=sorted(RIGS))
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--messages", type=int, default=60, help="of a turn, in one chat")
    parser.add_argument("--chats", type=int, default=50)
    parser.add_argument("--each", type=int, default=4, help="messages of each chat in a turn")
    given = parser.parse_args()
    other = given.against.resolve()
    if not (other / ".venv" / "bin" / "python").exists():
        sys.exit(f"{other}: has no .venv/bin/python; make one there: make .venv/.installed-dev")
    asyncio.run(main(other, given.channel, given.turns, given.messages, given.chats, given.each))
