"""Markdown tables as Block Kit table blocks, within that block's limits. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from channels.slack.mrkdwn import mrkdwn
from channels.text import parse, plain_inline

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MAX_ROWS, MAX_COLUMNS = 100, 20  # Table block: rows, cells of a row
MAX_CELLS = 10_000  # characters of all cells together
_ALIGN = {"text-align:center": "center", "text-align:right": "right"}
_EMPTY = "\u00a0"  # a cell has to hold something


def apart(text: str) -> list[str]:
    """``text`` cut behind each table but the last: Slack takes one table block in a message
    (only_one_table_allowed)."""
    ends = [node.map[1] for node in parse(text).children if _fits(node) and node.map is not None]
    lines = _lines(text)
    cuts = [0, *ends[:-1], len(lines)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(cuts)]


def blocks(text: str, most: int) -> list[dict[str, Any]]:
    """``text``, which holds one such table, as blocks; [] when it holds none or more, or when what
    stands around it passes ``most`` characters."""
    found = [node for node in parse(text).children if _fits(node) and node.map is not None]
    if len(found) != 1 or found[0].map is None:
        return []
    lines, (begin, end) = _lines(text), found[0].map
    around = [mrkdwn("".join(part)) for part in (lines[:begin], lines[end:])]
    if any(len(words) > most for words in around):
        return []
    before, after = ([_section(words)] if words.strip() else [] for words in around)
    return [*before, _block(found[0]), *after]


def _lines(text: str) -> list[str]:
    """As CommonMark counts them: str.splitlines knows more ends of a line."""
    return re.split(r"(?<=\n)", re.sub(r"\r\n?", "\n", text))


def _fits(node: SyntaxTreeNode) -> bool:
    if node.type != "table":
        return False
    rows = [[_cell(cell) for cell in row] for row in _rows(node)]
    return (
        0 < len(rows) <= MAX_ROWS
        and max(map(len, rows)) <= MAX_COLUMNS
        and sum(len(cell) for row in rows for cell in row) <= MAX_CELLS
    )


def _rows(node: SyntaxTreeNode) -> Iterator[list[SyntaxTreeNode]]:
    for part in node.children:
        for row in part.children:
            yield list(row.children)


def _cell(node: SyntaxTreeNode) -> str:
    return plain_inline(node).replace("\n", " ").strip() or _EMPTY


def _block(node: SyntaxTreeNode) -> dict[str, Any]:
    rows = list(_rows(node))
    columns = [
        {"align": _ALIGN.get(str(cell.attrs.get("style", "")), "left"), "is_wrapped": True}
        for cell in rows[0]
    ]
    return {
        "type": "table",
        "column_settings": columns,
        "rows": [[{"type": "raw_text", "text": _cell(cell)} for cell in row] for row in rows],
    }


def _section(text: str) -> dict[str, Any]:
    """``expand``: Slack would hide the end of a long one behind "see more" (section)."""
    return {
        "type": "section",
        "expand": True,
        "text": {"type": "mrkdwn", "text": text, "verbatim": True},
    }
