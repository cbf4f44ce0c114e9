"""One logical message into blocks of lines, and a typed line into a message or the answer to a
numbered question; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from channels.contract import (
    Address,
    Answer,
    ChatId,
    Choice,
    Inbound,
    MessageId,
    Outbound,
    Part,
    Person,
    PersonId,
)
from channels.payloads import clean
from channels.record import record
from channels.split import split_markdown

MAX_TEXT = 16_000  # characters printed at once
MARK = "\n\n(may be a duplicate)"
SAYS, CHANGES, TAKES_BACK = "ohmo: ", "ohmo (edited): ", "ohmo (took a message back)"
# ECMA-48: C0 and C1 controls move the cursor, rewrite what stands there or speak to the terminal
# itself; bidi overrides lie about the order.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ACCOUNT = "local"
PLACE = Address("console", ACCOUNT, ChatId("terminal"))
TYPIST = Person(PersonId("owner"), "owner")


@record
class Block:
    """What one part shows. ``file``: a path instead of text."""

    text: str
    choices: tuple[Choice, ...] = ()
    file: str | None = None


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Text first (what it replaces is printed anew as edited, surplus is taken back), then the
    paths of files; choices under the last text."""
    pieces = split_markdown(outbound.text, lambda text: len(text) <= MAX_TEXT)
    if not pieces and not outbound.files:
        pieces = [""]
    targets = [receipt.message for receipt in outbound.replaces]
    parts: list[Part] = []
    for number, piece in enumerate(pieces):
        target = targets[number] if number < len(targets) else None
        block = Block(piece, outbound.choices if number == len(pieces) - 1 else ())
        parts.append(Part("post" if target is None else "edit", write(block), target))
    parts += [Part("delete", write(Block("")), target) for target in targets[len(pieces) :]]
    return (*parts, *(Part("file", write(Block("", file=str(path)))) for path in outbound.files))


def lines(part: Part) -> str:
    """What the terminal is given for a part, with an empty line behind it."""
    block = read(part)
    if part.kind == "delete":
        return f"{TAKES_BACK}\n\n"
    says = CHANGES if part.kind == "edit" else SAYS
    text = f"[file] {block.file}" if block.file is not None else block.text
    first, *rest = printable(text).split("\n")
    shown = [says + first]
    shown += [" " * len(SAYS) + line for line in rest]
    for number, choice in enumerate(block.choices, 1):
        shown.append(f"   {number}) {printable(choice.label)}")
    return "\n".join(shown) + "\n\n"


def printable(text: str) -> str:
    """Without what a terminal would obey instead of show."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n"))


def mark(part: Part) -> Part:
    block = read(part)
    if block.file is not None:
        return part
    return replace(part, payload=write(replace(block, text=block.text + MARK)))


def heard(
    line: str, at: datetime, order: str, asked: tuple[MessageId, Sequence[str]] | None
) -> Inbound | Answer | None:
    """None: nothing was said. ``order`` names the line, too. ``asked``: the newest message with
    choices and their values; a line that is the number of one of them chooses it."""
    text = clean(line).strip()
    if not text:
        return None
    if asked is not None and text.isascii() and text.isdigit():
        message, values = asked
        if 1 <= int(text[:6]) <= len(values):
            return Answer(
                key=order,
                address=PLACE,
                person=TYPIST,
                at=at,
                order=order,
                message=message,
                choice=values[int(text) - 1],
                token=order,
            )
    return Inbound(
        key=order,
        address=PLACE,
        person=TYPIST,
        at=at,
        order=order,
        message=MessageId(order),
        text=text,
        private=True,
        addressed=True,
    )


def write(block: Block) -> str:
    """The payload of a part."""
    body: dict[str, Any] = {"text": block.text}
    if block.choices:
        body["choices"] = [[choice.value, choice.label, choice.style] for choice in block.choices]
    if block.file is not None:
        body["file"] = block.file
    return json.dumps(body, ensure_ascii=False)


def read(part: Part) -> Block:
    """What a part of ours shows."""
    body: dict[str, Any] = json.loads(part.payload)
    choices = tuple(Choice(value, label, style) for value, label, style in body.get("choices", ()))
    return Block(body["text"], choices, body.get("file"))


def exists(part: Part) -> bool:
    """Whether the file of a file part is there."""
    file = read(part).file
    return file is not None and Path(file).is_file()
