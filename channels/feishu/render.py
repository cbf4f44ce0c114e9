"""What the house wants said, as frozen Feishu calls. CommonMark becomes the Markdown of cards;
nothing a model wrote can call everybody or become markup it was not. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from channels.contract import Address, MessageId, Outbound, Part
from channels.payloads import Body, clean
from channels.split import split_markdown
from channels.text import around, disclosed, is_link, parse, plain_inline

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# "Send message": a card's request has at most 30 KB. The card stands in it as JSON inside JSON.
MOST_BYTES = 27_000
MAX_TEXT = 26_000
MAX_LABEL = 100  # Button component: characters of its text
MAX_CHOICES = 100  # Card JSON 2.0: 200 elements in all
ELEMENT = "answer"  # element_id of the words: what a stream writes to
MARK = "*may be a duplicate*"
_NOTHING_SAID = "(nothing to say)"
_STYLES = {"good": "primary", "danger": "danger", "plain": "default"}
_FILE = "/file"
_PERSON = re.compile(r"ou_[A-Za-z0-9]{1,64}")


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Old messages are edited in order, the rest is posted, the surplus deleted; files come last. A
    file's message cannot be edited."""
    cards = _cards(outbound)
    messages = [receipt.message for receipt in outbound.replaces]
    old = [message for message in messages if not is_file(message)]
    first = _where(outbound.address, outbound.reply_to)
    more = _where(outbound.address, None)
    stream = {"stream": True} if outbound.draft else {}
    parts: list[Part] = []
    for index, card in enumerate(cards):
        if index < len(old):
            parts.append(Part("edit", _frozen({"card": card}), old[index]))
        else:
            where = more if index else first
            parts.append(Part("post", _frozen(where | {"card": card} | stream)))
    surplus = [*old[len(cards) :], *filter(is_file, messages)]
    parts += [Part("delete", _frozen({}), message) for message in surplus]
    for index, path in enumerate(outbound.files):
        where = more if cards or index else first
        parts.append(Part("file", _frozen(where | {"path": str(path)})))
    return tuple(parts)


def file_receipt(message: str) -> MessageId:
    """The receipt of a file says so: Feishu edits cards only."""
    return MessageId(message + _FILE)


def is_file(message: MessageId) -> bool:
    return message.endswith(_FILE)


def message_of(target: str) -> str:
    return target.removesuffix(_FILE)


def mark(part: Part) -> Part:
    """The same post with a visible doubt; edits and deletions show nothing twice, and a file's
    message has no room for words."""
    if part.kind != "post":
        return part
    body = json.loads(part.payload)
    body["card"]["body"]["elements"].append({"tag": "markdown", "content": MARK})
    return replace(part, payload=_frozen(body))


def draft(text: str) -> Body:
    """The card of a newer text of a message that is still being written: its head, as much as one
    message holds."""
    pieces = split_markdown(clean(text), lambda piece: _fits(_card(markup(piece)), piece))
    return _card((markup(pieces[0]) if pieces else "") or _NOTHING_SAID)


def words_of(card: Body) -> str:
    return str(card["body"]["elements"][0]["content"])


def streaming(card: Body) -> Body:
    """The same card, ready to be written to while it is read ("Streaming updates")."""
    return card | {"config": card["config"] | {"streaming_mode": True}}


def size(card: Body) -> int:
    """Bytes that a card takes in a request."""
    return len(json.dumps(_frozen(card), ensure_ascii=False).encode("utf-8", "replace"))


def _cards(outbound: Outbound) -> list[Body]:
    text = clean(outbound.text)
    if not text.strip() and outbound.files and not outbound.choices:
        return []
    # A reply rings its author by itself.
    people = outbound.mentions if outbound.reply_to is None else outbound.mentions[1:]
    called = [person for person in people if _PERSON.fullmatch(person)]
    calls = " ".join(f"<at id={person}></at>" for person in called)
    make = partial(_card, plain=outbound.plain)
    empty = make("")
    room = MOST_BYTES - len(calls)
    if outbound.choices:
        room -= size(_with_buttons(empty, outbound)) - size(empty)
    if outbound.plain:
        shown = split_markdown(text, lambda piece: size(make(piece)) <= room)
    else:
        pieces = split_markdown(text, lambda piece: _fits(make(markup(piece)), piece, room))
        shown = [markup(piece) or _NOTHING_SAID for piece in pieces]
    cards: list[Body] = []
    for piece in shown or [_NOTHING_SAID]:
        cards += [make(cut) for cut in _cut(piece, make, room)]
    if calls:
        element = {"tag": "markdown", "content": calls}
        cards[0]["body"]["elements"].insert(0, element)
    if outbound.choices:
        cards[-1] = _with_buttons(cards[-1], outbound)
    return cards


def _fits(card: Body, source: str, room: int = MOST_BYTES) -> bool:
    return size(card) <= room and tables(source) <= MOST_TABLES


def _cut(text: str, make: Callable[[str], Body], room: int) -> list[str]:
    """A last resort for a piece that no boundary could make fit."""
    if size(make(text)) <= room or len(text) < 2:
        return [text]
    middle = len(text) // 2
    first = _cut(text[:middle], make, room)
    second = _cut(text[middle:], make, room)
    return [*first, *second]


def _card(content: str, *, plain: bool = False) -> Body:
    """Card JSON 2.0. ``update_multi`` must stand there before and after, or nobody may change the
    card."""
    element: Body = {"tag": "markdown", "content": content, "element_id": ELEMENT}
    if plain:
        element = {"tag": "div", "text": {"tag": "plain_text", "content": content}}
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": [element]}}


def _with_buttons(card: Body, outbound: Outbound) -> Body:
    """Buttons side by side as far as there is room. The thread travels in the value: the press does
    not name it."""
    address = outbound.address
    where = {"topic": str(address.topic)} if address.topic else {}
    if not address.chat.startswith("oc_"):
        where["to"] = str(address.chat)
    columns: list[Body] = []
    for choice in outbound.choices[:MAX_CHOICES]:
        label = clean(choice.label).strip() or choice.value
        if len(label) > MAX_LABEL:
            label = label[: MAX_LABEL - 1] + "…"
        button: Body = {
            "tag": "button",
            "text": {"tag": "plain_text", "content": label},
            "type": _STYLES[choice.style],
            "behaviors": [{"type": "callback", "value": {"choice": choice.value} | where}],
        }
        columns.append({"tag": "column", "width": "auto", "elements": [button]})
    row = {"tag": "column_set", "flex_mode": "flow", "columns": columns}
    elements = [*card["body"]["elements"], row]
    return card | {"body": {"elements": elements}}


def _where(address: Address, reply_to: MessageId | None) -> Body:
    """A thread is answered by a reply to its root; another message by a reply that quotes it."""
    if address.topic:
        return {"chat": str(address.chat), "reply": str(address.topic), "in_thread": True}
    reply = {"reply": str(reply_to)} if reply_to else {}
    return {"chat": str(address.chat)} | reply


def _frozen(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


NOTHING = "\u200b"  # zero width: takes apart what no escape reaches
# Card JSON 2.0, "Rich text (Markdown) component": characters of the syntax are written as HTML
# entities to be shown as they are.
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
    """CommonMark as the Markdown of cards."""
    return _join_blocks(parse(text), "\n\n")


def _join_blocks(node: SyntaxTreeNode, between: str) -> str:
    return between.join(filter(None, map(_block, node.children)))


def tables(text: str) -> int:
    """How many tables a card with this source would hold."""
    if "|" not in text:
        return 0
    return sum(node.type == "table" for node in parse(text).walk())


def literal(text: str) -> str:
    """Words that shall be seen exactly so."""
    text = _SPECIAL.sub(lambda mark: f"&#{ord(mark[0])};", text)
    text = _NUMBERED.sub(_with_entity, text)
    return _LINE_START.sub(_with_entity, text)


def _with_entity(match: re.Match[str]) -> str:
    before, mark = match.groups()
    if not mark:
        return match[0]
    return f"{before}&#{ord(mark)};"


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "heading":
            words = _inline(node).replace("\n", " ")
            mark = node.markup if set(node.markup) == {"#"} else "##"
            if words.strip():
                return f"{mark} {words}"
            return ""
        case "fence" | "code_block":
            info = str(getattr(node, "info", "") or "")
            name = info.partition(" ")[0]
            language = re.sub(r"[^\w+#.-]", "", name)[:30]
            code = node.content.rstrip("\n").replace("```", f"`{NOTHING}`{NOTHING}`")
            return f"```{language}\n{_disarmed(code)}\n```"
        case "html_block":
            return literal(node.content.rstrip("\n"))
        case "hr":
            return "---"
        case "blockquote":
            lines = _join_blocks(node, "\n\n").split("\n")
            return "\n".join(f"> {line}".rstrip() for line in lines)
        case "bullet_list" | "ordered_list":
            number = int(node.attrs.get("start", 1))
            items: list[str] = []
            for item in node.children:  # four spaces for each level
                mark = "- " if node.type == "bullet_list" else f"{number}. "
                body = _join_blocks(item, "\n").replace("\n", "\n    ")
                items.append(mark + (body or NOTHING))
                number += 1
            return "\n".join(items)
        case "table":
            return _table(node)
        case _:
            return _inline(node)


def _inline(node: SyntaxTreeNode) -> str:
    match node.type:
        case "text" | "html_inline":
            return literal(node.content)
        case "code_inline":
            words = _disarmed(node.content.replace("\n", " "))
            if "`" in words:
                return literal(words)  # Feishu documents one backtick only
            if words.strip():
                return f"`{words}`"
            return words
        case "softbreak" | "hardbreak":
            return "\n"
        case "strong":
            return _wrap("**", _children(node))
        case "em":
            return _wrap("*", _children(node))
        case "s":
            return _wrap("~~", _children(node))
        case "link":
            words = "".join(map(plain_inline, node.children))
            address = str(node.attrs.get("href", ""))
            return _link(address, words, around(node))
        case "image":  # only pictures that were uploaded to Feishu can stand in a card
            address = str(node.attrs.get("src", ""))
            return _link(address, node.content, around(node))
        case _:
            return _children(node)


def _children(node: SyntaxTreeNode) -> str:
    return "".join(map(_inline, node.children))


def _wrap(mark: str, words: str) -> str:
    """A mark must touch a word on its inner side; a bold word inside a bold one would make four
    stars in a row."""
    inner = words.strip()
    if not inner or inner[0] in "*~" or inner[-1] in "*~":
        return words
    before, _, after = words.partition(inner)
    return f"{before}{mark}{inner}{mark}{after}"


def _disarmed(code: str) -> str:
    """Code knows no entities; a tag of Feishu's own in it is taken apart by something nobody
    sees."""
    return _CALL.sub(f"<{NOTHING}", code)


def _link(address: str, words: str, read: str) -> str:
    """``read``: the words with what touches them."""
    words = words.strip().replace("\n", " ")
    if not is_link(address):
        beside = ""
        if address and words != address:
            beside = f" ({address})"
        return literal(words + beside)
    target = address.replace("(", "%28").replace(")", "%29")
    shown = literal(words or address).replace("]", "&#93;")
    beside = literal(disclosed(words, address, read))
    return f"[{shown}]({target}){beside}"


def _table(node: SyntaxTreeNode) -> str:
    rows: list[list[str]] = []
    for part in node.children:
        for row in part.children:
            words = [_inline(cell).replace("\n", " ") for cell in row.children]
            rows.append([cell.replace("|", "&#124;").strip() for cell in words])
    width = max(map(len, rows))
    lines: list[str] = []
    for row in rows:
        cells = row + [""] * (width - len(row))
        lines.append("| " + " | ".join(cells) + " |")
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)
