"""What a checkpoint takes beside ``git status`` of the same tree: ``python -m benchmarks.checkpoints
[FILES] [ROUNDS]``. Both are measured in turn, in one run: medians, and the least of all rounds, which says more where
others work on the same machine; and time of the processor, of all programs together. ``anew``: the first of a folder with edits."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ohmo.checkpoints.snapshots import Bounds, Snapshots

BOUNDS = Bounds(1 << 30, 120.0)


def milliseconds(work: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and of the processor."""
    began, used = time.perf_counter(), sum(os.times()[:4])
    work()
    return (time.perf_counter() - began) * 1000, (sum(os.times()[:4]) - used) * 1000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "r")
        for number in range(count):
            file = folder / f"d{number % 200}" / f"e{number % 7}" / f"f{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"line {number}\n" * 20)

        def git(*arguments: str) -> None:
            person = ("-c", "user.name=me", "-c", "user.email=me@example.org")
            subprocess.run(
                ["git", *person, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )

        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "first")
        time.sleep(1.1)  # or else every file may have changed since the index was written
        git("status")
        taken: dict[str, list[tuple[float, float]]] = {
            "status": [],
            "first": [],
            "same": [],
            "edited": [],
            "anew": [],
        }
        for number in range(rounds):

            def keep(name: str = f"kept{number}") -> None:
                snapshots = Snapshots(Path(place, name), folder, os.environ, Path(place, "home"))
                with snapshots.opened(BOUNDS) as opened:
                    snapshots.of_folder(opened, BOUNDS)

            taken["status"].append(milliseconds(lambda: git("status")))
            taken["first"].append(milliseconds(keep))
            taken["same"].append(milliseconds(keep))
            (folder / "d1" / "e1" / "f1.txt").write_text(f"edited {number}\n")
            (folder / f"new{number}").write_text("new\n")
            taken["edited"].append(milliseconds(keep))
            taken["anew"].append(milliseconds(lambda: keep("anew")))
            shutil.rmtree(Path(place, "anew"))
            git("clean", "-fdq")
            git("checkout", "-q", ".")
            time.sleep(1.1)
            git("status")
        bases: list[float] = []
        print(f"{count} files, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
        for name, values in taken.items():
            clock = [passed for passed, _ in values]
            means = [
                statistics.median(clock),
                min(clock),
                statistics.mean(used for _, used in values),
            ]
            bases = bases or means
            told = ", ".join(
                f"{what} {value:.0f} ms ({value / base:.2f} x)"
                for what, value, base in zip(("median", "least", "cpu"), means, bases, strict=True)
            )
            print(f"{name:8} {told}")


if __name__ == "__main__":
    main()
