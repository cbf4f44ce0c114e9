"""CommonMark as Discord's Markdown ("Markdown Text 101" of Discord's help centre, and Reference,
"Message formatting"). Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from channels.text import around, disclosed, is_link, parse, plain_inline, table

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_FENCE = "```"
_URL = re.compile(
    r"https?://[^\s<>\\]*[^\s<>.,:;\"'\])*_~|\\`]"
)  # Discord makes a link of it by itself, and a backslash would be a part of it
_SPECIAL = re.compile(r"[\\*_~`|\[<]")
_LINE_START = re.compile(
    r"^([ \t]*)(-#|#{1,3}(?=\s)|[-+*](?=\s)|>)|^([ \t]*\d{1,9})(?=[.)]\s)", re.MULTILINE
)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]+")
_BOLD = re.compile(r"(?<!\\)\*\*")


def markdown(source: str) -> str:
    """The message as Discord's Markdown; what would show nothing (a lone link definition) stays as
    it was written."""
    made = "\n".join(_spaced(parse(source).children))
    return made if is_visible(made) else escape(source)


def escape(text: str) -> str:
    """The text as it is: whatever Discord would take for markup loses its meaning."""
    return _lines(_text(text))


def is_visible(text: str) -> bool:
    """Whether Discord would show anything: a message of white space and format characters alone is
    refused as empty."""
    return any(
        unicodedata.category(character)[0] not in "ZC"
        and character not in "\u2800\u3164\u115f\u1160"
        for character in text
    )


def units(text: str) -> int:
    """Length in UTF-16 code units: never less than Discord counts."""
    return len(text) + sum(character > "\uffff" for character in text)


def _safe(mark: re.Match[str]) -> str:
    """An underscore inside a word and a mark between blanks mean nothing to Discord; everything
    else gets its backslash."""
    character, text = mark.group(), mark.string
    before, after = text[mark.start() - 1 : mark.start()], text[mark.end() : mark.end() + 1]
    if character == "_" and before.isalnum() and after.isalnum():
        return character
    if character in "*<" and before == " " and after == " ":
        return character
    return "\\" + character


def _spaced(nodes: Sequence[SyntaxTreeNode]) -> list[str]:
    """Blocks with an empty line between them, but none after a heading: Discord gives it room of
    its own."""
    made: list[str] = []
    for node in nodes:
        block = _block(node)
        if block:
            made += ["", block] if made and made[-1][:1] != "#" else [block]
    return made


def _block(node: SyntaxTreeNode, *, inside: bool = False) -> str:
    match node.type:
        case "paragraph":
            return _lines(_inline(node))
        case "heading":
            return _heading(node, inside=inside)
        case "fence" | "code_block":
            return _fenced(node.content.rstrip("\n"), node.info if node.type == "fence" else "")
        case "blockquote":
            return _quote(node, inside=inside)
        case "bullet_list" | "ordered_list":
            return "\n".join(_item(node, index, child) for index, child in enumerate(node.children))
        case "table":
            return _fenced(table(node), "")
        case "hr":
            return "———"
        case _:
            return escape(node.content.rstrip("\n"))


def _heading(node: SyntaxTreeNode, *, inside: bool) -> str:
    """Discord knows three levels, and none inside of other blocks; bold does for the rest."""
    words = _inline(node).replace("\n", " ").strip()
    if not words:
        return ""
    level = int(node.tag[1:])
    return f"{'#' * level} {words}" if level <= 3 and not inside else f"**{_BOLD.sub('', words)}**"


def _quote(node: SyntaxTreeNode, *, inside: bool) -> str:
    inner = "\n\n".join(filter(None, (_block(child, inside=True) for child in node.children)))
    if inside or not inner:
        return inner  # quotes cannot be nested
    return "\n".join(f"> {line}" for line in inner.split("\n"))


def _item(parent: SyntaxTreeNode, index: int, item: SyntaxTreeNode) -> str:
    mark = (
        "- " if parent.type == "bullet_list" else f"{int(parent.attrs.get('start', 1)) + index}. "
    )
    margin = " " * len(mark)
    blocks = [block for child in item.children if (block := _block(child, inside=True))]
    lines = [
        line if block.startswith(_FENCE) else margin + line
        for block in blocks
        for line in block.split("\n")
    ]
    if blocks and blocks[0].startswith(
        _FENCE
    ):  # code stands at the margin: blanks before it would be a part of it
        return "\n".join([mark.rstrip(), *lines])
    return mark + "\n".join(lines).removeprefix(margin)


def _fenced(code: str, info: str) -> str:
    """Discord ends a block at the next three backticks, wherever they stand: between them goes a
    space of no width."""
    language = _LANGUAGE.match(info.strip())
    body = code.replace(_FENCE, "`\u200b`\u200b`")
    body = body + "\u200b" if body.endswith("`") else body
    return f"{_FENCE}{language.group() if language is not None else ''}\n{body or ' '}\n{_FENCE}"


def _inline(node: SyntaxTreeNode) -> str:
    return "".join(_span(child) for child in node.children)


def _span(node: SyntaxTreeNode) -> str:
    match node.type:
        case "text" | "html_inline":
            return _text(node.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return _code(node.content)
        case "strong" | "em" | "s":
            return _styled(_inline(node), {"strong": "**", "em": "*", "s": "~~"}[node.type])
        case "link":
            return _link(
                str(node.attrs.get("href", "")),
                "".join(plain_inline(child) for child in node.children),
                _inline(node),
                around(node),
            )
        case "image":
            return _link(
                str(node.attrs.get("src", "")), node.content, _text(node.content), around(node)
            )
        case _:
            return _inline(node)


def _text(text: str) -> str:
    """Addresses stay whole; marks at the head of a line are judged when the paragraph is whole."""
    pieces: list[str] = []
    last = 0
    for link in _URL.finditer(text):
        pieces += [_SPECIAL.sub(_safe, text[last : link.start()]), link.group()]
        last = link.end()
    return "".join([*pieces, _SPECIAL.sub(_safe, text[last:])])


def _lines(text: str) -> str:
    """A paragraph whose lines begin with what Discord would take for a block. Our own bold and
    italics are never followed by a blank."""
    return _LINE_START.sub(
        lambda mark: (
            f"{mark.group(3)}\\"
            if mark.group(3) is not None
            else f"{mark.group(1)}\\{mark.group(2)}"
        ),
        text,
    )


def _styled(inner: str, mark: str) -> str:
    """Marks must touch words; the same mark inside or beside itself would end it, so it is left out
    there."""
    words = inner.strip()
    within = words.replace("**", "") if mark == "*" else words
    if not words or re.search(rf"(?<!\\){re.escape(mark)}", within) is not None:
        return inner
    start = inner.index(words)
    return f"{inner[:start]}{mark}{words}{mark}{inner[start + len(words) :]}"


def _code(content: str) -> str:
    """As many backticks around as stand nowhere inside; three or more would begin a block."""
    runs = {len(run) for run in re.findall("`+", content)}
    fence = next((size for size in (1, 2) if size not in runs), 0)
    if not fence:
        content, fence = content.replace("`", "`\u200b"), 2
    edge = " " if content.startswith("`") or content.endswith("`") else ""
    return f"{'`' * fence}{edge}{content or ' '}{edge}{'`' * fence}"


def _link(address: str, plain: str, words: str, read: str) -> str:
    """Masked links take web addresses only, and no address for their words; in angle brackets an
    address shows no preview."""
    if not is_link(address) or address[:4].lower() != "http":
        return (
            f"{words} ({_text(address)})"
            if address and address not in {plain, f"mailto:{plain}"}
            else words
        )
    if not plain.strip() or plain == address:
        return f"<{address}>"
    if (
        disclosed(plain, address, read)
        or "://" in plain
        or "`" in words
        or "](" in words
        or "]" in plain
    ):
        return f"{words} (<{address}>)"
    return f"[{words.replace(chr(10), ' ').strip()}](<{address}>)"
