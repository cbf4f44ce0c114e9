"""What the house wants said, as frozen Slack calls. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from channels.contract import Address, Choice, MessageId, Outbound, Part
from channels.payloads import clean
from channels.slack.mrkdwn import NOTHING, escape, mrkdwn
from channels.split import split_markdown
from channels.text import parse, plain_inline

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# chat.postMessage truncates at 40 000 characters, chat.update refuses more than 4 000 (its page
# says characters; Slack counts the bytes of the escaped UTF-8): every post must stay editable.
MAX_TEXT = 3900  # bytes
MAX_SECTION = 2900  # bytes; Block Kit, section: 3 000 characters of text
MAX_LABEL = 75  # Block Kit, button: text
MAX_BUTTONS = 25  # Block Kit, actions: elements
MAX_STREAM = 12_000  # chat.startStream: markdown_text
MARK = "_may be a duplicate_"
MAX_ROWS, MAX_COLUMNS = 100, 20  # Table block: rows, cells of a row
MAX_CELLS = 10_000  # characters of all cells together
_ALIGN = {"text-align:center": "center", "text-align:right": "right"}
_EMPTY = "\u00a0"  # a cell has to hold something
_NOTHING_SAID = "(nothing to say)"
_STYLES = {"good": "primary", "danger": "danger"}


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Old messages are edited in order, the rest is posted, the surplus deleted; files come last.
    An uploaded file cannot be edited."""
    bodies = _bodies(outbound)
    old = [receipt.message for receipt in outbound.replaces if not is_file(receipt.message)]
    gone = [
        *old[len(bodies) :],
        *(receipt.message for receipt in outbound.replaces if is_file(receipt.message)),
    ]
    chat = outbound.address.chat
    parts = [
        _part("edit", {"channel": chat} | _editing(body), target)
        for body, target in zip(bodies, old, strict=False)
    ]
    parts += [_part("post", _where(outbound.address) | body) for body in bodies[len(old) :]]
    parts += [_part("delete", {"channel": chat}, target) for target in gone]
    parts += [
        _part("file", _where(outbound.address) | {"path": str(path), "title": path.name})
        for path in outbound.files
    ]
    return tuple(parts)


def stream(outbound: Outbound) -> tuple[Part, ...]:
    """A draft that begins a native stream. What a plain message would say stands beside it, for
    where no stream can be."""
    (first, *rest) = render(outbound)
    if (
        rest
        or first.kind != "post"
        or (outbound.address.topic is None and not outbound.address.chat.startswith("D"))
    ):
        return (first, *rest)
    return (
        replace(
            first,
            payload=_frozen(
                json.loads(first.payload) | {"markdown_text": streamed(clean(outbound.text))}
            ),
        ),
    )


def streamed(text: str) -> str:
    """``markdown_text``, in which no call to a channel or a person can stand; links are made when
    the answer is whole, until then people see what they are made of."""
    return re.sub(r"<(?=[!@#])|<(?=\w+:)|\](?=[(\[:])", rf"\g<0>{NOTHING}", text)[:MAX_STREAM]


def is_file(message: MessageId) -> bool:
    """The receipt of a file is its id: F...; that of a message its ts."""
    return message.startswith("F")


def mark(part: Part) -> Part:
    """The same post with a visible doubt; edits and deletions show nothing twice, and a file says
    it in its title."""
    body = json.loads(part.payload)
    if part.kind == "file":
        return replace(
            part, payload=_frozen(body | {"title": f"{body['title']} (may be a duplicate)"})
        )
    if part.kind != "post":
        return part
    body["text"] = f"{body['text']}\n{MARK}"
    if "blocks" in body:
        context = {"type": "context", "elements": [{"type": "mrkdwn", "text": MARK}]}
        body["blocks"] = [*body["blocks"], context]
    return replace(part, payload=_frozen(body))


def draft(text: str) -> dict[str, Any]:
    """A newer text of a message that is still being written: its head, as much as one message
    holds."""
    pieces = split_markdown(clean(text), lambda piece: size(mrkdwn(piece)) <= MAX_TEXT)
    return {"text": mrkdwn(pieces[0]) if pieces else _NOTHING_SAID, "blocks": []}


def size(text: str) -> int:
    """As chat.update counts: bytes of UTF-8."""
    return len(text.encode())


def _bodies(outbound: Outbound) -> list[dict[str, Any]]:
    text = clean(outbound.text)
    if not text.strip() and outbound.files and not outbound.choices:
        return []
    rendered = escape if outbound.plain else mrkdwn
    # A thread rings who writes in it by itself.
    people = outbound.mentions if outbound.reply_to is None else ()
    calls = " ".join(f"<@{person}>" for person in people if re.fullmatch(r"[UW][A-Z0-9]+", person))
    most = MAX_SECTION if outbound.choices else MAX_TEXT
    room = most - size(calls) - 1
    parts = [text] if outbound.plain else apart(text)
    bodies: list[dict[str, Any]] = []
    for part in parts:
        for piece in split_markdown(part, lambda piece: size(rendered(piece)) <= room):
            bodies += _said(piece, rendered(piece), room, outbound)
    bodies = bodies or [_message(_NOTHING_SAID, mrkdwn_on=not outbound.plain)]
    if calls:
        bodies[0]["text"] = f"{calls} {bodies[0]['text']}"
        if "blocks" in bodies[0]:
            bodies[0]["blocks"].insert(0, _section(calls))
    if outbound.choices:
        buttons = [_button(index, choice) for index, choice in enumerate(outbound.choices)]
        last = bodies[-1]
        last["blocks"] = list(last.get("blocks") or [_section(last["text"])])
        for at in range(0, len(buttons), MAX_BUTTONS):
            row = {"type": "actions", "elements": buttons[at : at + MAX_BUTTONS]}
            last["blocks"].append(row)
    return bodies


def _said(source: str, text: str, room: int, outbound: Outbound) -> list[dict[str, Any]]:
    """One message, or more when no boundary could make it fit. A table is a block of its own;
    ``text`` still holds it for notifications, and for the plain form that follows when Slack
    refuses the blocks."""
    pieces = _cut(text or _NOTHING_SAID, room)
    bodies = [_message(piece, mrkdwn_on=not outbound.plain) for piece in pieces]
    if len(bodies) == 1 and not outbound.plain:
        shown = blocks(source, MAX_SECTION)
        if shown:
            bodies[0]["blocks"] = shown
    return bodies


def _cut(text: str, most: int) -> list[str]:
    """A last resort for a piece that no boundary could make fit."""
    pieces: list[str] = []
    rest = text.encode()
    while len(rest) > most:
        head = rest[:most].decode(errors="ignore")  # a cut character goes into the next piece
        pieces.append(head)
        rest = rest[size(head) :]
    return [*pieces, rest.decode()]


def _message(text: str, *, mrkdwn_on: bool) -> dict[str, Any]:
    return {"text": text, "mrkdwn": mrkdwn_on, "unfurl_links": False, "unfurl_media": False}


def _section(text: str) -> dict[str, Any]:
    """``verbatim``: Slack must not turn "@here" or a channel's name in the text into the real thing
    (text object). ``expand``: it would hide the end of a long one behind "see more" (section), and
    people answer what they see."""
    return {
        "type": "section",
        "expand": True,
        "text": {"type": "mrkdwn", "text": text, "verbatim": True},
    }


def _button(index: int, choice: Choice) -> dict[str, Any]:
    label = clean(choice.label).strip() or choice.value
    label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
    button: dict[str, Any] = {
        "type": "button",
        "action_id": f"choice-{index}",
        "value": choice.value,
        "text": {"type": "plain_text", "text": label, "emoji": False},
    }
    if choice.style in _STYLES:
        button["style"] = _STYLES[choice.style]
    return button


def _where(address: Address) -> dict[str, Any]:
    return {"channel": address.chat} | ({"thread_ts": address.topic} if address.topic else {})


def _editing(body: dict[str, Any]) -> dict[str, Any]:
    """chat.update knows neither unfurling nor ``mrkdwn``. Blocks that are not named stay, buttons
    with them; an empty list takes them away."""
    return {"text": body["text"], "blocks": body.get("blocks", [])}


def _part(
    kind: Literal["post", "edit", "delete", "file"],
    body: dict[str, Any],
    target: MessageId | None = None,
) -> Part:
    return Part(kind, _frozen(body), target)


def _frozen(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


# tables


def apart(text: str) -> list[str]:
    """``text`` cut behind each table but the last: Slack takes one table block in a message
    (only_one_table_allowed)."""
    ends = [
        node.map[1] for node in parse(text).children if _is_block(node) and node.map is not None
    ]
    lines = _lines(text)
    cuts = [0, *ends[:-1], len(lines)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(cuts)]


def blocks(text: str, most: int) -> list[dict[str, Any]]:
    """``text``, which holds one such table, as blocks; [] when it holds none or more, or when what
    stands around it passes ``most`` characters."""
    found = [node for node in parse(text).children if _is_block(node) and node.map is not None]
    if len(found) != 1 or found[0].map is None:
        return []
    lines, (begin, end) = _lines(text), found[0].map
    around = [mrkdwn("".join(part)) for part in (lines[:begin], lines[end:])]
    if any(len(words) > most for words in around):
        return []
    before, after = ([_section(words)] if words.strip() else [] for words in around)
    return [*before, _table_block(found[0]), *after]


def _lines(text: str) -> list[str]:
    """As CommonMark counts them: str.splitlines knows more ends of a line."""
    return re.split(r"(?<=\n)", re.sub(r"\r\n?", "\n", text))


def _is_block(node: SyntaxTreeNode) -> bool:
    if node.type != "table":
        return False
    rows = [[_cell(cell) for cell in row] for row in _rows_of(node)]
    return (
        0 < len(rows) <= MAX_ROWS
        and max(map(len, rows)) <= MAX_COLUMNS
        and sum(len(cell) for row in rows for cell in row) <= MAX_CELLS
    )


def _rows_of(node: SyntaxTreeNode) -> Iterator[list[SyntaxTreeNode]]:
    for part in node.children:
        for row in part.children:
            yield list(row.children)


def _cell(node: SyntaxTreeNode) -> str:
    return plain_inline(node).replace("\n", " ").strip() or _EMPTY


def _table_block(node: SyntaxTreeNode) -> dict[str, Any]:
    rows = list(_rows_of(node))
    columns = [
        {"align": _ALIGN.get(str(cell.attrs.get("style", "")), "left"), "is_wrapped": True}
        for cell in rows[0]
    ]
    return {
        "type": "table",
        "column_settings": columns,
        "rows": [[{"type": "raw_text", "text": _cell(cell)} for cell in row] for row in rows],
    }
