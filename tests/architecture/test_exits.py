"""The ends of a turn are told in three places, the methods, what they say of themselves and the
table for readers: all three name the same ends."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXITS = ROOT / "ohmo" / "sessions" / "exits.py"


def exits() -> dict[str, str]:
    """Names and docstrings of the ways out."""
    tree = ast.parse(EXITS.read_text(encoding="utf-8"))
    (found,) = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Exits"
    )
    methods = [
        node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        method.name: ast.get_docstring(method) or ""
        for method in methods
        if not method.name.startswith("_")
    }


def test_every_way_out_of_a_turn_says_what_is_stored_what_is_seen_and_what_a_restart_does() -> None:
    silent = {
        name: word
        for name, text in exits().items()
        for word in ("Stored", "Seen:", "Restart:")
        if word not in " ".join(text.split())
    }
    assert silent == {}


def test_the_table_for_readers_has_a_row_for_every_way_out_and_for_the_kill_that_takes_none() -> (
    None
):
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## How a turn ends")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[a-z_]+`|killed) \|", section, re.M)
    assert sorted(row.strip("`") for row in rows) == sorted([*exits(), "killed"])


def test_every_way_out_is_taken_somewhere() -> None:
    rooms = "".join(path.read_text(encoding="utf-8") for path in EXITS.parent.glob("*.py"))
    assert [name for name in exits() if f"exits.{name}(" not in rooms] == []
