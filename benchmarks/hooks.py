"""What a hook that does nothing costs: ``python -m benchmarks.hooks``.

A program as a hook (cage planned, event written, started behind its keeper, answer read) beside the same program as
every command is started, in the same cage (limit for the first: 1.3), and beside a bare start of it; with each backend
that holds here, and without walls."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml

from ohmo.assembly.walls import walls_of
from ohmo.config.load import load
from ohmo.contracts.hooks import Hooked
from ohmo.contracts.messages import ToolCall
from ohmo.contracts.sandbox import Terms
from ohmo.hooks.acting import KEEP, Acting
from ohmo.hooks.desk import say
from ohmo.hooks.hook import Hook, Program
from ohmo.processes.job import Command, ProcessRunner, child_environment

ROUNDS, MOST = 40, 1.3
PROGRAMS = {"sh": ("/bin/sh", "-c", ":"), "python": (sys.executable, "-c", "pass")}
TERMS = Terms(owners=True, network=True)


async def told(_: str, line: str) -> None:
    print(line)


async def main() -> int:
    worst = 0.0
    for backend in ("none", "landlock", "bubblewrap"):
        with tempfile.TemporaryDirectory() as place:
            worst = max(worst, await measured(backend, Path(place)))
    return 0 if worst <= MOST else 1


async def measured(backend: str, folder: Path) -> float:
    """The worst ratio; 0: the backend does not hold here."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    written = {"workspace": str(work), "sandbox": {"backend": backend}}
    (home / "config.yaml").write_text(yaml.safe_dump(written))
    environ = {**os.environ, "OHMO_HOME": str(home)}
    walled = walls_of(load(environ=environ), environ, None, told)
    if backend not in ("none", (await walled.walls.standing()).backend):
        return 0.0
    programs = walled.programs()
    acting = Acting(home / "events", environ, None, programs)
    runner = ProcessRunner(sandbox=programs)
    worst = 0.0
    for name, argv in PROGRAMS.items():
        hook = Hook("no-op", "hooks.yaml", "own", ("pre_tool_use",), Program(argv, terms=TERMS))
        call = ToolCall("t.1", "Bash", {"command": "ls"}, "")
        what = Hooked("pre_tool_use", "t", "thread", work, call)
        cage = await programs.cage(argv, work, TERMS)
        command = Command(
            argv, work, child_environment(environ), home / "spill", 5.0, keep=KEEP, cage=cage
        )
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "hook": lambda hook=hook, what=what: say(acting, hook, what),
            "command": lambda command=command: runner.run(command, lambda _: None),
            "bare": lambda argv=argv: bare(argv),
        }
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):  # in turns, so that a busy machine slows all of them
            for way, work_ in ways.items():
                began = time.perf_counter()
                await work_()
                taken[way].append((time.perf_counter() - began) * 1000)
        p50 = {way: statistics.median(times) for way, times in taken.items()}
        ratio = p50["hook"] / p50["command"]
        worst = max(worst, ratio)
        print(
            f"{backend}, {name}: hook {p50['hook']:.1f} ms, command {p50['command']:.1f} ms, bare {p50['bare']:.1f} ms;"
            f" {ratio:.2f} of the command ({MOST}), {p50['hook'] / p50['bare']:.1f} of the bare start"
        )
    return worst


async def bare(argv: tuple[str, ...]) -> None:
    await (await asyncio.create_subprocess_exec(*argv)).wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
