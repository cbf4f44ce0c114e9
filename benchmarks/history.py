"""What a turn costs late in a conversation: ``python -m benchmarks.history``. One conversation for
each mark grows to it, then they answer in turn, a few messages each, so that a slow minute of the
machine falls on all; printed is the ratio to the first mark.

The model server is ``benchmarks.echo``: one that reads the whole history again costs more the longer
that is, and lets the daemon's caches go cold meanwhile, which is not the daemon's cost.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.profile import threads
from benchmarks.rig import FIRST_CHAT, Bench, bench, middle, percentile, written

SAID = "could-you-look-at-the-build-of-last-night-and-tell-me-what-broke"
BLOCK = 4  # turns in a row


@dataclass(slots=True)
class Conversation:
    """One chat, and what ``width`` turns around its mark cost."""

    bench: Bench
    chat: int
    turn: int = 0
    times: list[float] = field(default_factory=list)
    loop: float = 0.0
    others: float = 0.0
    bytes: int = 0

    async def talk(self, turns: int) -> list[float]:
        """Milliseconds from each arrival to its answer."""
        chats = self.bench.chats
        times: list[float] = []
        for _ in range(turns):
            text = f"bench-word-{self.turn}-{SAID}"
            began = chats.says(self.chat, text)
            times.append(1e3 * (await chats.answered(self.chat, text) - began))
            self.turn += 1
        return times

    async def measure(self) -> None:
        pid = self.bench.daemon.pid
        before, size = threads(pid), written(pid)
        self.times += await self.talk(BLOCK)
        await asyncio.sleep(0.02)  # the receipt of the last answer is noted after it
        spent = {thread: now - before.get(thread, 0.0) for thread, now in threads(pid).items()}
        loop = spent.pop(pid)
        self.loop += loop
        self.others += sum(spent.values())
        self.bytes += written(pid) - size

    def figures(self, width: int) -> dict[str, float]:
        """Of one turn."""
        return {
            "overhead p50 ms": percentile(self.times, 0.5),
            "CPU ms": 1e3 * (self.loop + self.others) / width,
            "loop thread ms": 1e3 * self.loop / width,
            "other threads ms": 1e3 * self.others / width,
            "written KiB": self.bytes / width / 1024,
        }


async def measured(one: Bench, first: int, marks: Sequence[int], width: int) -> list[Conversation]:
    """``first``: the first of as many new chats as there are marks."""
    talks = [Conversation(one, first + number) for number in range(len(marks))]
    for talk, mark in zip(talks, marks, strict=True):
        await talk.talk(mark - width // 2)
    await asyncio.sleep(0.5)
    for _ in range(width // BLOCK):
        for talk in random.sample(talks, len(talks)):
            await talk.measure()
    return talks


async def main(marks: Sequence[int], width: int, rounds: int) -> None:
    found: list[list[dict[str, float]]] = []
    async with bench(model="benchmarks.echo") as one:
        await Conversation(one, FIRST_CHAT).talk(50)  # what is done once is done
        for number in range(rounds):
            first = FIRST_CHAT + 1 + number * len(marks)
            talks = await measured(one, first, marks, width)
            found.append([talk.figures(width) for talk in talks])
    print(
        f"{rounds} rounds of {width} turns around each mark; {len(SAID) + 14} characters a message"
    )
    for row in found[0][0]:
        for place, mark in enumerate(marks):
            values = [figures[place][row] for figures in found]
            ratios = [figures[place][row] / max(figures[0][row], 1e-9) for figures in found]
            print(
                f"  {row:18} turn {mark:4} {middle(values):8.2f}   {middle(ratios):6.3f} ×"
                f"   rounds {' '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--marks", type=int, nargs="+", default=[20, 300, 500])
    parser.add_argument("--width", type=int, default=36, help="turns measured around each mark")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if min(given.marks) < given.width // 2:
        parser.error(f"--marks: none below half of --width, which is {given.width}")
    if given.width % BLOCK:
        parser.error(f"--width: a multiple of {BLOCK}")
    asyncio.run(main(given.marks, given.width, given.rounds))
