"""Where the cost of a message goes: ``python -m benchmarks.profile [--channel NAME …]``. For every
channel, in one chat and in many: processor time of the loop's thread and of the others, HTTP
requests, transactions, SQL statements, tasks, and what strace(1) counts: syncs and futex calls.

Three daemons one after the other give the figures, because counting costs time: the first is only
looked at by the clocks of its threads, the second counts for itself (``benchmarks.instrumented``),
the third is watched by strace.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.instrumented import TELL
from benchmarks.platforms import RIGS, house
from benchmarks.rig import Daemon, cores, model_server

PYTHON = (sys.executable, "-m", "benchmarks.instrumented")
SYNCS = ("fsync", "fdatasync")
ROWS = (
    "CPU ms",
    "loop thread ms",
    "writer thread ms",
    "other threads ms",
    "requests",
    "transactions",
    "statements",
    "tasks",
    "syncs",
    "futex calls",
)


def threads(pid: int) -> dict[int, float]:
    """Seconds of processor time of every thread so far, to the nanosecond
    (proc_pid_task(5), the scheduler's statistics: /proc/PID/task/TID/schedstat)."""
    spent = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it ended
            spent[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return spent


class Talk:
    """People on one platform who wait for the answer before they say more."""

    def __init__(self, rig: Any) -> None:
        self._rig = rig
        self._said = 0

    async def begins(self, width: int) -> list[str]:
        """Of a daemon that just started, what is done once is done; names of ``width`` chats."""
        await asyncio.sleep(2)  # first looks at what was said before are over
        many = [f"dm:{number}" for number in range(1000, 1000 + width)]
        if self._rig.name == "matrix":  # others make people, and rooms, at the first word
            for chat in many:
                await self._rig.creates(chat, "ada")
        await self.people(["dm:ada"], 10)
        await self.people(many, 1)
        return many

    async def person(self, chat: str, messages: int) -> None:
        for _ in range(messages):
            self._said += 1
            text = f"word {self._said} of {chat}"
            await self._rig.says(text, chat=chat)
            await self._answered(chat, f"echo: {text}")

    async def _answered(self, chat: str, text: str) -> None:
        async with asyncio.timeout(60):
            while True:
                shown = await self._rig.visible(chat)
                if any(message.by_bot and text in message.text for message in shown[-4:]):
                    return
                await asyncio.sleep(0.005)

    async def people(self, chats: Sequence[str], messages: int) -> None:
        await asyncio.gather(*(self.person(chat, messages) for chat in chats))


async def asked(daemon: Daemon) -> dict[str, Any]:
    """What the daemon counted since it was asked last, and the names of its threads."""
    path = daemon.home / "counts.json"
    os.kill(daemon.pid, TELL)
    async with asyncio.timeout(30):
        while not path.exists():
            await asyncio.sleep(0.02)
    told = json.loads(path.read_text())
    path.unlink()
    return told


@asynccontextmanager
async def strace(pid: int, path: Path) -> AsyncGenerator[None]:
    """Counts syncs and futex calls of all threads into ``path`` while inside."""
    command = ["strace", "-f", "-qq", "-c", "-U", "name,calls", "-o", str(path), "-p", str(pid)]
    child = await asyncio.create_subprocess_exec(
        *command, "-e", f"trace=futex,{','.join(SYNCS)}", stderr=asyncio.subprocess.PIPE
    )
    await asyncio.sleep(1)  # until it holds every thread
    try:
        yield
    finally:
        child.send_signal(signal.SIGINT)
        await child.wait()


def calls(path: Path) -> Counter[str]:
    """System calls by name from strace's summary: ``name  count`` on a line."""
    counted: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        match line.split():
            case [name, number] if number.isdigit() and name != "total":
                counted[name] += int(number)
            case _:
                pass  # its head, its rules, its sum
    return counted


async def clocked(daemon: Daemon, talk: Talk, chats: Sequence[str], each: int) -> dict[str, float]:
    names = {int(tid): name for tid, name in (await asked(daemon))["threads"].items()}
    before = threads(daemon.pid)
    await talk.people(chats, each)
    spent = {tid: now - before.get(tid, 0) for tid, now in threads(daemon.pid).items()}
    loop = spent.pop(daemon.pid)
    writer = sum(spent.pop(tid) for tid, name in names.items() if name == "store-writer")
    other = sum(spent.values())
    figures = {
        "CPU ms": loop + writer + other,
        "loop thread ms": loop,
        "writer thread ms": writer,
        "other threads ms": other,
    }
    return {name: 1e3 * value / (len(chats) * each) for name, value in figures.items()}


async def counted(daemon: Daemon, talk: Talk, chats: Sequence[str], each: int) -> dict[str, float]:
    await asked(daemon)
    await talk.people(chats, each)
    counts = (await asked(daemon))["counts"]
    return {name: count / (len(chats) * each) for name, count in counts.items()}


async def traced(daemon: Daemon, talk: Talk, chats: Sequence[str], each: int) -> dict[str, float]:
    path = daemon.home / "strace.txt"
    async with strace(daemon.pid, path):
        await talk.people(chats, each)
    found = calls(path)
    syncs = sum(found[name] for name in SYNCS)
    count = len(chats) * each
    return {"syncs": syncs / count, "futex calls": found["futex"] / count}


async def profile(
    name: str, model: str, core: int | None, messages: int, width: int
) -> Mapping[str, list[float]]:
    """Rows of figures for one message: in one chat, then in ``width`` chats."""
    rows: dict[str, list[float]] = {row: [] for row in ROWS}
    ways = [(clocked, ""), (counted, "1")]
    if shutil.which("strace"):
        ways.append((traced, ""))
    for measure, counting in ways:
        os.environ["OHMO_COUNT"] = counting
        async with (  # an account of its own each time: two houses with one account notice it
            RIGS[name]() as rig,
            house({name: rig}, [name], model, core, PYTHON) as (daemon, _),
        ):
            talk = Talk(rig)
            many = await talk.begins(width)
            one = await measure(daemon, talk, ["dm:ada"], messages)
            wide = await measure(daemon, talk, many, max(2, messages // width))
            for row in one:
                rows[row] = [one[row], wide.get(row, 0.0)]
    return rows


async def main(names: Sequence[str], messages: int, width: int) -> None:
    core, other = cores()
    if other is not None:
        os.sched_setaffinity(0, {other})
    async with model_server(other) as model:
        table = [await profile(name, model, core, messages, width) for name in names]
    print(f"for one message, in one chat / in {width} chats")
    print("| | " + " | ".join(names) + " |")
    print("|---|" + "--:|" * len(names))
    for row in ROWS:
        cells = [" / ".join(f"{value:.1f}" for value in rows[row]) for rows in table]
        print(f"| {row} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channel", action="append", choices=sorted(RIGS))
    parser.add_argument("--messages", type=int, default=200, help="in one chat")
    parser.add_argument("--chats", type=int, default=50)
    given = parser.parse_args()
    asyncio.run(main(given.channel or list(RIGS), given.messages, given.chats))
