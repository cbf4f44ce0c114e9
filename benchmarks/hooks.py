"""What a hook that does nothing costs: ``python -m benchmarks.hooks``.

A program as a hook (event written, started behind its keeper, answer read) beside the same program as every command is
started; and beside a bare start of it (limit for the first: 1.3)."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ohmo.contracts.hooks import Hooked
from ohmo.contracts.messages import ToolCall
from ohmo.hooks.acting import KEEP, Acting
from ohmo.hooks.desk import say
from ohmo.hooks.hook import Hook, Program
from ohmo.processes.job import Command, ProcessRunner, child_environment

ROUNDS, MOST = 40, 1.3
PROGRAMS = {"sh": ("/bin/sh", "-c", ":"), "python": (sys.executable, "-c", "pass")}


async def main() -> int:
    worst = 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        acting, runner = Acting(folder / "events", os.environ, None), ProcessRunner()
        environ = child_environment(os.environ)
        for name, argv in PROGRAMS.items():
            hook = Hook("no-op", "hooks.yaml", "own", ("pre_tool_use",), Program(argv))
            call = ToolCall("t.1", "Bash", {"command": "ls"}, "")
            what = Hooked("pre_tool_use", "t", "thread", folder, call)
            command = Command(argv, folder, environ, folder / "spill", 5.0, keep=KEEP)
            ways: dict[str, Callable[[], Awaitable[object]]] = {
                "hook": lambda hook=hook, what=what: say(acting, hook, what),
                "command": lambda command=command: runner.run(command, lambda _: None),
                "bare": lambda argv=argv: bare(argv),
            }
            taken: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(ROUNDS):  # in turns, so that a busy machine slows all of them
                for way, work in ways.items():
                    began = time.perf_counter()
                    await work()
                    taken[way].append((time.perf_counter() - began) * 1000)
            p50 = {way: statistics.median(times) for way, times in taken.items()}
            ratio = p50["hook"] / p50["command"]
            worst = max(worst, ratio)
            print(
                f"{name}: hook {p50['hook']:.1f} ms, command {p50['command']:.1f} ms, bare {p50['bare']:.1f} ms;"
                f" {ratio:.2f} of the command ({MOST}), {p50['hook'] / p50['bare']:.1f} of the bare start"
            )
    return 0 if worst <= MOST else 1


async def bare(argv: tuple[str, ...]) -> None:
    await (await asyncio.create_subprocess_exec(*argv)).wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
