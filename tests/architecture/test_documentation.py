"""Links and paths in the documentation lead somewhere; decisions are numbered one by one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(page for room in ("docs", "deploy") for page in (ROOT / room).rglob("*.md"))]
    assert ROOT / "README.md" in found
    return found


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, spaces to hyphens, what is neither letter, digit, hyphen nor underscore left out."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    broken: list[str] = []
    for page in pages():
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            goal = page.parent / path if path else page
            if not goal.exists() or (anchor and anchor not in anchors(goal)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_decisions_are_numbered_one_by_one_and_say_their_number_in_the_title() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [page.name[:4] for page in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    for page in decisions:
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]} · "), f"{page.name}: begin with '# {page.name[:4]} · Title'"
