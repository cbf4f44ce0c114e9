"""Slack's own formats of text: CommonMark written as mrkdwn, and the words that blocks, attachments
and forwarded messages hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from channels.text import around, disclosed, is_link, parse, plain_inline, table

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

NOTHING = "\u200b"  # zero width: keeps Slack from reading a literal mark as markup
# Formatting message text: a mark counts at a word's edge only, so only such pairs need to be taken
# apart.
_LOOKS_MARKED = re.compile(r"(?<![\w*_~`])([*_~`])(?=\S)(?=[^\n]*?\S\1(?!\w))")


def escape(text: str) -> str:
    """Formatting message text, "Escaping text": these three and no others; so no <!channel> and no
    <@U> can be written."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mrkdwn(text: str) -> str:
    return "\n\n".join(filter(None, (_block(child) for child in parse(text).children)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "heading":
            words = _inline(node, bold=True)
            return f"*{words}*" if words.strip() else ""
        case "fence" | "code_block":
            return _fence(node.content.rstrip("\n"))
        case "html_block":
            return _literal(node.content.rstrip("\n"))
        case "hr":
            return "———"
        case "blockquote":
            inner = "\n\n".join(filter(None, (_block(child) for child in node.children)))
            return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
        case "bullet_list" | "ordered_list":
            return "\n".join(_item(node, index, child) for index, child in enumerate(node.children))
        case "table":
            return _fence(table(node))
        case _:
            return _inline(node)


def _item(parent: SyntaxTreeNode, index: int, item: SyntaxTreeNode) -> str:
    mark = (
        "• " if parent.type == "bullet_list" else f"{int(parent.attrs.get('start', 1)) + index}. "
    )
    body = "\n".join(filter(None, (_block(child) for child in item.children)))
    return mark + body.replace("\n", "\n" + " " * 4)


def _inline(node: SyntaxTreeNode, *, bold: bool = False) -> str:
    """``bold``: already inside bold, which does not nest."""
    match node.type:
        case "text" | "html_inline":
            return _literal(node.content)
        case "code_inline":
            return f"`{escape(node.content.replace('`', 'ˋ'))}`"
        case "softbreak" | "hardbreak":
            return "\n"
        case "strong":
            words = _children(node, bold=True)
            return words if bold else _wrap("*", words)
        case "em":
            return _wrap("_", _children(node, bold=bold))
        case "s":
            return _wrap("~", _children(node, bold=bold))
        case "link":
            return _link(
                str(node.attrs.get("href", "")),
                "".join(plain_inline(child) for child in node.children),
                around(node),
            )
        case "image":
            return _link(str(node.attrs.get("src", "")), node.content, around(node))
        case _:
            return _children(node, bold=bold)


def _children(node: SyntaxTreeNode, *, bold: bool) -> str:
    return "".join(_inline(child, bold=bold) for child in node.children)


def _wrap(mark: str, words: str) -> str:
    return f"{mark}{words}{mark}" if words.strip() else words


def _literal(text: str) -> str:
    return escape(_LOOKS_MARKED.sub(rf"\1{NOTHING}", text))


def _link(address: str, words: str, read: str) -> str:
    """``read``: the words with what touches them."""
    words = words.strip().replace("\n", " ")
    if not is_link(address):
        return _literal(f"{words} ({address})" if address and words != address else words)
    target = escape(address).replace("|", "%7C")
    if words in {"", address}:
        return f"<{target}>"
    return f"<{target}|{escape(words.replace('|', '¦'))}>{escape(disclosed(words, address, read))}"


def _fence(code: str) -> str:
    return f"```\n{escape(code.replace('```', f'`{NOTHING}`{NOTHING}`'))}\n```"


Body = dict[str, Any]
MOST_ATTACHMENTS = 10  # attachments of one message that are read
LONGEST = 4000  # characters of one of them
_DEEP = 8  # levels of blocks


def attachments_of(row: Body, *, program: bool) -> list[tuple[str, str]]:
    """Heading and mrkdwn of each attachment (Reference, "Secondary message attachments") of a
    ``program``; of a person those with ``is_share``, which are forwarded messages: the others are
    links that Slack unfurled, some time later."""
    found: list[tuple[str, str]] = []
    for one in [
        one
        for one in _objects(row.get("attachments"))[:MOST_ATTACHMENTS]
        if program or is_forwarded(one)
    ]:
        fields = [
            f"{_text(field, 'title')}: {_text(field, 'value')}".strip(": ")
            for field in _objects(one.get("fields"))
        ]
        lines = [_text(one, "pretext"), _text(one, "title"), _text(one, "text"), *fields]
        words = (
            "\n".join(line for line in lines if line)
            or _blocks(one.get("blocks"))
            or _text(one, "fallback")
        )
        if words:
            head = (
                f"forwarded from {_text(one, 'author_name') or 'somebody'}"
                if is_forwarded(one)
                else ""
            )
            found.append((head, words[:LONGEST]))
    return found


def words_of(row: Body) -> str:
    """Its text; of a post that has blocks only, theirs."""
    return _text(row, "text") or _blocks(row.get("blocks"))[:LONGEST]


def files_of(row: Body) -> list[Body]:
    """Its own, then those of what was forwarded with it."""
    forwarded = [
        one for one in _objects(row.get("attachments"))[:MOST_ATTACHMENTS] if is_forwarded(one)
    ]
    return [file for holder in (row, *forwarded) for file in _objects(holder.get("files"))]


def is_forwarded(attachment: Body) -> bool:
    return attachment.get("is_share") is True


def _blocks(blocks: object) -> str:
    return "\n".join(
        line for block in _objects(blocks) if (line := "".join(_said(block, 0)).strip())
    )


def _said(block: object, depth: int) -> Iterator[str]:
    """The words of a block in their order (Reference, "Blocks" and "Rich text elements"); buttons
    and inputs say nothing."""
    if not isinstance(block, dict) or depth > _DEEP:
        return
    part = cast("Body", block)
    if part.get("type") in {"actions", "input", "button"}:
        return
    text = part.get("text")
    if isinstance(text, str):
        yield text
    elif isinstance(text, dict):
        yield from _said(cast("object", text), depth + 1)
    elif isinstance(url := part.get("url"), str):
        yield url
    for name in ("fields", "elements"):
        if name == "fields" and part.get(name):
            yield "\n"
        for inner in _objects(part.get(name)):
            yield from _said(inner, depth + 1)
            if name == "fields" or part.get("type") == "rich_text":
                yield "\n"


def _objects(value: object) -> list[Body]:
    return (
        [cast("Body", one) for one in cast("list[object]", value) if isinstance(one, dict)]
        if isinstance(value, list)
        else []
    )


def _text(body: Body, name: str) -> str:
    value: object = body.get(name)
    return value.strip() if isinstance(value, str) else ""
