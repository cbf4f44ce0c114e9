"""The figures of faults.md that need many tries: ``python -m tests.faults.limits --table
docs/evidence/limits.md`` (G14, G15, G20, G22).

Exit code 1 when a figure is not held. Times are of this machine, whatever else it does meanwhile;
the counts are what matters.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import psutil
from aiohttp import web

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import Footprint
from ohmo.permissions.policy import Policy
from ohmo.permissions.rules import rule_set
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.processes.job import Command, ProcessRunner
from ohmo.shell.parsing import Shell
from ohmo.shell.reading import reads_only
from ohmo.tools.results import ToolError
from ohmo.tools.webfetch import Fetcher
from tests.makers import call_context

WIDTH = 8
GRACE = 30.0  # seconds until nobody may be left
ENVIRON = {"PATH": "/usr/bin:/bin"}
MARK = "97.531"  # seconds nobody sleeps by chance
HOUSE = f"""
import asyncio
from pathlib import Path
from ohmo.processes.job import Command, ProcessRunner
async def main():
    order = Command(("bash", "-c", "setsid sleep {MARK} & (trap '' TERM; sleep {MARK}) & sleep {MARK}"), Path("/"), {ENVIRON!r}, Path(__import__("sys").argv[1]), None)
    await asyncio.gather(*(ProcessRunner().run(order, print) for _ in range(3)))
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Row:
    figure: str
    tried: str
    found: str
    held: bool


def left() -> list[int]:
    """Zombies of ours, and sleepers."""
    own = {
        child.pid for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE
    }
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if f"sleep {MARK}" in words:
            own.add(process.pid)
    return sorted(own)


async def nobody(within: float = GRACE) -> list[int]:
    end = time.monotonic() + within
    while (found := left()) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return found


async def many(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    numbers = iter(range(count))

    async def one() -> None:
        for number in numbers:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(WIDTH, count)):
            group.create_task(one())


async def processes(folder: Path, calls: int, timeouts: int, kills: int) -> Row:
    runner, wrong = ProcessRunner(grace=0.2), 0

    async def call(number: int) -> None:
        nonlocal wrong
        order = Command(
            ("bash", "-c", f"sleep {MARK} & echo {number}"),
            folder,
            ENVIRON,
            folder / f"call{number}",
            60,
        )
        ended = await runner.run(order, lambda _: None)
        wrong += str(number) not in ended.output.out.head.decode()

    async def late(number: int) -> None:
        order = Command(
            ("bash", "-c", f"(trap '' TERM; sleep {MARK}) & sleep {MARK}"),
            folder,
            ENVIRON,
            folder / f"late{number}",
            0.1,
        )
        await runner.run(order, lambda _: None)

    await many(calls, call)
    await many(timeouts, late)
    for number in range(kills):
        house = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            HOUSE,
            str(folder / f"kill{number}"),
            cwd=Path(__file__).parents[2],
        )
        while len(left()) < 6:
            await asyncio.sleep(0.02)
        house.send_signal(signal.SIGKILL)
        await house.wait()
        await nobody()
    rest = await nobody()
    for pid in rest:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    tried = (
        f"{calls} calls that leave a child, {timeouts} time-outs, {kills} killed houses with three"
        " commands each"
    )
    return Row(
        "zombies and orphans",
        tried,
        f"{len(rest)} left, {wrong} wrong answers",
        not rest and not wrong,
    )


async def gigabyte(folder: Path, size: int) -> Row:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    order = Command(
        ("bash", "-c", f"head -c {size} /dev/zero | tr '\\0' 'x'; date +%s.%N >&2"),
        folder,
        ENVIRON,
        folder / "big",
        600,
    )
    ended = await ProcessRunner().run(order, lambda _: None)
    after = time.time() - float(ended.output.err.head.decode().split()[0])
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    right = ended.output.out.total == size
    return Row(
        "output of a command",
        f"{size / 1e9:g} GB",
        f"peak RSS + {grown:.1f} MiB, {after:.2f} s after its end",
        right and grown <= 20,
    )


RULES = (
    ("Bash(git status:*)", "Bash(ls:*)", "Read(${WORKSPACE}/**)"),
    ("Bash(git push:*)", "Bash(npm publish:*)"),
    ("Bash(rm:*)", "Bash(curl:*)", "Bash(docker *)", "Read(/etc/**)", "Edit(${HOME}/private/**)"),
)
COMMANDS = {
    "5 000 times echo": lambda number: ";".join(
        f"echo {each} word{number}" for each in range(5000)
    ),
    "5 000 times cat": lambda number: ";".join(
        f"cat /srv/a{each % 7}/{each}.{number}" for each in range(5000)
    ),
    "1 MB of one word": lambda number: f"echo {number}" + "x" * 1_000_000,
    "1 MB unreadable": lambda number: f"echo {number} '" + "x" * 1_000_000,
}


def decisions(folder: Path) -> Row:
    """Reading and judging together; no two tries are the same text, so nothing is remembered from
    the one before."""
    shell = Shell(folder)
    policy = Policy(
        rule_set(*RULES, {"WORKSPACE": str(folder), "HOME": str(folder)}),
        SensitivePaths(folder, folder / ".ohmo"),
        shell,
        folder,
    )
    context = call_context(folder)
    took: dict[str, float] = {}
    verdict = ""
    for name, form in COMMANDS.items():
        best = 1e9
        for number in range(5):
            command = form(number)
            start = time.process_time()
            script = shell.parse(command, folder)
            footprint = Footprint(
                script.reads, script.writes, (), command, "none" if reads_only(script) else "once"
            )
            ruling = policy.rule(
                ToolCall("t.1", "Bash", {"command": command}, ""), footprint, context, ()
            )
            best = min(best, time.process_time() - start)
            verdict = ruling.verdict
        took[name] = best
    found = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in took.items())
    return Row(
        "permission decision",
        "at most 200 ms of processor time, the best of five, ten rules, every command line read"
        " anew",
        found,
        max(took.values()) <= 0.2 and verdict == "ask",
    )


async def rebinding(tries: int) -> Row:
    """A name whose address changes with every look-up, between a public one and a private one where
    a server waits."""
    hits = {"public": 0, "private": 0}

    def app(kind: str) -> web.Application:
        async def hello(_: web.Request) -> web.Response:
            hits[kind] += 1
            return web.Response(text=kind)

        made = web.Application()
        made.router.add_get("/", hello)
        return made

    runners = [web.AppRunner(app("public")), web.AppRunner(app("private"))]
    for runner in runners:
        await runner.setup()
    site = web.TCPSite(runners[0], "127.0.0.1", 0)
    await site.start()
    port = runners[0].addresses[0][1]
    await web.TCPSite(runners[1], "127.0.0.2", port).start()
    draw, refused = random.Random(7), 0

    async def resolver(host: str, port: int) -> Sequence[str]:
        return [draw.choice(("127.0.0.1", "127.0.0.2"))]

    def reachable(ip: IPv4Address | IPv6Address) -> bool:
        return str(ip) == "127.0.0.1"

    async def one(_: int) -> None:
        nonlocal refused
        try:
            await Fetcher(resolver, reachable, seconds=20.0, most=10_000).get(
                f"http://changing.example:{port}/"
            )
        except ToolError:
            refused += 1

    await many(tries, one)
    for runner in runners:
        await runner.cleanup()
    found = (
        f"{hits['private']} connections to the private address; {hits['public']} pages, {refused}"
        " refused"
    )
    return Row(
        "rebinding",
        f"{tries} fetches",
        found,
        hits["private"] == 0 and hits["public"] + refused == tries,
    )


async def measured(wish: argparse.Namespace) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ohmo-limits-") as name:
        folder = Path(name)
        rows = [
            decisions(folder),
            await gigabyte(folder, wish.bytes),
            await rebinding(wish.rebindings),
        ]
        return [await processes(folder, wish.calls, wish.timeouts, wish.kills), *rows]


def page(rows: Sequence[Row], command: str) -> str:
    lines = [
        f"| {row.figure} | {row.tried} | {row.found} | {'held' if row.held else 'NOT HELD'} |"
        for row in rows
    ]
    head = (
        f"# Limits\n\nWritten by `{command}` on {datetime.now(UTC):%Y-%m-%d}; `make torture` runs"
        " it with the whole numbers.\n"
    )
    return "\n".join([head, "| figure | tried | found | |", "|---|---|---|---|", *lines, ""])


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    for name, default in (
        ("calls", 10_000),
        ("timeouts", 1_000),
        ("kills", 100),
        ("rebindings", 10_000),
        ("bytes", 1_000_000_000),
    ):
        reader.add_argument(f"--{name}", type=int, default=default)
    reader.add_argument("--table", type=Path)
    wish = reader.parse_args()
    rows = asyncio.run(measured(wish))
    text = page(
        rows,
        f"python -m tests.faults.limits --calls {wish.calls} --timeouts {wish.timeouts} --kills"
        f" {wish.kills} --rebindings {wish.rebindings}",
    )
    if wish.table is not None:
        wish.table.write_text(text, encoding="utf-8")
    print(text)
    return 0 if all(row.held for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
