"""CommonMark for every renderer: parse it, write what it must not take for markup, say it
plainly."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # sixty modules that nobody needs before the first answer
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


@cache
def outline() -> MarkdownIt:
    """Blocks only: what a cut needs to know, in a fraction of the time."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable(["inline"])


def warm() -> None:
    """Import and build the parsers, tens of milliseconds, in a thread of the caller's, so that no
    answer waits for them."""
    parse("")
    outline()


def parse(text: str) -> SyntaxTreeNode:
    """The syntax tree of CommonMark with tables and strikethrough. Raw HTML stays HTML tokens: a
    renderer must escape it."""
    from markdown_it.tree import SyntaxTreeNode

    return SyntaxTreeNode(_parser().parse(text))


# What is not to be read as markup

_MARKS = re.compile(r"[\\`*_\[\]<>~|&]")


def literal(text: str) -> str:
    """One line as CommonMark that means exactly these letters (CommonMark 2.4): no link, no
    emphasis, nothing struck out."""
    return _MARKS.sub(r"\\\g<0>", text)


def code_span(text: str) -> str:
    """As code, so that nothing in it is markup; the fence is longer than any run of backticks
    inside (CommonMark 6.1). "" for nothing."""
    if not text.strip():
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


# Plain words


def plain(text: str) -> str:
    """CommonMark as readable plain text: bullets, numbers and quotes stay visible, an address
    stands after its link's words."""
    return "\n\n".join(filter(None, (_block(child) for child in parse(text).children)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "fence" | "code_block" | "html_block":
            return node.content.rstrip("\n")
        case "hr":
            return "———"
        case "blockquote":
            inner = "\n\n".join(filter(None, (_block(child) for child in node.children)))
            return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
        case "bullet_list" | "ordered_list":
            return "\n".join(_item(node, index, child) for index, child in enumerate(node.children))
        case "table":
            rows = (row for part in node.children for row in part.children)
            return "\n".join(
                " | ".join(plain_inline(cell) for cell in row.children) for row in rows
            )
        case _:
            return plain_inline(node)


def _item(parent: SyntaxTreeNode, index: int, item: SyntaxTreeNode) -> str:
    first = int(parent.attrs.get("start", 1))
    mark = "• " if parent.type == "bullet_list" else f"{first + index}. "
    body = "\n".join(filter(None, (_block(child) for child in item.children)))
    return mark + body.replace("\n", "\n" + " " * len(mark))


def plain_inline(node: SyntaxTreeNode) -> str:
    """The words of a block or an inline node, its markup gone."""
    match node.type:
        case "text" | "code_inline" | "html_inline":
            return node.content
        case "softbreak" | "hardbreak":
            return "\n"
        case "image":
            return _with_address(node.content, str(node.attrs.get("src", "")))
        case "link":
            return _with_address(
                "".join(plain_inline(child) for child in node.children),
                str(node.attrs.get("href", "")),
            )
        case _:
            return "".join(plain_inline(child) for child in node.children)


def _with_address(words: str, address: str) -> str:
    if not words.strip():
        return address
    return words if not address or address in {words, f"mailto:{words}"} else f"{words} ({address})"


def table(node: SyntaxTreeNode) -> str:
    """A table as lines of a fixed-width face, its columns aligned as it says."""
    rows = [
        [plain_inline(cell).replace("\n", " ") for cell in row.children]
        for part in node.children
        for row in part.children
    ]
    styles = [str(cell.attrs.get("style", "")) for cell in node.children[0].children[0].children]
    widths = [
        max((_width(row[column]) for row in rows if column < len(row)), default=0)
        for column in range(len(styles))
    ]
    lines: list[str] = []
    for row in rows:
        cells: list[str] = []
        for cell, width, style in zip(row, widths, styles, strict=False):
            room = " " * (width - _width(cell))
            cells.append(room + cell if style.endswith("right") else cell + room)
        lines.append(" | ".join(cells).rstrip())
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _width(text: str) -> int:
    """Columns; wide East Asian characters take two, combining marks none."""
    columns = 0
    for character in text:
        if not unicodedata.combining(character):
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return columns
