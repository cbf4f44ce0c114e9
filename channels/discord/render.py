"""What the house wants said, as frozen calls of Discord's REST API, and CommonMark as its Markdown
("Markdown Text 101" of Discord's help centre; Reference, "Message formatting"). Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.contract import Address, MessageId, Outbound, Part, PersonId
from channels.errors import Rejected
from channels.payloads import Body, clean
from channels.split import split_markdown
from channels.text import around, disclosed, is_link, parse, plain_inline, table

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MAX_TEXT = 2000  # Message resource, Create Message: content, "up to 2000 characters"
MAX_CARD = 4096  # Embed limits: description
_WAITS = 0xF0B232  # colour of a card that somebody has to answer
_SETTLED = 0x80848E  # of one that nobody has to answer any more
MAX_FILES = 10  # attachments of one message
MAX_ROWS = 5  # Component reference: five action rows of five buttons
MAX_IN_ROW = 5
MAX_LABEL = 80  # Component reference, button: label, custom_id
MAX_ID = 100
SUPPRESS_EMBEDS = 1 << 2  # Message flags: no previews of links
MARK = "-# may be a duplicate"
_ROOM = len(MARK) + 2  # kept free in every message, so that mark() never passes the limit
_NOTHING_SAID = "(nothing to say)"
_NUMBER = re.compile(r"\d{1,20}")
_STYLES = {"plain": 2, "good": 3, "danger": 4}  # Button styles: secondary, success, danger


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Old messages are edited in order, the rest is posted, the surplus deleted; files come last,
    ten to a message.

    Raises Rejected for a choice that Discord cannot hold."""
    bodies = _bodies(outbound)
    channel = place_of(outbound.address)
    messages = [receipt.message for receipt in outbound.replaces]
    old = [message for message in messages if not is_file(message)]
    reply: Body = {}
    if outbound.reply_to is not None and not (old and bodies):
        # A message that is gone is no reason not to answer.
        answered = {"message_id": number(outbound.reply_to), "fail_if_not_exists": False}
        reply = {"message_reference": answered}
    parts: list[Part] = []
    for body, message in zip(bodies, old, strict=False):
        edited: Body = {"components": [], "embeds": [], **body}
        parts.append(Part("edit", _payload(channel, edited), message))
    if bodies and not old:
        bodies[0] |= reply
    parts += [Part("post", _payload(channel, body)) for body in bodies[len(old) :]]
    surplus = old[len(bodies) :] + [message for message in messages if is_file(message)]
    parts += [Part("delete", _payload(channel, {}), message) for message in surplus]
    for start in range(0, len(outbound.files), MAX_FILES):
        paths = outbound.files[start : start + MAX_FILES]
        names = [{"id": index, "filename": path.name} for index, path in enumerate(paths)]
        shown: Body = {"attachments": names, "allowed_mentions": {"parse": []}}
        if start == 0 and not bodies:
            shown |= reply
        uploads = [str(path) for path in paths]
        whole = _json({"channel": channel, "paths": uploads, "body": shown})
        parts.append(Part("file", whole))
    return tuple(parts)


def mark(part: Part) -> Part:
    """The same message with a visible doubt; an edit or deletion shows nothing twice."""
    if part.kind not in ("post", "file"):
        return part
    frozen = json.loads(part.payload)
    content = frozen["body"].get("content")
    frozen["body"]["content"] = f"{content}\n{MARK}" if content else MARK
    return replace(part, payload=_json(frozen))


def newest(text: str) -> Body:
    """What a draft shows of a text that may be longer than one message: its end."""
    pieces = split_markdown(clean(text), _fits(markdown, MAX_TEXT - _ROOM))
    return _message(markdown(pieces[-1]) if pieces else _NOTHING_SAID, ())


def place_of(address: Address) -> str:
    """A thread is a channel of its own."""
    return address.topic or address.chat


def is_file(message: MessageId) -> bool:
    """The receipt of a message of files has an f before its number: its text cannot take the place
    of another."""
    return message.startswith("f")


def number(message: MessageId | str) -> str:
    """The id of a message, also of one with files. Raises Rejected."""
    plain = message.removeprefix("f")
    if not _NUMBER.fullmatch(plain):
        raise Rejected(f"Discord: {message!r} is no message of Discord")
    return plain


def _bodies(outbound: Outbound) -> list[Body]:
    text = clean(outbound.text)
    if not text.strip() and outbound.files and not outbound.choices:
        return []
    rendered = escape if outbound.plain else markdown
    # A reply rings its author by itself.
    people = outbound.mentions if outbound.reply_to is None else outbound.mentions[1:]
    users = [person for person in people if _NUMBER.fullmatch(person)]
    called = list(dict.fromkeys(users))
    calls = " ".join(f"<@{user}>" for user in called)
    room = MAX_TEXT - _ROOM - len(calls) - 1
    head, embed = _card(outbound, text, room)
    pieces = [head] if embed else []
    if not embed:
        for source in split_markdown(text, _fits(rendered, room)):
            pieces += filter(is_visible, _cut(rendered(source), room))
        pieces = pieces or [_NOTHING_SAID]
    if calls:
        pieces[0] = f"{calls} {pieces[0]}"
    rings = outbound.reply_to is not None and bool(outbound.mentions)
    bodies = [_message(pieces[0], called, author=rings) | embed]
    bodies += [_message(piece, ()) for piece in pieces[1:]]
    choices = {choice.value: choice for choice in outbound.choices}
    buttons: list[Body] = []
    for value, choice in choices.items():
        if not 1 <= units(value) <= MAX_ID:
            raise Rejected(f"Discord: the choice {value!r} must have 1 to {MAX_ID} characters")
        label = clean(choice.label).strip() or value
        if units(label) > MAX_LABEL:
            label = _cut(label, MAX_LABEL - 1)[0] + "…"
        # custom_id is the whole choice: a press is understood after a restart, by whoever is there.
        style = _STYLES[choice.style]
        buttons.append({"type": 2, "style": style, "label": label, "custom_id": value})
    rows = [
        {"type": 1, "components": buttons[at : at + MAX_IN_ROW]}
        for at in range(0, len(buttons), MAX_IN_ROW)
    ]
    for at in range(0, len(rows), MAX_ROWS):  # more than five rows stand under another message
        if at:
            bodies.append(_message("…", ()))
        bodies[-1]["components"] = rows[at : at + MAX_ROWS]
    return bodies


def _card(outbound: Outbound, text: str, room: int) -> tuple[str, Body]:
    """What stands above an embed, and the embed: one piece, right above its buttons. The first
    paragraph stays outside, for that is what a notification shows; with an address in it, it does
    not, for what is above an embed is shown with its previews. Nothing: the text is no card."""
    title, _, rest = text.partition("\n\n")
    if not outbound.card or outbound.plain or "```" in title or units(text) > 4 * MAX_CARD:
        return "", {}
    head = markdown(title)
    if "://" in head or units(head) > room:
        head, rest = "", text
    description = markdown(rest)
    if not is_visible(description) or units(description) > MAX_CARD:
        return "", {}
    colour = _WAITS if outbound.choices else _SETTLED
    return head, {"embeds": [{"description": description, "color": colour}], "flags": 0}


def _fits(rendered: Callable[[str], str], room: int) -> Callable[[str], bool]:
    """A source of four times the limit is not even rendered to see whether its markup makes up for
    it."""

    def fits(piece: str) -> bool:
        return units(piece) <= 4 * MAX_TEXT and units(rendered(piece)) <= room

    return fits


def _cut(text: str, most: int) -> list[str]:
    """A last resort for a piece that no boundary could make fit."""
    pieces: list[str] = []
    while units(text) > most:
        end = most
        while (surplus := units(text[:end]) - most) > 0:
            end -= max(1, surplus // 2)
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _message(content: str, called: Sequence[PersonId], *, author: bool = False) -> Body:
    """Allowed mentions: nobody but the people we mean hears a bell, whatever the text says.
    ``author``: of the message this answers."""
    allowed = {"parse": [], "users": list(called), "replied_user": author}
    return {"content": content, "allowed_mentions": allowed, "flags": SUPPRESS_EMBEDS}


def _payload(channel: str, body: Body) -> str:
    return _json({"channel": channel, "body": body})


def _json(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


_FENCE = "```"
# Discord makes a link of it by itself, and a backslash would be a part of it.
_URL = re.compile(r"https?://[^\s<>\\]*[^\s<>.,:;\"'\])*_~|\\`]")
_SPECIAL = re.compile(r"[\\*_~`|\[<]")
_LINE_START = re.compile(
    r"^([ \t]*)(-#|#{1,3}(?=\s)|[-+*](?=\s)|>)|^([ \t]*\d{1,9})(?=[.)]\s)", re.MULTILINE
)
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]+")
_BOLD = re.compile(r"(?<!\\)\*\*")
_MARKS = {"strong": "**", "em": "*", "s": "~~"}


def markdown(source: str) -> str:
    """The message as Discord's Markdown; what would show nothing (a lone link definition) stays as
    it was written."""
    lines: list[str] = []
    for block in filter(None, map(_block, parse(source).children)):
        # An empty line between blocks, but none after a heading, which has room of its own.
        if lines and not lines[-1].startswith("#"):
            lines.append("")
        lines.append(block)
    text = "\n".join(lines)
    return text if is_visible(text) else escape(source)


def escape(text: str) -> str:
    """The text as it is: whatever Discord would take for markup loses its meaning."""
    return _lines(_text(text))


def is_visible(text: str) -> bool:
    """Whether Discord would show anything: a message of white space and format characters alone is
    refused as empty."""
    shown = (character for character in text if character not in "\u2800\u3164\u115f\u1160")
    return any(unicodedata.category(character)[0] not in "ZC" for character in shown)


def units(text: str) -> int:
    """Length in UTF-16 code units: never less than Discord counts."""
    return len(text) + sum(character > "\uffff" for character in text)


def _block(node: SyntaxTreeNode, *, inside: bool = False) -> str:
    match node.type:
        case "paragraph":
            return _lines(_inline(node))
        case "heading":
            # Discord knows three levels, and none inside of other blocks; bold does for the rest.
            words = _inline(node).replace("\n", " ").strip()
            level = int(node.tag[1:])
            if words and (level > 3 or inside):
                return f"**{_BOLD.sub('', words)}**"
            return f"{'#' * level} {words}" if words else ""
        case "fence" | "code_block":
            language = node.info if node.type == "fence" else ""
            return _fenced(node.content.rstrip("\n"), language)
        case "blockquote":
            blocks = filter(None, (_block(child, inside=True) for child in node.children))
            inner = "\n\n".join(blocks)
            if inside or not inner:
                return inner  # quotes cannot be nested
            return "> " + inner.replace("\n", "\n> ")
        case "bullet_list" | "ordered_list":
            number = int(node.attrs.get("start", 1))
            items: list[str] = []
            for item in node.children:
                mark = "- " if node.type == "bullet_list" else f"{number}. "
                margin = " " * len(mark)
                blocks = filter(None, (_block(child, inside=True) for child in item.children))
                # Code stands at the margin: blanks before it would be a part of it.
                lines = [
                    block
                    if block.startswith(_FENCE)
                    else margin + block.replace("\n", "\n" + margin)
                    for block in blocks
                ]
                if lines and lines[0].startswith(_FENCE):
                    items.append("\n".join([mark.rstrip(), *lines]))
                else:
                    items.append(mark + "\n".join(lines).removeprefix(margin))
                number += 1
            return "\n".join(items)
        case "table":
            return _fenced(table(node), "")
        case "hr":
            return "———"
        case _:
            return escape(node.content.rstrip("\n"))


def _fenced(code: str, info: str) -> str:
    """Discord ends a block at the next three backticks, wherever they stand: between them goes a
    space of no width."""
    match = _LANGUAGE.match(info.strip())
    language = match[0] if match is not None else ""
    body = code.replace(_FENCE, "`\u200b`\u200b`") or " "
    if body.endswith("`"):
        body += "\u200b"
    return f"{_FENCE}{language}\n{body}\n{_FENCE}"


def _inline(block: SyntaxTreeNode) -> str:
    pieces: list[str] = []
    for node in block.children:
        match node.type:
            case "text" | "html_inline":
                piece = _text(node.content)
            case "softbreak" | "hardbreak":
                piece = "\n"
            case "code_inline":
                # As many backticks around as stand nowhere inside; three would begin a block.
                code = node.content
                runs = {len(run) for run in re.findall("`+", code)}
                size = next((size for size in (1, 2) if size not in runs), 0)
                if not size:
                    code = code.replace("`", "`\u200b")
                    size = 2
                code = code or " "
                fence = "`" * size
                edge = " " if "`" in (code[0], code[-1]) else ""
                piece = f"{fence}{edge}{code}{edge}{fence}"
            case "strong" | "em" | "s":
                piece = _styled(_inline(node), _MARKS[node.type])
            case "link":
                plain = "".join(map(plain_inline, node.children))
                address = str(node.attrs.get("href", ""))
                piece = _link(address, plain, _inline(node), around(node))
            case "image":
                address = str(node.attrs.get("src", ""))
                piece = _link(address, node.content, _text(node.content), around(node))
            case _:
                piece = _inline(node)
        pieces.append(piece)
    return "".join(pieces)


def _safe(mark: re.Match[str]) -> str:
    """An underscore inside a word and a mark between blanks mean nothing to Discord; everything
    else gets its backslash."""
    character, text = mark.group(), mark.string
    before = text[mark.start() - 1 : mark.start()]
    after = text[mark.end() : mark.end() + 1]
    if character == "_" and before.isalnum() and after.isalnum():
        return character
    if character in "*<" and before == " " and after == " ":
        return character
    return "\\" + character


def _text(text: str) -> str:
    """Addresses stay whole; marks at the head of a line are judged when the paragraph is whole."""
    pieces: list[str] = []
    last = 0
    for link in _URL.finditer(text):
        words = text[last : link.start()]
        pieces.append(_SPECIAL.sub(_safe, words))
        pieces.append(link.group())
        last = link.end()
    pieces.append(_SPECIAL.sub(_safe, text[last:]))
    return "".join(pieces)


def _lines(text: str) -> str:
    """A paragraph whose lines begin with what Discord would take for a block. Our own bold and
    italics are never followed by a blank."""
    return _LINE_START.sub(r"\1\3\\\2", text)


def _styled(inner: str, mark: str) -> str:
    """Marks must touch words; the same mark inside or beside itself would end it, so it is left out
    there."""
    words = inner.strip()
    within = words.replace("**", "") if mark == "*" else words
    if not words or re.search(rf"(?<!\\){re.escape(mark)}", within) is not None:
        return inner
    before, _, after = inner.partition(words)
    return f"{before}{mark}{words}{mark}{after}"


def _link(address: str, plain: str, words: str, read: str) -> str:
    """Masked links take web addresses only, and no address for their words; in angle brackets an
    address shows no preview."""
    if not is_link(address) or address[:4].lower() != "http":
        shown = not address or address in {plain, f"mailto:{plain}"}
        return words if shown else f"{words} ({_text(address)})"
    if not plain.strip() or plain == address:
        return f"<{address}>"
    has_address = "://" in plain or "]" in plain
    has_markup = "`" in words or "](" in words
    if has_address or has_markup or disclosed(plain, address, read):
        return f"{words} (<{address}>)"
    label = words.replace("\n", " ").strip()
    return f"[{label}](<{address}>)"
