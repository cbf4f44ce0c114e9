"""docs/evidence/first-hour.md names every number of its issue, and every test it names exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "evidence" / "first-hour.md"


def rows() -> dict[int, str]:
    found = [row.split("|") for row in PAGE.read_text(encoding="utf-8").splitlines()]
    return {
        int(cells[1]): cells[3] for cells in found if len(cells) > 3 and cells[1].strip().isdigit()
    }


def test_every_number_has_its_row_and_says_which_test_shows_it() -> None:
    assert list(rows()) == list(range(1, 32))
    assert [number for number, shown in rows().items() if "`" not in shown] == []


def test_every_test_that_is_named_exists() -> None:
    missing: list[str] = []
    for named in re.findall(r"`([\w/]+\.py(?:::\w+)?)`", " ".join(rows().values())):
        path, _, test = named.partition("::")
        there = (TESTS / path).is_file()
        if not there or (test and f"def {test}(" not in (TESTS / path).read_text(encoding="utf-8")):
            missing.append(named)
    assert missing == []
