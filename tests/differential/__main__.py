"""The long campaign: ``python -m tests.differential --strings 200000 --seed 7``; ends with 1 where
something was found."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.differential.hunt import Report, hunt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--strings", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    report, shown = Report(), 0
    with tempfile.TemporaryDirectory() as folder:
        for report in hunt(Path(folder) / "box", given.strings, given.seed, given.workers):
            for finding in report.findings[shown:]:
                print(finding)
            shown = len(report.findings)
            print(report, flush=True)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
