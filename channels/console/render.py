"""One logical message into blocks of lines; pure."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from channels.contract import Choice, Outbound, Part
from channels.record import record
from channels.split import split_markdown

MAX_TEXT = 16_000  # characters printed at once
MARK = "\n\n(may be a duplicate)"
SAYS, CHANGES, TAKES_BACK = "ohmo: ", "ohmo (edited): ", "ohmo (took a message back)"
# ECMA-48: C0 and C1 controls move the cursor, rewrite what stands there or speak to the terminal
# itself; bidi overrides lie about the order.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@record
class Block:
    """What one part shows. ``file``: a path instead of text."""

    text: str
    choices: tuple[Choice, ...] = ()
    file: str | None = None


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Text first (what it replaces is printed anew as edited, surplus is taken back), then the
    paths of files; choices under the last text."""
    pieces = (
        split_markdown(outbound.text, lambda text: len(text) <= MAX_TEXT)
        if outbound.text or not outbound.files
        else []
    )
    pieces = pieces or ([""] if not outbound.files else [])
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
    shown = [
        says + (body := printable(text).split("\n"))[0],
        *(" " * len(SAYS) + line for line in body[1:]),
    ]
    shown += [
        f"   {number}) {printable(choice.label)}" for number, choice in enumerate(block.choices, 1)
    ]
    return "\n".join(shown) + "\n\n"


def printable(text: str) -> str:
    """Without what a terminal would obey instead of show."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n"))


def mark(part: Part) -> Part:
    block = read(part)
    return (
        replace(part, payload=write(replace(block, text=block.text + MARK)))
        if block.file is None
        else part
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
