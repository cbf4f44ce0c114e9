"""Text for people: CommonMark parsed, escaped and said plainly, the thinking of local models, what
stands behind a link, and times by the clock on the wall."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime, tzinfo
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

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


@lru_cache(maxsize=1)
def parse(text: str) -> SyntaxTreeNode:
    """The syntax tree of CommonMark with tables and strikethrough. Raw HTML stays HTML tokens: a
    renderer must escape it. To be read only: who cuts and renders one text asks again and again,
    and gets the same tree."""
    from markdown_it.tree import SyntaxTreeNode

    return SyntaxTreeNode(_parser().parse(text))


# What is not to be read as markup

_MARKS = re.compile(r"[\\`*_\[\]<>~|&]")
_ESCAPED = re.compile(
    r"(?P<code>(?P<fence>`+)(?!`).*?(?<!`)(?P=fence)(?!`))|\\([\\`*_\[\]<>~|&])", re.S
)


def literal(text: str) -> str:
    """One line as CommonMark that means exactly these letters (CommonMark 2.4): no link, no
    emphasis, nothing struck out."""
    return _MARKS.sub(r"\\\g<0>", text)


def unescaped(text: str) -> str:
    """CommonMark for who reads it as it stands: ``literal`` taken back, code left alone."""
    return _ESCAPED.sub(lambda found: found["code"] or found[3], text)


def code_span(text: str) -> str:
    """As code, so that nothing in it is markup; the fence is longer than any run of backticks
    inside (CommonMark 6.1). "" for nothing."""
    if not text.strip():
        return ""
    runs = re.findall("`+", text)
    longest = max(map(len, runs), default=0)
    fence = "`" * (longest + 1)
    pad = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(text: str, language: str = "") -> str:
    """As a block of code (CommonMark 4.5); the fence is longer than any inside."""
    runs = re.findall("`{3,}", text)
    fence = "`" * max(3, max(map(len, runs), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


# Plain words


def plain(text: str) -> str:
    """CommonMark as readable plain text: bullets, numbers and quotes stay visible, an address
    stands after its link's words."""
    return _blocks(parse(text), "\n\n")


def _blocks(node: SyntaxTreeNode, between: str) -> str:
    return between.join(filter(None, map(_block, node.children)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "fence" | "code_block" | "html_block":
            return node.content.rstrip("\n")
        case "hr":
            return "———"
        case "blockquote":
            return _quote(_blocks(node, "\n\n"))
        case "bullet_list" | "ordered_list":
            number = int(node.attrs.get("start", 1))
            items: list[str] = []
            for item in node.children:
                mark = "• " if node.type == "bullet_list" else f"{number}. "
                margin = " " * len(mark)
                body = _blocks(item, "\n")
                items.append(mark + body.replace("\n", "\n" + margin))
                number += 1
            return "\n".join(items)
        case "table":
            rows = [map(plain_inline, row) for row in _table_rows(node)]
            return "\n".join(map(" | ".join, rows))
        case _:
            return plain_inline(node)


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


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
            words = "".join(map(plain_inline, node.children))
            return _with_address(words, str(node.attrs.get("href", "")))
        case _:
            return "".join(map(plain_inline, node.children))


def _with_address(words: str, address: str) -> str:
    if not words.strip():
        return address
    if not address or address in {words, f"mailto:{words}"}:
        return words
    return f"{words} ({address})"


def table(node: SyntaxTreeNode) -> str:
    """A table as lines of a fixed-width face, its columns aligned as it says."""
    rows: list[list[str]] = []
    for row in _table_rows(node):
        texts = map(plain_inline, row)
        rows.append([text.replace("\n", " ") for text in texts])
    head = _table_rows(node)[0]
    styles = [str(cell.attrs.get("style", "")) for cell in head]
    widths = [0] * len(styles)
    for row in rows:
        for column, cell in enumerate(row[: len(widths)]):
            widths[column] = max(widths[column], _width(cell))
    lines: list[str] = []
    for row in rows:
        cells: list[str] = []
        for cell, width, style in zip(row, widths, styles, strict=False):
            padding = " " * (width - _width(cell))
            is_right = style.endswith("right")
            cells.append(padding + cell if is_right else cell + padding)
        lines.append(" | ".join(cells).rstrip())
    rule = "-+-".join("-" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:]])


def _table_rows(table: SyntaxTreeNode) -> list[list[SyntaxTreeNode]]:
    """The cells of its head and its body."""
    return [row.children for part in table.children for row in part.children]


def _width(text: str) -> int:
    """Columns; wide East Asian characters take two, combining marks none."""
    columns = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return columns


# Thinking: what local models (DeepSeek R1, Qwen, QwQ and others) think aloud before their answer

_BEGIN = "<think>"
_END = "</think>"
_THINKING = re.compile(r"\A\s*<think>(.*?)(?:</think>|\Z)\s*", re.DOTALL | re.IGNORECASE)


def quote_thinking(text: str) -> str:
    """CommonMark with the thinking as a quote, also while it is still being thought. Done twice it
    is the same."""
    match = _THINKING.match(text)
    if match is None:
        return text
    thought = match[1].strip()
    answer = text[match.end() :]
    return f"{_quote(thought)}\n\n{answer}".rstrip() if thought else answer


def without_thinking(text: str) -> str:
    """The answer alone."""
    return _THINKING.sub("", text)


def quote_growing(text: str) -> str:
    """``quote_thinking`` of an answer that is still written: only what no later text changes, so
    that what was shown stays as it was. A mark that is not complete yet is held back."""
    beginning = text.lstrip().lower()
    if len(beginning) < len(_BEGIN) and _BEGIN.startswith(beginning):
        return ""
    if beginning.startswith(_BEGIN) and _END not in beginning:
        for size in range(len(_END) - 1, 0, -1):
            if beginning.endswith(_END[:size]):
                text = text[:-size]
                break
        text = text.rstrip()
    return quote_thinking(text)


# Links that the model wrote: one rule for every renderer

# RFC 3986 without what browsers and libraries read differently: user information, backslashes,
# blanks.
_WEB = re.compile(r"https?://[^\s/?#@\\<>]+(?:[/?#][^\s\\<>]*)?", re.IGNORECASE)
_MAIL = re.compile(r"mailto:[^\s<>\\]+", re.IGNORECASE)
_LIKE_ADDRESS = re.compile(r"\S[.。:/@\\]\S")
_FARTHEST = 8  # neighbours of a link
_NEAR = 200  # characters of each: what touches the link, not what stands in the same line


def is_link(address: str) -> bool:
    """Whether an address may become a link: of the web or of mail, and nothing that opens a program
    or a person (``tg:``, ``slack:``, ``matrix:``, ``data:``)."""
    return _MAIL.fullmatch(address) is not None or _host(address) != ""


def disclosed(words: str, address: str, around: str = "") -> str:
    """What stands behind a link, in brackets: its host, when its words look like an address, and
    not like one of that host. ``around``: the words with what touches them. "" for nothing."""
    visible = _visible(words)
    if not _LIKE_ADDRESS.search(visible + " " + _visible(around)):
        return ""
    if _MAIL.fullmatch(address):
        target = address[len("mailto:") :].partition("?")[0]
        honest = rf"(?:mailto:)?{re.escape(target)}"
    else:
        target = _host(address)
        honest = rf"(?:https?://)?{re.escape(target)}(?::\d+)?(?:[/?#]\S*)?"
    is_honest = re.fullmatch(honest, visible, re.IGNORECASE) is not None
    return "" if is_honest else f" ({target})"


def around(link: SyntaxTreeNode) -> str:
    """The words of a link with what touches them: ``[bank](https://evil.io).com`` is read as an
    address, too."""
    before = _beside(link, forward=False)
    after = _beside(link, forward=True)
    return before + words_of(link) + after


def words_of(node: SyntaxTreeNode) -> str:
    """What is read of a piece of a line, without where its links lead."""
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    if not node.children:
        return node.content
    return "".join(map(words_of, node.children))


def _beside(node: SyntaxTreeNode, *, forward: bool) -> str:
    touching = ""
    for _ in range(_FARTHEST):
        while (sibling := node.next_sibling if forward else node.previous_sibling) is None:
            if node.parent is None or node.parent.type == "inline":
                return touching
            node = node.parent
        node = sibling
        text = words_of(node)
        near = text[:_NEAR] if forward else text[-_NEAR:]
        match = re.search(r"\A\S*" if forward else r"\S*\Z", near)
        piece = match.group() if match is not None else ""
        touching = touching + piece if forward else piece + touching
        if len(piece) < len(text):
            break
    return touching


def _visible(text: str) -> str:
    """Without what nobody sees, and letters of another width as the ones they look like."""
    letters = unicodedata.normalize("NFKC", text)
    visible = [letter for letter in letters if unicodedata.category(letter) != "Cf"]
    return "".join(visible).strip()


def _host(address: str) -> str:
    """Of the web; "" when it is none of it."""
    if _WEB.fullmatch(address) is None:
        return ""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:  # brackets that hold no address, a letter read as a sign of the syntax
        return ""


def some(number: int, thing: str) -> str:
    """``1 note``, ``3 notes``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


# Times

MINUTES = "%Y-%m-%d %H:%M"


def wall(at: datetime, zone: tzinfo, form: str = MINUTES) -> str:
    """``2026-11-23 09:00 CET (Europe/Berlin)``; in UTC ``2026-11-23 08:00 UTC``. ``form`` as in
    strftime."""
    local = at.astimezone(zone)
    short = f"{local:%Z}"
    name = str(zone)
    suffix = "" if name.endswith(short) else f" ({name})"
    return f"{local:{form}} {short}{suffix}"
