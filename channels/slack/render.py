"""What the house wants said, as frozen Slack calls. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from channels.contract import MessageId, Outbound, Part
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
_USER = re.compile(r"[UW][A-Z0-9]+")
_STYLES = {"good": "primary", "danger": "danger"}


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Old messages are edited in order, the rest is posted, the surplus deleted; files come last.
    An uploaded file cannot be edited."""
    bodies = _bodies(outbound)
    messages = [receipt.message for receipt in outbound.replaces]
    old = [message for message in messages if not is_file(message)]
    chat = {"channel": outbound.address.chat}
    thread = {"thread_ts": outbound.address.topic} if outbound.address.topic else {}
    parts: list[Part] = []
    for body, target in zip(bodies, old, strict=False):
        # chat.update knows neither unfurling nor ``mrkdwn``. Blocks that are not named stay,
        # buttons with them; an empty list takes them away.
        change = {"text": body["text"], "blocks": body.get("blocks", [])}
        parts.append(_part("edit", chat | change, target))
    parts += [_part("post", chat | thread | body) for body in bodies[len(old) :]]
    gone = old[len(bodies) :] + [message for message in messages if is_file(message)]
    parts += [_part("delete", chat, target) for target in gone]
    for path in outbound.files:
        file = {"path": str(path), "title": path.name}
        parts.append(_part("file", chat | thread | file))
    return tuple(parts)


def stream(outbound: Outbound) -> tuple[Part, ...]:
    """A draft that begins a native stream. What a plain message would say stands beside it, for
    where no stream can be."""
    parts = render(outbound)
    can_stream = outbound.address.topic is not None or outbound.address.chat.startswith("D")
    if len(parts) != 1 or parts[0].kind != "post" or not can_stream:
        return parts
    body = json.loads(parts[0].payload)
    body["markdown_text"] = streamed(clean(outbound.text))
    return (replace(parts[0], payload=_frozen(body)),)


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
        body["title"] = f"{body['title']} (may be a duplicate)"
    elif part.kind == "post":
        body["text"] = f"{body['text']}\n{MARK}"
        if "blocks" in body:
            text = {"type": "mrkdwn", "text": MARK}
            body["blocks"].append({"type": "context", "elements": [text]})
    else:
        return part
    return replace(part, payload=_frozen(body))


def draft(text: str) -> dict[str, Any]:
    """A newer text of a message that is still being written: its head, as much as one message
    holds."""
    pieces = split_markdown(clean(text), lambda piece: size(mrkdwn(piece)) <= MAX_TEXT)
    head = mrkdwn(pieces[0]) if pieces else _NOTHING_SAID
    return {"text": head, "blocks": []}


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
    users = [person for person in people if _USER.fullmatch(person)]
    calls = " ".join(f"<@{user}>" for user in users)
    most = MAX_SECTION if outbound.choices else MAX_TEXT
    room = most - size(calls) - 1
    parts = [text] if outbound.plain else apart(text)
    bodies: list[dict[str, Any]] = []
    for part in parts:
        for source in split_markdown(part, lambda piece: size(rendered(piece)) <= room):
            pieces = _cut(rendered(source) or _NOTHING_SAID, room)
            messages = [_message(piece, mrkdwn_on=not outbound.plain) for piece in pieces]
            # A table is a block of its own; the text still holds it for notifications, and for the
            # plain form that follows when Slack refuses the blocks.
            shown = [] if outbound.plain or len(messages) > 1 else blocks(source, MAX_SECTION)
            if shown:
                messages[0]["blocks"] = shown
            bodies += messages
    bodies = bodies or [_message(_NOTHING_SAID, mrkdwn_on=not outbound.plain)]
    if calls:
        first = bodies[0]
        first["text"] = f"{calls} {first['text']}"
        if "blocks" in first:
            first["blocks"].insert(0, _section(calls))
    if outbound.choices:
        buttons: list[dict[str, Any]] = []
        for index, choice in enumerate(outbound.choices):
            label = clean(choice.label).strip() or choice.value
            if len(label) > MAX_LABEL:
                label = label[: MAX_LABEL - 1] + "…"
            button: dict[str, Any] = {
                "type": "button",
                "action_id": f"choice-{index}",
                "value": choice.value,
                "text": {"type": "plain_text", "text": label, "emoji": False},
            }
            if choice.style in _STYLES:
                button["style"] = _STYLES[choice.style]
            buttons.append(button)
        last = bodies[-1]
        shown = last.get("blocks")
        last["blocks"] = shown or [_section(last["text"])]
        for at in range(0, len(buttons), MAX_BUTTONS):
            row = {"type": "actions", "elements": buttons[at : at + MAX_BUTTONS]}
            last["blocks"].append(row)
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
    tables = [node for node in parse(text).children if _is_block(node)]
    ends = [table.map[1] for table in tables if table.map is not None]
    lines = _lines(text)
    cuts = [0, *ends[:-1], len(lines)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(cuts)]


def blocks(text: str, most: int) -> list[dict[str, Any]]:
    """``text``, which holds one such table, as blocks; [] when it holds none or more, or when what
    stands around it passes ``most`` characters."""
    tables = [node for node in parse(text).children if _is_block(node)]
    if len(tables) != 1 or tables[0].map is None:
        return []
    lines = _lines(text)
    begin, end = tables[0].map
    before = mrkdwn("".join(lines[:begin]))
    after = mrkdwn("".join(lines[end:]))
    if max(len(before), len(after)) > most:
        return []
    rows = list(_rows_of(tables[0]))
    columns: list[dict[str, Any]] = []
    for cell in rows[0]:
        align = _ALIGN.get(str(cell.attrs.get("style", "")), "left")
        columns.append({"align": align, "is_wrapped": True})
    cells: list[list[dict[str, Any]]] = []
    for row in rows:
        texts = map(_cell, row)
        cells.append([{"type": "raw_text", "text": text} for text in texts])
    block = {"type": "table", "column_settings": columns, "rows": cells}
    shown = [block]
    if before.strip():
        shown.insert(0, _section(before))
    if after.strip():
        shown.append(_section(after))
    return shown


def _lines(text: str) -> list[str]:
    """As CommonMark counts them: str.splitlines knows more ends of a line."""
    return re.split(r"(?<=\n)", re.sub(r"\r\n?", "\n", text))


def _is_block(node: SyntaxTreeNode) -> bool:
    if node.type != "table":
        return False
    rows = list(_rows_of(node))
    if not 0 < len(rows) <= MAX_ROWS or max(map(len, rows)) > MAX_COLUMNS:
        return False
    cells = [_cell(cell) for row in rows for cell in row]
    return sum(map(len, cells)) <= MAX_CELLS


def _rows_of(node: SyntaxTreeNode) -> Iterator[list[SyntaxTreeNode]]:
    for part in node.children:
        for row in part.children:
            yield list(row.children)


def _cell(node: SyntaxTreeNode) -> str:
    return plain_inline(node).replace("\n", " ").strip() or _EMPTY
