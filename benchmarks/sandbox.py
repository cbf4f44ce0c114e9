"""What a cage adds to a command: ``python -m benchmarks.sandbox``.

``true`` behind its keeper without a cage, and in the cage of each backend that there is, in turns; without and with the
network (limits: bubblewrap 15 ms, Landlock 3 ms, docker 100 ms, all without). ``docker`` by the engine of $DOCKER_HOST."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import ohmo
from ohmo.contracts.tool import Opened
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.processes.job import Command, ProcessRunner, child_environment
from ohmo.sandbox.walls import CageSettings, Walls

ROUNDS = 60
Name = Literal["bubblewrap", "landlock", "docker"]
MOST: dict[Name, float] = {"bubblewrap": 15.0, "landlock": 3.0, "docker": 100.0}
PATH = "/usr/local/bin:/usr/bin:/bin"


def walls(backend: Name, top: Path) -> Walls:
    home = top / "home"
    return Walls(
        CageSettings(
            backend=backend,
            network="ask",
            memory=2 << 30,
            cpus=1,
            pids=256,
            home=home,
            root=home / ".ohmo",
            workspace=home / "work",
            absolute=ABSOLUTE,
            anywhere=ANYWHERE,
            path=PATH,
            engine=os.environ.get("DOCKER_HOST", ""),
            installed=(Path(sys.prefix), Path(sys.base_prefix), Path(ohmo.__file__).parents[1]),
        )
    )


async def once(wall: Walls | None, work: Path, opened: Opened) -> float:
    """Milliseconds, also of what makes the cage."""
    began = time.perf_counter()
    cage = await wall.cage(work, opened=opened) if wall is not None else None
    environ = child_environment({"PATH": PATH})
    command = Command(("/bin/true",), work, environ, work / "spill", 20.0, cage=cage)
    ended = await ProcessRunner(sandbox=wall).run(command, lambda _: None)
    if ended.code != 0:
        raise SystemExit(f"true ended with {ended.code}: {ended.output.err.head!r}")
    return (time.perf_counter() - began) * 1000


async def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        top = Path(place)
        work = top / "home/work"
        (work / ".git/hooks").mkdir(parents=True)
        (work / ".git/config").touch()
        (top / "home/.ohmo").mkdir()
        ways: dict[str, tuple[Walls | None, Opened]] = {"bare": (None, Opened())}
        for backend in MOST:
            wall = walls(backend, top)
            if (standing := await wall.standing()).fell:
                print(f"{backend}: {standing.words}")
                continue
            ways[backend] = (wall, Opened())
            if backend != "docker":  # an engine may have no network to give
                ways[f"{backend}+network"] = (wall, Opened(network=True))
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):  # in turns, so that a busy machine slows all of them
            for way, (wall, opened) in ways.items():
                taken[way].append(await once(wall, work, opened))
    p50 = {way: statistics.median(times) for way, times in taken.items()}
    pairs = {way: zip(times, taken["bare"], strict=True) for way, times in taken.items()}
    added = {way: statistics.median(a - b for a, b in pair) for way, pair in pairs.items()}
    for way, took in p50.items():
        print(f"{way}: {took:.1f} ms, {added[way]:+.1f} ms, {took / p50['bare']:.2f} of bare")
    return 0 if all(added.get(backend, 0.0) <= most for backend, most in MOST.items()) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
