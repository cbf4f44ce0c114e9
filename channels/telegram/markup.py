"""CommonMark as Telegram's HTML (Telegram Bot API, "HTML style" and the nesting rules of
"Formatting options"). Pure."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import TYPE_CHECKING

from channels.text import around, disclosed, is_link, parse, table, words_of

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_STYLES = {"strong": "b", "em": "i", "s": "s"}
_TAG = re.compile(r"</?(?:b|i|s|a|code|pre|blockquote)(?: [^<>]*)?>")
# Everything that CommonMark could take for markup, or that HTML must escape.
_MARKED = re.compile(
    r"[*_`~\[\]\\<>&|#\r\0\f\v\x1c-\x1f\x85\u2028\u2029]|^[ \t]|^(?:[-+=]|\d{1,9}[.)])|["
    r" \t]$|[^\S\n ]",
    re.MULTILINE,
)
_GAP = re.compile(r"\n{2,}")
_EDGES = re.compile(r" *\n *")
_BLOCK = re.compile(r"(<pre>.*?</pre>|<blockquote>.*?</blockquote>)", re.DOTALL)
_AT_MARGIN = frozenset({"fence", "code_block", "blockquote", "table"})
# What Telegram makes a link of by itself (its clients' "tg:" leads to people and bots), and what
# calls somebody by name.
_BY_ITSELF = re.compile(r"\b(tg|ton|tonsite)(?=:)|(?<![\w@.])(@)(?=[A-Za-z]\w)", re.IGNORECASE)
_NOTHING = "\u2060"  # word joiner: nobody sees it


def html(source: str) -> str:
    """The message as Telegram's HTML; what would show nothing at all (a lone link definition) stays
    as it was written."""
    if (
        _MARKED.search(source) is None
    ):  # most answers in a chat are just words: a hundredth of a parser's time
        return inert(
            "\n\n".join(
                _EDGES.sub("\n", paragraph.strip()) for paragraph in _GAP.split(source.strip())
            )
        )
    return parsed(source)


def parsed(source: str) -> str:
    """html() by the parser, whatever the source."""
    made = "\n\n".join(
        filter(None, (_block(child, quoted=False) for child in parse(source).children))
    )
    return made if visible(made).strip() else _escaped(source)


def visible(made: str) -> str:
    """The text that is left after entities parsing: what Telegram counts."""
    return unescape(_TAG.sub("", made))


def units(text: str) -> int:
    """Length in UTF-16 code units, Telegram's measure."""
    return len(text) + sum(character > "\uffff" for character in text)


def _block(node: SyntaxTreeNode, *, quoted: bool) -> str:
    match node.type:
        case "paragraph":
            return _inline(node, ())
        case "heading":
            return _styled(node, "b")
        case "fence" | "code_block":
            language = re.match(r"[\w+#.-]+", node.info.strip()) if node.info else None
            code = escape(node.content.rstrip("\n"), quote=False)
            return (
                f'<pre><code class="language-{language.group()}">{code}</code></pre>'
                if language is not None
                else f"<pre>{code}</pre>"
            )
        case "blockquote":
            inner = "\n\n".join(
                filter(None, (_block(child, quoted=True) for child in node.children))
            )
            return (
                inner if quoted or not inner else f"<blockquote>{inner}</blockquote>"
            )  # quotes cannot be nested
        case "bullet_list" | "ordered_list":
            return "\n".join(
                _item(node, index, child, quoted=quoted)
                for index, child in enumerate(node.children)
            )
        case "table":
            return f"<pre>{escape(table(node), quote=False)}</pre>"
        case "hr":
            return "———"
        case _:
            return _escaped(node.content.rstrip("\n"))


def _item(parent: SyntaxTreeNode, index: int, item: SyntaxTreeNode, *, quoted: bool) -> str:
    start = int(parent.attrs.get("start", 1))
    mark = "• " if parent.type == "bullet_list" else f"{start + index}. "
    blocks = [_block(child, quoted=quoted) for child in item.children]
    margin = " " * (len(mark) if parent.type == "ordered_list" else 3)
    lines = [_indented(block, margin) for block in blocks]
    if item.children and item.children[0].type in _AT_MARGIN:
        return mark.rstrip() + "\n" + "\n".join(filter(None, lines))
    return mark + "\n".join(filter(None, lines)).removeprefix(margin)


def _indented(block: str, margin: str) -> str:
    """Code and quotes stand at the margin: blanks before them would be part of the code."""
    pieces = _BLOCK.split(block)
    for index in range(0, len(pieces), 2):
        lines = pieces[index].split("\n")
        pieces[index] = "\n".join(
            margin + line if line and (index == 0 or number) else line
            for number, line in enumerate(lines)
        )
    return "".join(pieces)


def _styled(node: SyntaxTreeNode, tag: str) -> str:
    inner = _inline(node, (tag,))
    return f"<{tag}>{inner}</{tag}>".replace(f"<{tag}></{tag}>", "") if inner else ""


def _inline(node: SyntaxTreeNode, within: tuple[str, ...]) -> str:
    return "".join(_span(child, within) for child in node.children)


def _span(node: SyntaxTreeNode, within: tuple[str, ...]) -> str:
    match node.type:
        case "text" | "html_inline":
            return _escaped(node.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            return _code(node.content, within)
        case "strong" | "em" | "s":
            tag = _STYLES[node.type]
            return (
                _inline(node, within)
                if tag in within
                else f"<{tag}>{_inline(node, (*within, tag))}</{tag}>"
            )
        case "link":
            return _link(
                str(node.attrs.get("href", "")), _inline(node, (*within, "a")), node, within
            )
        case "image":
            return _link(str(node.attrs.get("src", "")), _escaped(node.content), node, within)
        case _:
            return _inline(node, within)


def _code(content: str, within: tuple[str, ...]) -> str:
    """Code can neither hold nor stand in another entity: what is open closes before it and opens
    again after it."""
    code = escape(content, quote=False)
    if "a" in within:
        return code
    closing = "".join(f"</{tag}>" for tag in reversed(within))
    return f"{closing}<code>{code}</code>{''.join(f'<{tag}>' for tag in within)}"


def inert(text: str) -> str:
    """With nothing in it that Telegram would make a call or a link of its own of."""
    return _BY_ITSELF.sub(rf"\g<0>{_NOTHING}", text)


def _escaped(text: str) -> str:
    return escape(inert(text), quote=False)


def _link(address: str, words: str, node: SyntaxTreeNode, within: tuple[str, ...]) -> str:
    if "a" in within:
        return words
    plain = words_of(node)
    if not words.strip():
        words = _escaped(address)
    if not is_link(address):
        return (
            words
            if plain.strip() in ("", address) or not address
            else f"{words} ({_escaped(address)})"
        )
    return (
        f'<a href="{escape(address)}">{words}</a>{escape(disclosed(plain, address, around(node)))}'
    )
