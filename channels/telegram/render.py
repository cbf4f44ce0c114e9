"""Outbound messages as calls of the Bot API, frozen as JSON; and CommonMark as Telegram's HTML
(Telegram Bot API, "HTML style" and the nesting rules of "Formatting options"). Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape, unescape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from channels.contract import Address, MessageId, Outbound, Part
from channels.errors import Rejected
from channels.payloads import Body, clean
from channels.split import split_markdown
from channels.text import around, disclosed, is_link, parse, table, words_of

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


MAX_TEXT = 4096  # UTF-16 units after entities parsing (sendMessage, text)
# of one message; Telegram shows the rest without its form (limits of Telegram, "Formatting
# entities")
MAX_ENTITIES = 100
MAX_CAPTION = 1024  # sendDocument, caption
MAX_ALBUM = 10  # sendMediaGroup, media: 2-10 items
MAX_DATA = 64  # bytes (InlineKeyboardButton, callback_data)
PHOTOS = (".jpg", ".jpeg", ".png")  # sendPhoto takes these; everything else is a document
MARK = "may be a duplicate"
_ROOM = len(MARK) + 6  # kept free in every message, so that mark() never passes a limit
# a source of four times the limit is not even rendered to see whether its addresses make up for it
_LEAST_SHARE = 4
# what an entity can begin with; it takes one of them at least
_FORM = re.compile(r"[*_`~\[<#>=]+|^(?: {4}|\t)|^-+$", re.MULTILINE)
_STYLES = {"good": "success", "danger": "danger"}  # InlineKeyboardButton, style
_ELEMENTS = {"strong": "b", "em": "i", "s": "s"}
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


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Texts first, then files; the choices stand under the last text. Raises Rejected for a choice
    or a place Telegram cannot hold."""
    chat = chat_of(outbound.address)
    formatted: Body = {} if outbound.plain else {"parse_mode": "HTML"}
    unlinked = {"link_preview_options": {"is_disabled": True}}
    texts: list[Body] = [
        {"chat_id": chat, "text": text, **formatted, **unlinked} for text in _texts(outbound)
    ]
    if outbound.choices:
        rows: list[list[Body]] = [[]]
        for choice in outbound.choices:
            if not 1 <= len(choice.value.encode()) <= MAX_DATA:
                raise Rejected(
                    f"Telegram: the choice {choice.value!r} must have 1 to {MAX_DATA} bytes"
                )
            label = clean(choice.label).strip() or choice.value
            button: Body = {"text": label, "callback_data": choice.value}
            if choice.style in _STYLES:
                button["style"] = _STYLES[choice.style]
            width = sum(len(other["text"]) for other in [*rows[-1], button])
            if rows[-1] and width > 28:
                rows.append([])
            rows[-1].append(button)
        texts[-1]["reply_markup"] = {"inline_keyboard": rows}
    targets = [receipt.message for receipt in outbound.replaces]
    parts = [
        Part("edit", _json({**body, "message_id": number(target)}), target)
        for body, target in zip(texts, targets, strict=False)
    ]
    place: Body = {"chat_id": chat}
    topic = topic_of(outbound.address)
    if topic is not None:
        place["message_thread_id"] = topic
    reply: Body = {}
    if outbound.reply_to is not None:
        reply = {
            "reply_parameters": {
                "message_id": number(outbound.reply_to),
                "allow_sending_without_reply": True,
            }
        }
    posts: list[Body] = [place | body for body in texts[len(targets) :]]
    if posts and not targets:
        posts[0] |= reply
    parts += [Part("post", _json(body)) for body in posts]
    files: list[Body] = [place | body for body in _files(outbound.files, plain=outbound.plain)]
    if not texts:
        files = [body | reply for body in files]
    parts += [Part("file", _json(body)) for body in files]
    deletion = _json({"chat_id": chat})
    parts += [Part("delete", deletion, target) for target in targets[len(texts) :]]
    return tuple(parts)


def mark(part: Part) -> Part:
    """The same part with a visible "may be a duplicate"; deleting twice needs none."""
    if part.kind == "delete":
        return part
    body = json.loads(part.payload)
    field = "text"
    if part.kind == "file":
        field = "caption"
    formatted = part.kind == "file" or "parse_mode" in body
    note = f"<i>({MARK})</i>" if formatted else f"({MARK})"
    body[field] = f"{body[field]}\n\n{note}" if body.get(field) else note
    if formatted:
        body["parse_mode"] = "HTML"
    return replace(part, payload=_json(body))


def newest(text: str) -> str:
    """What a draft shows of a text that may be longer than one message: its end."""
    pieces = split_markdown(text, _rendered_fits({}))
    return html(pieces[-1] if pieces else "…")


def number(message: MessageId) -> int:
    if re.fullmatch(r"\d{1,18}", message) is None:
        raise Rejected(f"Telegram: {message!r} is no message of Telegram")
    return int(message)


def chat_of(address: Address) -> int | str:
    if re.fullmatch(r"-?\d{1,18}", address.chat):
        return int(address.chat)
    return address.chat


def topic_of(address: Address) -> int | None:
    """The General topic (1) exists for readers only: naming it when sending is refused ("message
    thread not found")."""
    topic = address.topic
    if topic is None or not topic.isdigit() or topic == "1":
        return None
    return int(topic)


def _texts(outbound: Outbound) -> list[str]:
    """Each text as it is sent: Telegram's HTML, or just the words when the message is plain."""
    source = clean(outbound.text)
    empty = [] if outbound.files and not outbound.choices else ["…"]
    if outbound.plain:
        room = MAX_TEXT - _ROOM
        return split_markdown(inert(source), lambda piece: units(piece) <= room) or empty
    called = ""
    # In a private chat, and when it is answered, a person hears of it anyhow.
    if outbound.address.chat.startswith("-"):
        people = outbound.mentions if outbound.reply_to is None else outbound.mentions[1:]
        for person in filter(str.isdigit, people):
            called += f'<a href="tg://user?id={person}">@{person}</a> '
    rendered: dict[str, str] = {}
    pieces = split_markdown(source, _rendered_fits(rendered, units(visible(called))))
    if not pieces:
        if called:
            return [called + "…"]
        return empty
    texts = [rendered.get(piece) or html(piece) for piece in pieces]
    return [called + texts[0], *texts[1:]]


def _rendered_fits(rendered: dict[str, str], taken: int = 0) -> Callable[[str], bool]:
    """Whether a piece fits into a message beside ``taken`` units; keeps what it had to render."""
    room = MAX_TEXT - _ROOM - taken

    def fits(piece: str) -> bool:
        # But for tables, rendering adds bullets and margins only.
        simple = "|" not in piece and len(_FORM.findall(piece)) < MAX_ENTITIES
        margins = 8 * piece.count("\n")
        if simple and units(inert(piece)) + margins <= room:
            return True
        if units(piece) > _LEAST_SHARE * MAX_TEXT:
            return False
        made = html(piece)
        rendered[piece] = made
        return units(visible(made)) <= room and made.count("</") < MAX_ENTITIES  # one is mark()'s

    return fits


def _files(paths: Sequence[Path], *, plain: bool) -> list[Body]:
    """What stands together and is of one kind goes as albums (sendMediaGroup); plain: one by one,
    so that one bad file spoils no other."""
    files: list[Body] = []
    for path in paths:
        # A picture that Telegram refused as a photo (its sides, its size) goes as a document the
        # second time.
        photo = not plain and path.suffix.lower() in PHOTOS
        files.append({"path": str(path), "name": path.name, "photo": photo})
    if plain:
        return files
    bodies: list[Body] = []
    for photo, group in groupby(files, key=lambda body: bool(body["photo"])):
        alike = list(group)
        for start in range(0, len(alike), MAX_ALBUM):
            album = alike[start : start + MAX_ALBUM]
            if len(album) == 1:
                bodies.append(album[0])
            else:
                members = [{"path": file["path"], "name": file["name"]} for file in album]
                bodies.append({"album": members, "photo": photo})
    return bodies


def _json(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def html(source: str) -> str:
    """The message as Telegram's HTML; what would show nothing at all (a lone link definition) stays
    as it was written."""
    if _MARKED.search(source) is not None:
        return parsed(source)
    # Most answers in a chat are just words: a hundredth of a parser's time.
    paragraphs = (_EDGES.sub("\n", part.strip()) for part in _GAP.split(source.strip()))
    return inert("\n\n".join(paragraphs))


def parsed(source: str) -> str:
    """html() by the parser, whatever the source."""
    made = _blocks(parse(source), quoted=False)
    if visible(made).strip():
        return made
    return _escaped(source)


def visible(made: str) -> str:
    """The text that is left after entities parsing: what Telegram counts."""
    return unescape(_TAG.sub("", made))


def units(text: str) -> int:
    """Length in UTF-16 code units, Telegram's measure."""
    return len(text) + sum(character > "\uffff" for character in text)


def _blocks(node: SyntaxTreeNode, *, quoted: bool) -> str:
    blocks = [_block(child, quoted=quoted) for child in node.children]
    return "\n\n".join(filter(None, blocks))


def _block(node: SyntaxTreeNode, *, quoted: bool) -> str:
    match node.type:
        case "paragraph":
            return _inline(node, ())
        case "heading":
            inner = _inline(node, ("b",))
            if inner:
                return f"<b>{inner}</b>".replace("<b></b>", "")
            return ""
        case "fence" | "code_block":
            language = re.match(r"[\w+#.-]+", node.info.strip()) if node.info else None
            code = escape(node.content.rstrip("\n"), quote=False)
            if language is None:
                return f"<pre>{code}</pre>"
            return f'<pre><code class="language-{language.group()}">{code}</code></pre>'
        case "blockquote":
            inner = _blocks(node, quoted=True)
            if quoted or not inner:  # quotes cannot be nested
                return inner
            return f"<blockquote>{inner}</blockquote>"
        case "bullet_list" | "ordered_list":
            items: list[str] = []
            for index, child in enumerate(node.children):
                items.append(_item(node, index, child, quoted=quoted))
            return "\n".join(items)
        case "table":
            return f"<pre>{escape(table(node), quote=False)}</pre>"
        case "hr":
            return "———"
        case _:
            return _escaped(node.content.rstrip("\n"))


def _item(parent: SyntaxTreeNode, index: int, item: SyntaxTreeNode, *, quoted: bool) -> str:
    start = int(parent.attrs.get("start", 1))
    mark = "• " if parent.type == "bullet_list" else f"{start + index}. "
    margin = " " * (len(mark) if parent.type == "ordered_list" else 3)
    blocks: list[str] = []
    for child in item.children:
        # Code and quotes stand at the margin: blanks before them would be part of the code.
        pieces = _BLOCK.split(_block(child, quoted=quoted))
        for piece in range(0, len(pieces), 2):
            lines = pieces[piece].split("\n")
            for row, line in enumerate(lines):
                if line and (piece == 0 or row):
                    lines[row] = margin + line
            pieces[piece] = "\n".join(lines)
        blocks.append("".join(pieces))
    text = "\n".join(filter(None, blocks))
    if item.children and item.children[0].type in _AT_MARGIN:
        return f"{mark.rstrip()}\n{text}"
    return mark + text.removeprefix(margin)


def _inline(node: SyntaxTreeNode, within: tuple[str, ...]) -> str:
    return "".join(_span(child, within) for child in node.children)


def _span(node: SyntaxTreeNode, within: tuple[str, ...]) -> str:
    match node.type:
        case "text" | "html_inline":
            return _escaped(node.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "code_inline":
            code = escape(node.content, quote=False)
            if "a" in within:
                return code
            # Code can neither hold nor stand in another entity: what is open closes before it and
            # opens again after it.
            closing = "".join(f"</{tag}>" for tag in reversed(within))
            opening = "".join(f"<{tag}>" for tag in within)
            return f"{closing}<code>{code}</code>{opening}"
        case "strong" | "em" | "s":
            tag = _ELEMENTS[node.type]
            if tag in within:
                return _inline(node, within)
            return f"<{tag}>{_inline(node, (*within, tag))}</{tag}>"
        case "link":
            address = str(node.attrs.get("href", ""))
            words = _inline(node, (*within, "a"))
            return _link(address, words, node, within)
        case "image":
            address = str(node.attrs.get("src", ""))
            return _link(address, _escaped(node.content), node, within)
        case _:
            return _inline(node, within)


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
    if is_link(address):
        behind = escape(disclosed(plain, address, around(node)))
        return f'<a href="{escape(address)}">{words}</a>{behind}'
    if plain.strip() in ("", address) or not address:
        return words
    return f"{words} ({_escaped(address)})"
