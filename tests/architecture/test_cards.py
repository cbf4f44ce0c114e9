"""Every test that a page names clause by clause exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "## Clause by clause" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    card = page.read_text(encoding="utf-8").partition("## Clause by clause")[2]
    files = {path.relative_to(ROOT / "tests").as_posix(): path for path in (ROOT / "tests").rglob("test_*.py")}
    known = {name for path in files.values() for name in re.findall(r"def test_(\w+)", path.read_text(encoding="utf-8"))}
    proofs = [named for row in card.splitlines() if row.startswith("| ") for named in re.findall(r"`(\w[\w/.]*)`", row.split("|")[2])]
    assert len(proofs) > 10
    missing = [one for one in proofs if one not in known and not any(path.endswith(one) for path in files if one.endswith(".py"))]
    assert missing == []
