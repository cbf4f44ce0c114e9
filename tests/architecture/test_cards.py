"""Every test that a page names clause by clause exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (ROOT / "docs").rglob("*.md")
    if "## Clause by clause" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    card = page.read_text(encoding="utf-8").partition("## Clause by clause")[2]
    files = {
        path.relative_to(ROOT / "tests").as_posix(): path
        for path in (ROOT / "tests").rglob("test_*.py")
    }
    known = {
        name
        for path in files.values()
        for name in re.findall(r"def test_(\w+)", path.read_text(encoding="utf-8"))
    }
    proofs = [
        named
        for row in card.splitlines()
        if row.startswith("| ")
        for named in re.findall(r"`(\w[\w/.]*)`", row.split("|")[2])
    ]
    assert len(proofs) > 10
    known.update(
        room.relative_to(ROOT / "tests").as_posix()
        for room in (ROOT / "tests").rglob("*")
        if room.is_dir()
    )
    missing = [
        one
        for one in proofs
        if one not in known and not any(path.endswith(one) for path in files if one.endswith(".py"))
    ]
    assert missing == []


def test_pages_that_people_read_name_no_tests() -> None:
    """Those names stand in docs/evidence; developers' pages and decisions may hold them too."""
    tests = list((ROOT / "tests").rglob("test_*.py"))
    names = {path.name for path in tests}
    for path in tests:
        names.update(re.findall(r"def test_(\w{12,})", path.read_text(encoding="utf-8")))
    docs = ROOT / "docs"
    others = {"evidence", "decisions", "architecture.md", "dashboard.md"}
    told: list[str] = []
    for page in sorted(docs.rglob("*.md")):
        if page.relative_to(docs).parts[0] in others:
            continue
        quoted = re.findall(r"`(?:[\w/]+/)?(\w+(?:\.py)?)`", page.read_text(encoding="utf-8"))
        told.extend(f"{page.relative_to(docs)}: {name}" for name in quoted if name in names)
    assert told == []
