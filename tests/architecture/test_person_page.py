"""The page of what a person can do says what the tests claim, and shows a gap as a gap."""

from __future__ import annotations

from tests.person import ACTS, NOT_THERE, PAGE, SURFACES, collected, page


def test_the_page_is_what_the_tests_claim() -> None:
    assert PAGE.read_text() == page(collected()), "python -m tests.person writes the page anew"


def test_no_cell_is_empty() -> None:
    assert [
        line for line in PAGE.read_text().splitlines() if line.startswith("|") and "**gap**" in line
    ] == []


def test_a_cell_nobody_shows_is_a_gap_and_one_that_cannot_be_has_its_reason() -> None:
    text = page(
        {
            "tests/faults/test_x.py::test_a[1]": [["stop", "page"]],
            "tests/faults/test_x.py::test_a[2]": [["stop", "page"]],
        }
    )
    assert "| stops what runs | 2 | **gap** |" in text
    assert "- stops what runs: `tests/faults/test_x.py::test_a` (page)" in text
    assert text.count("**gap**") - 1 == len(ACTS) * len(SURFACES) - 1 - len(
        [1 for act, on in NOT_THERE if on in SURFACES]
    )
    assert f"| changes words that still wait | **gap** | — ({1})" in text
