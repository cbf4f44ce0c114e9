"""What the outline of a Python file costs beside parsing it, cold and cached, and how long the loop
of a daemon waits meanwhile: ``python -m benchmarks.symbols [FOLDER]``."""

from __future__ import annotations

import ast
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ohmo.codeintel.answers import Answers, Asked
from ohmo.codeintel.workspace import Reading, Sources, Workspace
from ohmo.contracts.messages import Json
from ohmo.processes.answering import AnsweringProcess

ROOT = Path(__file__).parents[1]
ROUNDS = 7


def best(*works: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Seconds of the processor each takes at its best, in turns: others use the machine too."""
    times = [[0.0] * rounds for _ in works]
    for each in range(rounds):
        for work, own in zip(works, times, strict=True):
            start = time.process_time()
            work()
            own[each] = time.process_time() - start
    return [min(own) for own in times]


def sources() -> Sources:
    def stamp(path: str) -> tuple[int, int]:
        status = Path(path).stat()
        return status.st_mtime_ns, status.st_size

    return Sources(Reading(stamp, lambda path: Path(path).read_bytes()))


def outline(path: str, known: Sources) -> str:
    workspace = Workspace(str(ROOT), [path], known)
    return Answers(workspace, str(ROOT)).answer(Asked("document", path))


def times(path: Path) -> list[float]:
    """Of parsing it, of its outline when it is new, and when it is known."""
    known = sources()
    outline(str(path), known)
    return best(
        lambda: ast.parse(path.read_text(encoding="utf-8")),
        lambda: outline(str(path), sources()),
        lambda: outline(str(path), known),
    )


def files(folder: Path) -> None:
    every = [
        path
        for path in sorted(folder.rglob("*.py"))[::4]
        if path.read_text(encoding="utf-8").count("\n") >= 50
    ]
    parse, cold, cached = zip(*map(times, every), strict=True)
    ratios = sorted(one / other for one, other in zip(cold, parse, strict=True))
    print(
        f"{len(parse)} files of {folder.name}, best of {ROUNDS}: cold / ast.parse"
        f" median {statistics.median(ratios):.2f}, worst {ratios[-1]:.2f}, all {sum(cold) / sum(parse):.2f}"
    )
    print(
        f"cached: median {1000 * statistics.median(cached):.3f} ms, worst {1000 * max(cached):.3f} ms"
    )


async def latency() -> None:
    """Of a loop that shall wake every 5 ms, while a file of 1 MiB is read for the first time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.py")
        one = (
            (ROOT / "ohmo/codeintel/python_names.py")
            .read_text(encoding="utf-8")
            .partition("class PythonNames")[2]
        )
        whole = "".join(f"class Names{number}{one}" for number in range((1 << 20) // len(one)))
        path.write_text(whole, encoding="utf-8")
        reader = AnsweringProcess("ohmo.tools.code.worker")
        order: dict[str, Json] = {
            "root": folder,
            "paths": [str(path)],
            "places": list[Json](),
            "asked": ["document", str(path)],
        }
        answered = asyncio.ensure_future(reader.ask(order))
        waits = []
        start = time.perf_counter()
        while not answered.done():
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            waits.append(time.perf_counter() - before - 0.005)
        cold = time.perf_counter() - start
        again = []
        small = str(ROOT / "ohmo/tools/glob.py")
        for _ in range(20):
            before = time.perf_counter()
            await reader.ask({**order, "paths": [small], "asked": ["document", small]})
            again.append(time.perf_counter() - before)
        await reader.close()
        print(
            f"1 MiB in the other process: {cold:.2f} s ({answered.result()[1].partition(chr(10))[0]}), ast.parse here"
            f" {best(lambda: ast.parse(whole), rounds=3)[0]:.2f} s; the loop waited {1000 * max(waits):.1f} ms at most"
        )
        print(
            f"asked again for a small file, with the way there and back: {1000 * statistics.median(again):.2f} ms"
        )


if __name__ == "__main__":
    files(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "ohmo")
    asyncio.run(latency())
