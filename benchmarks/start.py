"""How soon and how small: ``ohmo run`` to its first poll and first reply, its memory idle and after
load, and ``ohmo --help``. ``python -m benchmarks.start``."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.overhead import many_chats
from benchmarks.rig import (
    FIRST_CHAT,
    ROOT,
    Chats,
    Daemon,
    cpu,
    home,
    middle,
    model_server,
    pss,
    show,
    telegram,
)

LIBRARIES = (
    "sqlite3, pydantic, structlog, uvloop, ruamel.yaml, aiohttp.web, markdown_it,"
    " prometheus_client, telegram"
)


@contextmanager
def polls(chats: Chats) -> Generator[asyncio.Event]:
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


async def once(
    chats: Chats, model: str, number: int, python: str, checkout: Path
) -> tuple[float, float, float, float, float, float, float]:
    """Seconds and CPU seconds to the first poll, seconds to the first reply of a message said then;
    MiB at the first poll, idle (the model's SDK is there by then), after three messages, and after
    1 000 messages in 100 chats at once."""
    with home(model, chats.server) as root, polls(chats) as polled:
        daemon = Daemon(root, python=(python,), checkout=checkout)
        await daemon.start()
        try:
            await asyncio.wait_for(polled.wait(), 60)
            poll, spent = time.perf_counter() - daemon.started, cpu(daemon.pid)
            chats.says(FIRST_CHAT, f"first {number}")
            reply = await chats.answered(FIRST_CHAT, f"first {number}") - daemon.started
        finally:
            await daemon.stop()
    with home(model, chats.server) as root, polls(chats) as polled:
        daemon = Daemon(root, python=(python,), checkout=checkout)
        await daemon.start()
        try:
            await asyncio.wait_for(polled.wait(), 60)
            found = [pss(daemon.pid)]
            await asyncio.sleep(6)
            found.append(pss(daemon.pid))
            for text in (f"a {number}", f"b {number}", f"c {number}"):
                chats.says(FIRST_CHAT, text)
                await chats.answered(FIRST_CHAT, text)
            await asyncio.sleep(3)
            found.append(pss(daemon.pid))
            await many_chats(daemon, chats, 100, 10, f"load {number}")
            await asyncio.sleep(3)
            first, idle, after, load = *found, pss(daemon.pid)
            return poll, spent, reply, first, idle, after, load
        finally:
            await daemon.stop()


def imports(python: str) -> float:
    """CPU seconds of a Python that imports what the daemon stands on, and nothing of the house."""
    command = [python, "-c", f"import {LIBRARIES}; import time; print(time.process_time())"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    return float(subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=env).stdout)


def helped(python: str) -> float:
    began = time.perf_counter()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(
        [python, "-m", "ohmo", "--help"], check=True, stdout=subprocess.DEVNULL, cwd=ROOT, env=env
    )
    return time.perf_counter() - began


def told(label: str, values: Sequence[float], unit: str, goal: str) -> None:
    show(
        f"{label}, median of {len(values)}",
        middle(values),
        unit,
        f"{goal}    best {min(values):.2f}",
    )


async def main(rounds: int, python: str, checkout: Path) -> None:
    async with telegram() as chats, model_server() as model:
        found = [await once(chats, model, number, python, checkout) for number in range(rounds)]
    polled, spent, replied, first, idle, after, load = zip(*found, strict=True)
    least = min(imports(python) for _ in range(2 * rounds))
    told("start to the first getUpdates", polled, "s", "<= 0.5")
    told(
        "CPU until then",
        spent,
        "s",
        f"{min(spent) / least:.1f}x importing its libraries alone ({least:.2f})",
    )
    told("start to the first reply", replied, "s", "<= 1.0")
    told("memory at the first poll (PSS)", first, "MiB", "<= 70")
    told("memory idle, the model's SDK imported (PSS)", idle, "MiB", "<= 70")
    told("memory after three messages (PSS)", after, "MiB", "<= 90")
    told("memory after 1 000 messages in 100 chats (PSS)", load, "MiB", "<= 90")
    told("ohmo --help", [helped(python) for _ in range(2 * rounds)], "s", "<= 0.2")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--python",
        default=sys.executable,
        help=(
            "of an installation without the developers' packages, some of which structlog and httpx"
            " import"
        ),
    )
    parser.add_argument("--checkout", type=Path, default=ROOT, help="another tree, to compare with")
    given = parser.parse_args()
    asyncio.run(main(given.rounds, given.python, given.checkout))
