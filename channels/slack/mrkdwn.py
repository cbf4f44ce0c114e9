"""Slack's own formats of text: CommonMark written as mrkdwn, and the words that blocks, attachments
and forwarded messages hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from channels.payloads import Body, clean
from channels.text import around, disclosed, is_link, parse, plain_inline, table

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MOST_ATTACHMENTS = 10  # attachments of one message that are read
LONGEST = 4000  # characters of one of them
_DEEP = 8  # levels of blocks
NOTHING = "\u200b"  # zero width: keeps Slack from reading a literal mark as markup
_MARKED = re.compile(r"<([^<>]*)>")
# Formatting message text: a mark counts at a word's edge only, so only such pairs need to be taken
# apart.
_LOOKS_MARKED = re.compile(r"(?<![\w*_~`])([*_~`])(?=\S)(?=[^\n]*?\S\1(?!\w))")


def escape(text: str) -> str:
    """Formatting message text, "Escaping text": these three and no others; so no <!channel> and no
    <@U> can be written."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mrkdwn(text: str) -> str:
    """CommonMark as mrkdwn."""
    return _join_blocks(parse(text), "\n\n")


def _join_blocks(node: SyntaxTreeNode, between: str) -> str:
    return between.join(filter(None, map(_block, node.children)))


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
            lines = _join_blocks(node, "\n\n").split("\n")
            return "\n".join(f"> {line}".rstrip() for line in lines)
        case "bullet_list" | "ordered_list":
            number = int(node.attrs.get("start", 1))
            items: list[str] = []
            for item in node.children:
                mark = "• " if node.type == "bullet_list" else f"{number}. "
                body = _join_blocks(item, "\n")
                items.append(mark + body.replace("\n", "\n    "))
                number += 1
            return "\n".join(items)
        case "table":
            return _fence(table(node))
        case _:
            return _inline(node)


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
            address = str(node.attrs.get("href", ""))
            words = "".join(map(plain_inline, node.children))
            return _link(address, words, around(node))
        case "image":
            address = str(node.attrs.get("src", ""))
            return _link(address, node.content, around(node))
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
        is_shown = not address or words == address
        return _literal(words if is_shown else f"{words} ({address})")
    target = escape(address).replace("|", "%7C")
    if words in {"", address}:
        return f"<{target}>"
    label = escape(words.replace("|", "¦"))
    host = escape(disclosed(words, address, read))
    return f"<{target}|{label}>{host}"


def _fence(code: str) -> str:
    inner = code.replace("```", f"`{NOTHING}`{NOTHING}`")
    return f"```\n{escape(inner)}\n```"


def readable(text: str, us: str, names: Mapping[str, str]) -> str:
    """mrkdwn as a person reads it: names for ids, addresses for links. A call of our bot at the
    start is an address, not a word. ``us``: our user id; ``names``: of people by their ids."""
    our_call = rf"^\s*<@{re.escape(us)}(\|[^<>]*)?>[\s,:]*"
    text = re.sub(our_call, "", text)
    text = _MARKED.sub(lambda mark: _marked(mark[1], names), text)
    return clean(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def _marked(inside: str, names: Mapping[str, str]) -> str:
    """Formatting message text, "Retrieving messages": <@U>, <#C|name>, <!here>, <!subteam^S|@name>,
    <!date^...|fallback>, <url|label>."""
    target, _, label = inside.partition("|")
    kind = target[:1]
    number = target[1:]
    if kind == "@":
        name = names.get(number) or label.removeprefix("@")
        return f"@{name or number}"
    if kind == "#":
        return f"#{label or number}"
    if kind == "!":
        call, _, _ = number.partition("^")
        return label or f"@{call}"
    target = target.removeprefix("mailto:")
    return target if label in {"", target} else f"{label} ({target})"


def attachments_of(row: Body, *, program: bool) -> list[tuple[str, str]]:
    """Heading and mrkdwn of each attachment (Reference, "Secondary message attachments") of a
    ``program``; of a person those with ``is_share``, which are forwarded messages: the others are
    links that Slack unfurled, some time later."""
    pieces: list[tuple[str, str]] = []
    for attachment in _objects(row.get("attachments"))[:MOST_ATTACHMENTS]:
        forwarded = is_forwarded(attachment)
        if not program and not forwarded:
            continue
        lines = [_text(attachment, name) for name in ("pretext", "title", "text")]
        for field in _objects(attachment.get("fields")):
            title = _text(field, "title")
            value = _text(field, "value")
            lines.append(f"{title}: {value}".strip(": "))
        words = "\n".join(filter(None, lines))
        words = words or _blocks(attachment.get("blocks"))
        words = words or _text(attachment, "fallback")
        if words:
            author = _text(attachment, "author_name") or "somebody"
            head = f"forwarded from {author}" if forwarded else ""
            pieces.append((head, words[:LONGEST]))
    return pieces


def words_of(row: Body) -> str:
    """Its text; of a post that has blocks only, theirs."""
    text = _text(row, "text")
    if text:
        return text
    return _blocks(row.get("blocks"))[:LONGEST]


def files_of(row: Body) -> list[Body]:
    """Its own, then those of what was forwarded with it."""
    files = _objects(row.get("files"))
    for attachment in _objects(row.get("attachments"))[:MOST_ATTACHMENTS]:
        if is_forwarded(attachment):
            files += _objects(attachment.get("files"))
    return files


def is_forwarded(attachment: Body) -> bool:
    return attachment.get("is_share") is True


def _blocks(blocks: object) -> str:
    lines: list[str] = []
    for block in _objects(blocks):
        words = "".join(_block_words(block, 0))
        lines.append(words.strip())
    return "\n".join(filter(None, lines))


def _block_words(block: object, depth: int) -> Iterator[str]:
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
        yield from _block_words(cast("object", text), depth + 1)
    elif isinstance(url := part.get("url"), str):
        yield url
    for name in ("fields", "elements"):
        if name == "fields" and part.get(name):
            yield "\n"
        for inner in _objects(part.get(name)):
            yield from _block_words(inner, depth + 1)
            if name == "fields" or part.get("type") == "rich_text":
                yield "\n"


def _objects(value: object) -> list[Body]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Body", item) for item in items if isinstance(item, dict)]


def _text(body: Body, name: str) -> str:
    value: object = body.get(name)
    return value.strip() if isinstance(value, str) else ""
