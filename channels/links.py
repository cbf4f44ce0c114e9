"""Where a link that the model wrote may lead, and what its words must not hide: one rule for every
renderer."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

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
    seen = _seen(words)
    if not _LIKE_ADDRESS.search(seen + " " + _seen(around)):
        return ""
    if _MAIL.fullmatch(address):
        there = address[len("mailto:") :].partition("?")[0]
        own = re.compile(rf"(?:mailto:)?{re.escape(there)}", re.IGNORECASE)
    else:
        there = _host(address)
        own = re.compile(rf"(?:https?://)?{re.escape(there)}(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE)
    return "" if own.fullmatch(seen) else f" ({there})"


def around(node: SyntaxTreeNode) -> str:
    """The words of a link with what touches them: ``[bank](https://evil.io).com`` is read as an
    address, too."""
    before, after = _beside(node, forward=False), _beside(node, forward=True)
    return before + words_of(node) + after


def words_of(node: SyntaxTreeNode) -> str:
    """What is read of a piece of a line, without where its links lead."""
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    return node.content if not node.children else "".join(map(words_of, node.children))


def _beside(node: SyntaxTreeNode, *, forward: bool) -> str:
    found = ""
    for _ in range(_FARTHEST):
        while (sibling := node.next_sibling if forward else node.previous_sibling) is None:
            if node.parent is None or node.parent.type == "inline":
                return found
            node = node.parent
        node, text = sibling, words_of(sibling)
        near = text[:_NEAR] if forward else text[-_NEAR:]
        touching = re.search(r"\A\S*" if forward else r"\S*\Z", near)
        piece = touching.group() if touching is not None else ""
        found = found + piece if forward else piece + found
        if len(piece) < len(text):
            return found
    return found


def _seen(text: str) -> str:
    """Without what nobody sees, and letters of another width as the ones they look like."""
    text = unicodedata.normalize("NFKC", text)
    return "".join(one for one in text if unicodedata.category(one) != "Cf").strip()


def _host(address: str) -> str:
    """Of the web; "" when it is none of it."""
    if _WEB.fullmatch(address) is None:
        return ""
    try:
        return urlsplit(address).hostname or ""
    except (
        ValueError
    ):  # brackets that hold no address, a letter that stands for a sign of the syntax
        return ""
