"""One logical message into the calls of the browser chat; pure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from channels.contract import Choice, MessageId, Outbound, Part
from channels.record import record

MAX_TEXT = 200_000  # characters of one post; a page shows them without trouble
MARK = "\n\n_(may be a duplicate)_"


@record
class Shown:
    """What one call shows. ``text`` None: the message is taken away. ``file``: the name of a file
    instead of text."""

    chat: str
    text: str | None
    choices: tuple[Choice, ...] = ()
    file: str | None = None
    source: Path | None = None


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Text first (edits of what it replaces, then posts, surplus deleted), then one part per file;
    choices hang on the first text."""
    pieces = split(outbound.text) if outbound.text or not outbound.files else ()
    targets = [receipt.message for receipt in outbound.replaces]
    parts: list[Part] = []
    for number, piece in enumerate(pieces):
        target = targets[number] if number < len(targets) else None
        shown = Shown(outbound.address.chat, piece, outbound.choices if number == 0 else ())
        parts.append(Part("post" if target is None else "edit", write(shown), target))
    deletion = write(Shown(outbound.address.chat, None))
    parts += [Part("delete", deletion, target) for target in targets[len(pieces) :]]
    for path in outbound.files:
        file = Shown(outbound.address.chat, "", file=path.name, source=path)
        parts.append(Part("file", write(file)))
    return tuple(parts)


def split(text: str, limit: int = MAX_TEXT) -> tuple[str, ...]:
    """Pieces of at most ``limit`` characters, cut after a line where there is one; joined they are
    the text again."""
    pieces: list[str] = []
    while len(text) > limit:
        cut = text.rfind("\n", 0, limit) + 1 or limit
        pieces.append(text[:cut])
        text = text[cut:]
    return (*pieces, text)


def mark(part: Part) -> Part:
    """The same part with a visible "may be a duplicate"."""
    shown = read(part)
    if shown.text is None:
        return part
    return replace(part, payload=write(replace(shown, text=shown.text + MARK)))


def write(shown: Shown) -> str:
    """The payload of a part."""
    body: dict[str, Any] = {"chat": shown.chat, "text": shown.text}
    if shown.choices:
        body["choices"] = [[choice.value, choice.label, choice.style] for choice in shown.choices]
    if shown.source is not None:
        body["file"] = shown.file
        body["source"] = str(shown.source)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def read(part: Part) -> Shown:
    """What a part of ours shows."""
    body: dict[str, Any] = json.loads(part.payload)
    source = body.get("source")
    choices = tuple(Choice(value, label, style) for value, label, style in body.get("choices", ()))
    return Shown(
        body["chat"],
        body["text"],
        choices,
        body.get("file"),
        None if source is None else Path(source),
    )


def message_of(row: str) -> MessageId:
    """The id of a row's first message: a message is named by the key it was sent with, and part 0
    of a row has the key ``row.0``."""
    return MessageId(f"{row}.0")
