"""What a turn pays for those who watch it: ``python -m benchmarks.subscribers``. The real house with
its store on disk and a scripted model; the same turn with nobody more watching, with watchers that sleep
for ever, and with watchers that raise at every event, in turn. Printed: CPU and time of a turn as a
multiple of the first, what telling one event costs whoever tells it, and what the watchers lost."""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import structlog

from ohmo.bus import EventStream
from ohmo.contracts.agent import Event, TextDelta
from ohmo.lifecycle import follow
from ohmo_testing.channels import FakePlatform
from ohmo_testing.house import ManualClock, World, house

KINDS = ("none", "sleeping", "raising")


async def sleep(stream: EventStream) -> None:
    with stream.listen("sleeps") as events:
        async for _ in events:
            await asyncio.Event().wait()


def fail(thread: str, event: Event) -> None:
    raise RuntimeError(f"{thread}: {type(event).__name__}")


async def watching(stack: AsyncExitStack, stream: EventStream, kind: str, count: int) -> None:
    for _ in range(count if kind != "none" else 0):
        work = sleep(stream) if kind == "sleeping" else follow("raises", stream.listen, fail)
        task = asyncio.create_task(work)
        stack.callback(task.cancel)
    await asyncio.sleep(0)


async def emitting(kind: str, count: int, events: int = 200_000) -> float:
    """Seconds that a turn spends on telling one event."""
    stream = EventStream()
    event = TextDelta("turn", "word")
    async with AsyncExitStack() as stack:
        await watching(stack, stream, kind, count)
        began = time.process_time()
        for _ in range(events):
            stream.emit("thread", event)
        return (time.process_time() - began) / events


async def main(rounds: int, turns: int, count: int) -> None:
    cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
    wall: dict[str, list[float]] = {kind: [] for kind in KINDS}
    lost: dict[str, int] = dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as folder:
        clock = ManualClock()
        world = World(Path(folder) / "home", FakePlatform(clock=clock), clock=clock)
        async with house(world) as built:
            stream = built.bus.outbound
            number = 0
            for each in range(rounds * len(KINDS)):
                kind = KINDS[each % len(KINDS)]
                async with AsyncExitStack() as stack:
                    await watching(stack, stream, kind, count)
                    before = stream.dropped
                    began = time.perf_counter(), time.process_time()
                    for _ in range(turns):
                        number += 1
                        await world.platform.says(f"message {number}.")
                        await world.hears(f"message {number}.")
                    wall[kind].append(time.perf_counter() - began[0])
                    cpu[kind].append(time.process_time() - began[1])
                    lost[kind] += stream.dropped - before
    for kind in KINDS:
        emit = median([await emitting(kind, count) for _ in range(5)])
        spent = [mine / none for mine, none in zip(cpu[kind], cpu["none"], strict=True)]
        took = [mine / none for mine, none in zip(wall[kind], wall["none"], strict=True)]
        print(
            f"{kind:9} {median(cpu[kind]) / turns * 1e3:.2f} ms of CPU a turn"
            f" ({median(spent):.2f} of none), {median(wall[kind]) / turns * 1e3:.2f} ms"
            f" ({median(took):.2f}); telling an event {emit * 1e6:.2f} µs; lost {lost[kind]} events"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--watchers", type=int, default=1)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(main(given.rounds, given.turns, given.watchers))
