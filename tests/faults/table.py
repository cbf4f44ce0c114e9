"""Which test holds which fault on which platform: the marker, what a run made of it, and ``python
-m tests.faults.table``, which writes the page.

``@pytest.mark.fault(20, 23)`` claims rows of the fault matrix; the platform is the test's
parameter, its folder, or ``on="slack"``. The row ``"failpoint"`` stands for the row of the test's
parameter of that name. With ``--fault-results FILE`` a run writes what became of every claim, with
``--fault-claims FILE`` a collection writes the claims alone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "platform-faults.md"
PLATFORMS = ("slack", "discord", "telegram", "matrix", "feishu")
STEPS = {
    "inbound.received": 1,
    "inbound.stored": 2,
    "turn.claim": 3,
    "model.chunk": 4,
    "tool.before": 5,
    "tool.running": 6,
    "tool.after": 7,
    "outbox.before": 8,
    "outbox.committed": 9,
    "send.accepted": 10,
}
ROWS = {
    1: "killed after receiving, before it is stored",
    2: "killed after storing, before the acknowledgement",
    3: "killed after the acknowledgement, before the turn",
    4: "killed while the model speaks",
    5: "killed before a tool starts",
    6: "killed while a command runs",
    7: "killed after a command, before its result is stored",
    8: "killed after the answer, before it is stored to be sent",
    9: "killed before the send",
    10: "killed after the platform took it, before the receipt",
    20: "the connection is closed, with every code",
    21: "the platform is away for an hour",
    22: "the connection is mute",
    23: "rate limits",
    24: "errors, time-outs and resets while sending",
    25: "the content is refused",
    26: "the token is revoked",
    27: "delivered more than once",
    28: "out of order; edits and deletions early",
    29: "a gap in the sequence",
    30: "away for more than a day",
    31: "malformed frames",
    32: "a message that fails each time",
    33: "huge messages and files",
    34: "strange characters",
    35: "a burst",
    36: "a thread that waits",
    37: "the typing indicator ends",
    51: "two daemons with one token",
    68: "/stop and /new at any moment",
    69: "its own echo, other bots",
}
ELSEWHERE = {  # cells that cannot be met, with the reason
    **{(30, name): "keeps its history for longer" for name in PLATFORMS if name != "telegram"},
    (51, "feishu"): "shows no sign of it",
}
Claims = Mapping[str, Iterable[tuple[int, str]]]


# the marker


def claims(item: pytest.Item) -> list[tuple[int, str]]:
    """(row, platform) of a test. Raises UsageError for a marker that says too little."""
    found: set[tuple[int, str]] = set()
    parameters: Mapping[str, Any] = (
        item.callspec.params
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else {}
    )
    folder = [part for part in item.path.relative_to(ROOT).parts if part in PLATFORMS]
    named = [
        value for value in parameters.values() if isinstance(value, str) and value in PLATFORMS
    ]
    for mark in item.iter_markers("fault"):
        on = mark.kwargs.get("on", ())
        platforms = (
            PLATFORMS
            if on == "all"
            else (on,)
            if isinstance(on, str)
            else tuple(on) or named or folder
        )
        others = any(
            isinstance(value, str) and value in {"fake", "web", "console"}
            for value in parameters.values()
        )
        if not platforms and not others:
            raise pytest.UsageError(
                f"{item.nodeid}: fault() needs on=PLATFORM, a parameter or a folder that names one"
            )
        for row in mark.args:
            number = (
                STEPS[str(parameters["failpoint"]).partition("=")[0]] if row == "failpoint" else row
            )
            if number not in ROWS:
                raise pytest.UsageError(f"{item.nodeid}: fault({row}) is no row of the table")
            found |= {(number, platform) for platform in platforms}
    return sorted(found)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fault-results", metavar="FILE", help="what became of every claim of @pytest.mark.fault"
    )
    parser.addoption("--fault-claims", metavar="FILE", help="the claims of the collected tests")


def pytest_configure(config: pytest.Config) -> None:
    results = config.getoption("--fault-results")
    if results and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Results(Path(results)))


CLAIMED = pytest.StashKey[dict[str, list[tuple[int, str]]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before anything is deselected."""
    found = {item.nodeid: rows for item in items if (rows := claims(item))}
    config.stash[CLAIMED] = found
    if (path := config.getoption("--fault-claims")) is not None:
        Path(path).write_text(json.dumps(found))
    for item in items:
        if item.nodeid in found:
            item.user_properties.append(("fault", found[item.nodeid]))


class _Results:
    """Of the last try of every test: with xdist in the process that reports."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        wanted = [value for name, value in report.user_properties if name == "fault"]
        if wanted and (report.when == "call" or report.outcome != "passed"):
            self._found[re.sub(r"@[\w-]+$", "", report.nodeid)] = {
                "claims": wanted[0],
                "outcome": report.outcome,
            }

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._found, indent=1, sort_keys=True))


# the page

HEAD = """# Platforms and faults: what the last run proved

This page is written by `python -m tests.faults.table` from the results of a run of the tests that carry `@pytest.mark.fault`; nothing in it is typed.
A number is how many tests hold the cell, each with the platform's real SDK against a server that keeps the platform's rules (a real Synapse for Matrix),
many of them with the real daemon killed and started again. **no test** says that nothing proves this cell yet; code that all platforms share may well be
proven on another one. What each row demands: [the fault page](faults.md).

"""


def cell(row: int, platform: str, outcomes: Iterable[str]) -> str:
    found = list(outcomes)
    if not found:
        return ELSEWHERE.get((row, platform), "**no test**")
    bad, skipped = found.count("failed"), found.count("skipped")
    if bad:
        return f"✗ {bad} of {len(found)} fail"
    return f"skipped ({skipped})" if skipped == len(found) else f"✓ {len(found) - skipped}"


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    cells: dict[tuple[int, str], list[str]] = {}
    for one in results.values():
        for row, platform in one["claims"]:
            cells.setdefault((row, platform), []).append(one["outcome"])
    lines = [f"| row | fault | {' | '.join(PLATFORMS)} |", f"|--:|---|{'---|' * len(PLATFORMS)}"]
    for row, what in ROWS.items():
        lines.append(
            f"| {row} | {what} |"
            f" {' | '.join(cell(row, on, cells.get((row, on), ())) for on in PLATFORMS)} |"
        )
    return HEAD + "\n".join(lines) + "\n\n## The tests\n\n" + _tests(results)


def _tests(results: Mapping[str, Mapping[str, Any]]) -> str:
    by_test: dict[str, set[int]] = {}
    for name, one in results.items():
        by_test.setdefault(name.partition("[")[0], set()).update(row for row, _ in one["claims"])
    return "".join(
        f"- rows {', '.join(map(str, sorted(rows)))}: `{name}`\n"
        for name, rows in sorted(by_test.items())
    )


def marked() -> list[str]:
    """Test files with a marker in them."""
    found = (ROOT / "tests").rglob("test_*.py")
    return sorted(
        str(path.relative_to(ROOT)) for path in found if "pytest.mark.fault" in path.read_text()
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--results",
        type=Path,
        nargs="+",
        help=(
            "of runs with --fault-results, later ones win; without it the marked tests are run"
            " first"
        ),
    )
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("-n", default="2", help="processes of that run")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ohmo-fault-table-") as folder:
        results = wanted.results or [Path(folder) / "results.json"]
        if wanted.results is None:
            more = [
                "-n",
                wanted.n,
                "--dist",
                "loadgroup",
                "--reruns",
                "1",
                "--fault-results",
                str(results[0]),
                "-m",
                "fault",
            ]
            subprocess.run(
                [sys.executable, "-m", "pytest", *more, *marked()], check=False, cwd=ROOT
            )
        found = {
            name: one for path in results for name, one in json.loads(path.read_text()).items()
        }
        wanted.page.write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
