"""How soon and how small: ``ohmo run`` to its first poll and first reply, its memory, and ``ohmo --help``. ``python -m benchmarks.start``."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.rig import FIRST_CHAT, ROOT, Chats, Daemon, home, middle, model_server, pss, show, telegram


@contextmanager
def polls(chats: Chats) -> Iterator[asyncio.Event]:
    """Set when the first getUpdates is there."""
    came = asyncio.Event()
    methods = chats.server.methods
    original = methods.getUpdates

    async def noted(call: dict[str, object]) -> list[dict[str, object]]:
        came.set()
        return await original(call)

    methods.getUpdates = noted
    try:
        yield came
    finally:
        methods.getUpdates = original


async def once(chats: Chats, model: str, number: int) -> tuple[float, float, float, float]:
    """Seconds to the first poll and to the first reply of a message that waited; MiB before and after three messages."""
    with home(model, chats.server) as root, polls(chats) as polled:
        daemon = Daemon(root)
        await daemon.start()
        try:
            await asyncio.wait_for(polled.wait(), 60)
            poll = time.perf_counter() - daemon.started
            chats.says(FIRST_CHAT, f"first {number}")
            reply = await chats.answered(FIRST_CHAT, f"first {number}") - daemon.started
        finally:
            await daemon.stop()
    with home(model, chats.server) as root, polls(chats) as polled:
        daemon = Daemon(root)
        await daemon.start()
        try:
            await asyncio.wait_for(polled.wait(), 60)
            before = pss(daemon.pid)
            for text in (f"a {number}", f"b {number}", f"c {number}"):
                chats.says(FIRST_CHAT, text)
                await chats.answered(FIRST_CHAT, text)
            await asyncio.sleep(3)
            return poll, reply, before, pss(daemon.pid)
        finally:
            await daemon.stop()


def helped() -> float:
    began = time.perf_counter()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, "-m", "ohmo", "--help"], check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=env)
    return time.perf_counter() - began


def told(label: str, values: Sequence[float], unit: str, goal: str) -> None:
    show(f"{label}, median of {len(values)}", middle(values), unit, f"{goal}    best {min(values):.2f}")


async def main(rounds: int) -> None:
    async with telegram() as chats, model_server() as model:
        found = [await once(chats, model, number) for number in range(rounds)]
    polled, replied, before, after = zip(*found, strict=True)
    told("start to the first getUpdates", polled, "s", "<= 0.8")
    told("start to the first reply", replied, "s", "<= 2.0")
    told("memory at the first poll (PSS)", before, "MiB", "<= 80")
    told("memory after three messages (PSS)", after, "MiB", "<= 120")
    told("ohmo --help", [helped() for _ in range(2 * rounds)], "s", "<= 0.2")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
