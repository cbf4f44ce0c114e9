"""How long a decision about a command takes: ``python -m benchmarks.decisions``.

Everyday commands, judged in a project with a repository (p50 and p99, milliseconds), 5 000
sub-commands in every mode, and the longest of several hostile lines of 100 000 characters (limits:
1 ms at the median, 200 ms, 50 ms)."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.unit.permissions.attack_forms import everyday
from tests.unit.permissions.everyday_project import project
from tests.unit.permissions.permission_house import Mode

LONG = {
    "words": "echo " + "word " * 20_000,
    "commands": "ls;" * 33_000,
    "one word": "cat " + "a/" * 50_000,
    "quotes": "echo " + "'a'" * 33_000,
    "substitutions": "echo " + "$(ls) " * 16_000,
    "open": "echo '" + "x" * 100_000,
    "wildcards": "ls " + "* " * 50_000,
}
# In full_auto they are all taken apart, in the other modes a line so long is only looked through.
MANY = {
    "the same": "ls;" * 5_000,
    "with a file": ";".join(f"cat a{number}.py" for number in range(5_000)),
    "that change": " && ".join(f"touch b{number}" for number in range(5_000)),
}
MODES: tuple[Mode, ...] = ("default", "plan", "full_auto")
MEDIAN, MOST, LONGEST = 1.0, 200.0, 50.0  # milliseconds


def main() -> int:
    reading, writing = everyday()
    with tempfile.TemporaryDirectory() as folder:
        house = project(Path(folder)).house

        def judged(command: str, times: int, mode: Mode = "default") -> float:
            taken: list[float] = []
            for _ in range(times):
                start = time.perf_counter()
                house.bash(command, mode, deny=("Bash(rm:*)",))
                taken.append((time.perf_counter() - start) * 1000)
            return statistics.median(taken)

        times = sorted(judged(command, 3) for command in (*reading, *writing))
        p50 = statistics.median(times)
        print(
            f"{len(times)} commands: p50 {p50:.2f} ms ({MEDIAN}), p99"
            f" {times[int(len(times) * 0.99)]:.2f} ms"
        )
        many = {
            f"{name}, {mode}": judged(command, 3, mode)
            for name, command in MANY.items()
            for mode in MODES
        }
        for name, taken in many.items():
            print(f"5 000 sub-commands {name}: {taken:.1f} ms ({MOST:.0f})")
        longest = {name: judged(command, 3) for name, command in LONG.items()}
        for name, taken in longest.items():
            print(f"100 000 characters, {name}: {taken:.1f} ms ({LONGEST:.0f})")
    within = p50 <= MEDIAN and max(many.values()) <= MOST and max(longest.values()) <= LONGEST
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
