"""CommonMark as the Markdown of Feishu's cards: nothing a model wrote can call everybody or become
markup it was not. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from channels.text import around, disclosed, is_link, parse, plain_inline

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

NOTHING = "\u200b"  # zero width: takes apart what no escape reaches
# Card JSON 2.0, "Rich text (Markdown) component": characters of the syntax are written as HTML
# entities to be shown as they are.
_ALWAYS = {"<": "&#60;", "*": "&#42;", "[": "&#91;", "`": "&#96;"}
_SPECIAL = re.compile(
    r"[<*\[`]"
    r"|&(?=#?\w{1,31};)"  # would be read as an entity
    # would escape the next character, or its entity, or what comes behind these words
    r"|\\(?=[!-/:-@\[-`{-~]|\Z)"
    r"|~(?=~)|(?<=~)~"
    r"|_(?!\w)|(?<!\w)_|(?<=_)_|_(?=_)"  # inside a word it means nothing
    r"|:(?=[A-Za-z_]{2,30}:)"  # :OK: would become an emoji
    r"|\$(?=\$)|(?<=\$)\$"
)
_LINE_START = re.compile(r"^([ \t]*)([#>|=+-]|(?=\d{1,9}[.)]))", re.MULTILINE)
_NUMBERED = re.compile(r"^([ \t]*\d{1,9})([.)])", re.MULTILINE)
_CALL = re.compile(
    r"<(?=\s*/?\s*(?:at|person|link|font|text_tag|number_tag|audio|img|a|br|hr)\b)", re.IGNORECASE
)
# of one card; a fifth is accepted, a sixth makes Feishu refuse the whole card (230099, 11310)
MOST_TABLES = 4


def markup(text: str) -> str:
    return "\n\n".join(filter(None, (_block(child) for child in parse(text).children)))


def tables(text: str) -> int:
    """How many tables a card with this source would hold."""
    return text.count("|") and sum(node.type == "table" for node in parse(text).walk())


def literal(text: str) -> str:
    """Words that shall be seen exactly so."""
    text = _SPECIAL.sub(lambda found: _ALWAYS.get(found.group(), f"&#{ord(found.group())};"), text)
    text = _NUMBERED.sub(lambda found: f"{found.group(1)}&#{ord(found.group(2))};", text)
    return _LINE_START.sub(
        lambda found: (
            f"{found.group(1)}&#{ord(found.group(2))};" if found.group(2) else found.group()
        ),
        text,
    )


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "heading":
            words = _inline(node).replace("\n", " ")
            return (
                f"{node.markup if set(node.markup) == {'#'} else '##'} {words}"
                if words.strip()
                else ""
            )
        case "fence" | "code_block":
            return _fence(node.content.rstrip("\n"), str(getattr(node, "info", "") or ""))
        case "html_block":
            return literal(node.content.rstrip("\n"))
        case "hr":
            return "---"
        case "blockquote":
            inner = "\n\n".join(filter(None, (_block(child) for child in node.children)))
            return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
        case "bullet_list" | "ordered_list":
            return "\n".join(_item(node, index, child) for index, child in enumerate(node.children))
        case "table":
            return _table(node)
        case _:
            return _inline(node)


def _item(parent: SyntaxTreeNode, index: int, item: SyntaxTreeNode) -> str:
    """Four spaces for each level."""
    mark = (
        "- " if parent.type == "bullet_list" else f"{int(parent.attrs.get('start', 1)) + index}. "
    )
    blocks = [_block(child) for child in item.children]
    body = "\n".join(filter(None, blocks))
    if not body:
        return mark + NOTHING
    return mark + body.replace("\n", "\n" + " " * 4)


def _inline(node: SyntaxTreeNode) -> str:
    match node.type:
        case "text" | "html_inline":
            return literal(node.content)
        case "code_inline":
            return _code(node.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "strong":
            return _wrap("**", _children(node))
        case "em":
            return _wrap("*", _children(node))
        case "s":
            return _wrap("~~", _children(node))
        case "link":
            return _link(
                str(node.attrs.get("href", "")),
                "".join(plain_inline(child) for child in node.children),
                around(node),
            )
        case "image":  # only pictures that were uploaded to Feishu can stand in a card
            return _link(str(node.attrs.get("src", "")), node.content, around(node))
        case _:
            return _children(node)


def _children(node: SyntaxTreeNode) -> str:
    return "".join(_inline(child) for child in node.children)


def _wrap(mark: str, words: str) -> str:
    """A mark must touch a word on its inner side; a bold word inside a bold one would make four
    stars in a row."""
    inner = words.strip()
    if not inner or inner[0] in "*~" or inner[-1] in "*~":
        return words
    before, after = words[: len(words) - len(words.lstrip())], words[len(words.rstrip()) :]
    return f"{before}{mark}{inner}{mark}{after}"


def _code(words: str) -> str:
    words = _disarmed(words.replace("\n", " "))
    if not words.strip():
        return words
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    if longest:
        return literal(words)  # Feishu documents one backtick only
    return f"`{words}`"


def _fence(code: str, info: str) -> str:
    language = re.sub(r"[^\w+#.-]", "", info.split(" ", maxsplit=1)[0])[:30]
    longest = max((len(run) for run in re.findall("`{3,}", code)), default=2)
    if longest > 2:
        code = code.replace("```", f"`{NOTHING}`{NOTHING}`")
    return f"```{language}\n{_disarmed(code)}\n```"


def _disarmed(code: str) -> str:
    """Code knows no entities; a tag of Feishu's own in it is taken apart by something nobody
    sees."""
    return _CALL.sub(f"<{NOTHING}", code)


def _link(address: str, words: str, read: str) -> str:
    """``read``: the words with what touches them."""
    words = words.strip().replace("\n", " ")
    if not is_link(address):
        return literal(f"{words} ({address})" if address and words != address else words)
    target = address.replace("(", "%28").replace(")", "%29")
    shown = literal(words or address).replace("]", "&#93;")
    return f"[{shown}]({target}){literal(disclosed(words, address, read))}"


def _table(node: SyntaxTreeNode) -> str:
    rows = [
        [_cell(cell) for cell in row.children] for part in node.children for row in part.children
    ]
    width = max(map(len, rows))
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _cell(cell: SyntaxTreeNode) -> str:
    return _inline(cell).replace("\n", " ").replace("|", "&#124;").strip()
