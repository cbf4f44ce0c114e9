"""CommonMark as Slack's mrkdwn: nothing a model wrote can call a whole channel or break out of its
place. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
