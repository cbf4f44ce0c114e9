"""What one answered Telegram message costs beside the model: ``python -m benchmarks.overhead``; the
floor is measured in the same run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time

import aiohttp

from benchmarks.rig import (
    FIRST_CHAT,
    Bench,
    Chats,
    Daemon,
    bench,
    cpu,
    percentile,
    process,
    pss,
    show,
)


async def one_chat(
    daemon: Daemon, chats: Chats, count: int, chat: int, name: str = "one"
) -> tuple[float, float, float]:
    """p50, p95 and CPU of one message, in milliseconds."""
    times: list[float] = []
    spent = cpu(daemon.pid)
    for number in range(count):
        text = f"{name}: word {number}"
        began = chats.says(chat, text)
        times.append(await chats.answered(chat, text) - began)
    return (
        1e3 * percentile(times, 0.5),
        1e3 * percentile(times, 0.95),
        1e3 * (cpu(daemon.pid) - spent) / count,
    )


async def many_chats(
    daemon: Daemon, chats: Chats, width: int, each: int, name: str = "many"
) -> tuple[float, float]:
    """Answered messages a second and CPU of one, while every chat says its next word as soon as it
    has its answer."""

    async def person(chat: int) -> None:
        for number in range(each):
            text = f"{name}: word {number} of {chat}"
            chats.says(chat, text)
            await chats.answered(chat, text, 120)

    wall, spent = time.perf_counter(), cpu(daemon.pid)
    await asyncio.gather(*(person(FIRST_CHAT + 1 + chat) for chat in range(width)))
    return width * each / (time.perf_counter() - wall), 1e3 * (cpu(daemon.pid) - spent) / (
        width * each
    )


async def status(daemon: Daemon, session: aiohttp.ClientSession, times: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await daemon.get("/api/v1/status", session)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.1)


async def floor(
    model: str, chats: Chats, count: int, width: int, core: int | None
) -> dict[str, float]:
    for chat in range(width):
        chats.server.world.chat(FIRST_CHAT + chat)
    command = [
        sys.executable,
        "-m",
        "benchmarks.floor",
        model,
        chats.server.url,
        chats.server.token,
        str(count),
        str(width),
    ]
    async with process(command, core=core) as child:
        assert child.stdout is not None
        return json.loads(await asyncio.wait_for(child.stdout.readline(), 120))


async def main(count: int, width: int, each: int, rounds: int) -> None:
    async with bench() as one:
        await one_chat(one.daemon, one.chats, 20, FIRST_CHAT - 1)  # what is done once is done
        for number in range(rounds):
            await measured(one, number, count=count, width=width, each=each)


async def measured(one: Bench, number: int, *, count: int, width: int, each: int) -> None:
    daemon, chats = one.daemon, one.chats
    low = await floor(one.model, chats, count, width, one.core)
    p50, p95, alone = await one_chat(daemon, chats, count, FIRST_CHAT - 2 - number)
    calls = dict(chats.counts)
    times: list[float] = []
    async with daemon.client() as session:
        asking = asyncio.create_task(status(daemon, session, times))
        rate, many = await many_chats(daemon, chats, width, each, f"round {number}")
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
    print(f"round {number + 1}: one chat, {count} messages; {width} chats, {width * each} messages")
    show(
        "overhead p50, one chat",
        p50,
        "ms",
        f"<= 12    {p50 / (1e3 * low['p50']):.1f}x the two SDK calls ({1e3 * low['p50']:.2f})",
    )
    show(
        "overhead p95, one chat",
        p95,
        "ms",
        f"<= 25    {p95 / (1e3 * low['p95']):.1f}x ({1e3 * low['p95']:.2f})",
    )
    show(
        "CPU of the daemon per message, one chat",
        alone,
        "ms",
        f"<= 9     {alone / (1e3 * low['alone']):.1f}x ({1e3 * low['alone']:.2f})",
    )
    show(
        f"CPU of the daemon per message, {width} chats",
        many,
        "ms",
        f"<= 5     {many / (1e3 * low['many']):.1f}x ({1e3 * low['many']:.2f})",
    )
    show(
        f"answered messages a second, {width} chats, one core",
        rate,
        "1/s",
        f">= 180   {rate / low['rate']:.2f}x ({low['rate']:.0f})",
    )
    show("GET /api/v1/status meanwhile, p95", 1e3 * percentile(times, 0.95), "ms", "<= 1000")
    show("memory of the daemon (PSS)", pss(daemon.pid), "MiB", "<= 150")
    print(f"  Telegram calls so far: {calls}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200, help="in one chat")
    parser.add_argument("--chats", type=int, default=100)
    parser.add_argument("--each", type=int, default=10, help="messages of each chat")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(main(given.messages, given.chats, given.each, given.rounds))
