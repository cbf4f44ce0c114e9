"""What open pages cost while an answer is written: ``python -m benchmarks.viewers``. CPU of the
daemon for one answer of many chunks, with nobody looking on and with as many streams of its thread as
are asked for."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from statistics import median

import aiohttp

from benchmarks.paired import cpu_seconds
from benchmarks.rig import FIRST_CHAT, Bench, bench

CHAT = FIRST_CHAT - 1


async def asked(one: Bench, text: str) -> None:
    one.chats.says(CHAT, text)
    await one.chats.answered(CHAT, text)


@asynccontextmanager
async def viewers(one: Bench, thread: str, count: int) -> AsyncGenerator[list[int]]:
    """Streams that are read as they come; how many ends of turns each has heard of."""
    heard = [0] * count
    ready = asyncio.Semaphore(0)

    async def view(number: int, session: aiohttp.ClientSession) -> None:
        address = f"http://localhost/api/v1/events?thread={thread}&last=1"
        async with session.get(address, timeout=aiohttp.ClientTimeout()) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                if line.startswith(b"event: ready"):
                    ready.release()
                elif line.startswith(b"event: turn_ended"):
                    heard[number] += 1

    path = str(one.daemon.home / "run" / "ohmo.sock")
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(path, limit=0)) as session:
        tasks = [asyncio.create_task(view(number, session)) for number in range(count)]
        for _ in tasks:
            await asyncio.wait_for(ready.acquire(), 30)
        try:
            yield heard
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def cost(one: Bench, thread: str, count: int, chunks: int, rounds: int) -> float:
    """Milliseconds of the daemon's processor for one answer, the median of ``rounds``."""
    spent: list[float] = []
    words = " ".join(f"word{number}" for number in range(chunks))
    async with viewers(one, thread, count) as heard, aiohttp.ClientSession() as session:
        for number in range(1, rounds + 1):
            turn = {"text": words, "chunks": chunks}
            async with session.post(f"{one.model}/_script", json=[turn]) as response:
                assert response.status == 200, await response.text()
            before = cpu_seconds(one.daemon.pid)
            answers = one.chats.sent()
            one.chats.says(CHAT, f"{count} viewers, round {number}")
            async with asyncio.timeout(60):
                while one.chats.sent() == answers or min(heard, default=number) < number:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(1)  # what comes after the answer is its cost, too
            spent.append(1e3 * (cpu_seconds(one.daemon.pid) - before))
    return median(spent)


async def main(counts: list[int], chunks: int, rounds: int) -> None:
    async with bench() as one:
        await asked(one, "hello")
        async with one.daemon.client() as session:
            sessions = (await one.daemon.get("/api/v1/sessions", session))["sessions"]
        thread = next(
            item["thread"] for item in sessions if item["address"]["channel"] == "telegram"
        )
        await cost(one, thread, 1, chunks, 1)  # what is done once is done
        alone = await cost(one, thread, 0, chunks, rounds)
        print(f"CPU of the daemon for one answer of {chunks} chunks, median of {rounds}")
        print(f"  nobody looks on     {alone:7.1f} ms")
        for count in counts:
            with_them = await cost(one, thread, count, chunks, rounds)
            print(f"  {count:4} streams        {with_them:7.1f} ms   {with_them / alone:5.2f} ×")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, nargs="*", default=[20, 200])
    parser.add_argument("--chunks", type=int, default=510)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(main(given.viewers, given.chunks, given.rounds))
