"""The page of platforms and faults says what the tests claim: neither more nor less."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.faults.table import CLAIMED, PAGE, PLATFORMS, ROOT, ROWS, cell, marked, page
from tests.programs import run_process


def shown() -> dict[tuple[int, str], str]:
    """The cells of the page."""
    rows = re.findall(r"^\| (\d+) \| [^|]+ \|(.+)\|$", PAGE.read_text(), re.MULTILINE)
    return {
        (int(row), on): one.strip()
        for row, cells in rows
        for on, one in zip(PLATFORMS, cells.split("|"), strict=True)
    }


@pytest.fixture
def claimed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Mapping[str, Sequence[tuple[int, str]]]:
    """Of all tests: this run knows them if it was asked for everything, else they are collected."""
    known = request.config.stash[CLAIMED]
    if request.config.args_source is pytest.Config.ArgsSource.TESTPATHS and {
        name.partition("::")[0] for name in known
    }.issuperset(marked()):
        return known
    claims = tmp_path / "claims.json"
    words = ["--collect-only", "-m", "fault", "--fault-claims", str(claims), *marked()]
    run_process(sys.executable, "-m", "pytest", *words, cwd=ROOT, code=0)
    return json.loads(claims.read_text())


def test_the_page_shows_every_cell_as_the_tests_claim_it(
    claimed: Mapping[str, Sequence[tuple[int, str]]],
) -> None:
    cells: dict[tuple[int, str], list[str]] = {(row, on): [] for row in ROWS for on in PLATFORMS}
    for rows in claimed.values():
        for row, on in rows:
            cells[row, on].append("passed")
    wanted = {(row, on): cell(row, on, outcomes) for (row, on), outcomes in cells.items()}
    stale = {
        place: (text, shown().get(place))
        for place, text in wanted.items()
        if shown().get(place) != text
    }
    assert not stale, (
        f"python -m tests.faults.table writes the page anew; cell: (claimed, shown) {stale}"
    )


def test_a_failed_a_skipped_and_a_missing_test_are_told_apart() -> None:
    assert cell(20, "slack", ["passed", "passed", "skipped"]) == "✓ 2"
    assert cell(20, "slack", ["passed", "failed"]) == "✗ 1 of 2 fail"
    assert cell(20, "slack", ["skipped"]) == "skipped (1)"
    assert cell(20, "slack", []) == "**no test**"
    assert cell(30, "slack", []) == "keeps its history for longer"
    text = page({"tests/x.py::test_a[1]": {"claims": [[20, "slack"]], "outcome": "failed"}})
    assert "✗ 1 of 1 fail" in text
    assert "rows 20: `tests/x.py::test_a`" in text
