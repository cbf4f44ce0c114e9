"""What the house wants said, as frozen Feishu calls. CommonMark becomes the Markdown of cards;
nothing a model wrote can call everybody or become markup it was not. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from channels.contract import Address, Choice, MessageId, Outbound, Part
from channels.payloads import clean
from channels.split import split_markdown
from channels.text import around, disclosed, is_link, parse, plain_inline

Body = dict[str, Any]

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
    old = [receipt.message for receipt in outbound.replaces if not is_file(receipt.message)]
    gone = [
        *old[len(cards) :],
        *(receipt.message for receipt in outbound.replaces if is_file(receipt.message)),
    ]
    where = _where(outbound.address, outbound.reply_to)
    parts = [
        _part("edit", {"card": card}, target) for card, target in zip(cards, old, strict=False)
    ]
    more = _where(outbound.address, None)
    posts = [
        (more if old or index else where)
        | {"card": card}
        | ({"stream": True} if outbound.draft else {})
        for index, card in enumerate(cards[len(old) :])
    ]
    parts += [_part("post", post) for post in posts]
    parts += [_part("delete", {}, target) for target in gone]
    parts += [
        _part("file", (more if cards or index else where) | {"path": str(path)})
        for index, path in enumerate(outbound.files)
    ]
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
    people = (
        outbound.mentions if outbound.reply_to is None else outbound.mentions[1:]
    )  # a reply rings its author by itself
    calls = " ".join(f"<at id={person}></at>" for person in people if _PERSON.fullmatch(person))
    made = _plain_card if outbound.plain else _card
    room = (
        MOST_BYTES
        - len(calls)
        - (size(_with_buttons(made(""), outbound)) - size(made("")) if outbound.choices else 0)
    )
    shown = _as_it_is if outbound.plain else markup
    pieces = split_markdown(
        text, lambda piece: _fits(made(shown(piece)), "" if outbound.plain else piece, room)
    )
    said = [shown(piece) or _NOTHING_SAID for piece in pieces] or [_NOTHING_SAID]
    said = [piece for whole in said for piece in _cut(whole, made, room)]
    cards = [made(piece) for piece in said]
    if calls:
        cards[0]["body"]["elements"].insert(0, {"tag": "markdown", "content": calls})
    if outbound.choices:
        cards[-1] = _with_buttons(cards[-1], outbound)
    return cards


def _as_it_is(text: str) -> str:
    return text


def _fits(card: Body, source: str, room: int = MOST_BYTES) -> bool:
    return size(card) <= room and tables(source) <= MOST_TABLES


def _cut(text: str, made: Callable[[str], Body], room: int) -> list[str]:
    """A last resort for a piece that no boundary could make fit."""
    if size(made(text)) <= room or len(text) < 2:
        return [text]
    middle = len(text) // 2
    return [*_cut(text[:middle], made, room), *_cut(text[middle:], made, room)]


def _card(content: str) -> Body:
    """Card JSON 2.0. ``update_multi`` must stand there before and after, or nobody may change the
    card."""
    element = {"tag": "markdown", "content": content, "element_id": ELEMENT}
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": [element]}}


def _plain_card(content: str) -> Body:
    element = {"tag": "div", "text": {"tag": "plain_text", "content": content}}
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": [element]}}


def _with_buttons(card: Body, outbound: Outbound) -> Body:
    """Buttons side by side as far as there is room. The thread travels in the value: the press does
    not name it."""
    where = {"topic": str(outbound.address.topic)} if outbound.address.topic else {}
    where |= {} if outbound.address.chat.startswith("oc_") else {"to": str(outbound.address.chat)}
    columns = [
        {"tag": "column", "width": "auto", "elements": [_button(choice, where)]}
        for choice in outbound.choices[:MAX_CHOICES]
    ]
    row = {"tag": "column_set", "flex_mode": "flow", "columns": columns}
    return card | {"body": {"elements": [*card["body"]["elements"], row]}}


def _button(choice: Choice, where: Body) -> Body:
    label = clean(choice.label).strip() or choice.value
    label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
    return {
        "tag": "button",
        "text": {"tag": "plain_text", "content": label},
        "type": _STYLES[choice.style],
        "behaviors": [{"type": "callback", "value": {"choice": choice.value} | where}],
    }


def _where(address: Address, reply_to: MessageId | None) -> Body:
    """A thread is answered by a reply to its root; another message by a reply that quotes it."""
    if address.topic:
        return {"chat": str(address.chat), "reply": str(address.topic), "in_thread": True}
    return {"chat": str(address.chat)} | ({"reply": str(reply_to)} if reply_to else {})


def _part(
    kind: Literal["post", "edit", "delete", "file"], body: Body, target: MessageId | None = None
) -> Part:
    return Part(kind, _frozen(body), target)


def _frozen(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


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
