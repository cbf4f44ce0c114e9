"""What the house wants said, as frozen calls of Discord's REST API. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from channels.contract import Address, Choice, MessageId, Outbound, Part, PersonId
from channels.discord.markup import escape, is_visible, markdown, units
from channels.errors import Rejected
from channels.payloads import clean
from channels.split import split_markdown

Body = dict[str, Any]

MAX_TEXT = 2000  # Message resource, Create Message: content, "up to 2000 characters"
MAX_CARD = 4096  # Embed limits: description
_WAITS, _SETTLED = (
    0xF0B232,
    0x80848E,
)  # colours of a card: somebody has to answer; nobody has to any more
MAX_FILES = 10  # attachments of one message
MAX_ROWS, MAX_IN_ROW = 5, 5  # Component reference: five action rows of five buttons
MAX_LABEL, MAX_ID = 80, 100  # Component reference, button: label, custom_id
SUPPRESS_EMBEDS = 1 << 2  # Message flags: no previews of links
MARK = "-# may be a duplicate"
_ROOM = len(MARK) + 2  # kept free in every message, so that mark() never passes the limit
_NOTHING_SAID = "(nothing to say)"
_STYLES = {"plain": 2, "good": 3, "danger": 4}  # Button styles: secondary, success, danger


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Old messages are edited in order, the rest is posted, the surplus deleted; files come last,
    ten to a message.

    Raises Rejected for a choice that Discord cannot hold."""
    bodies = _bodies(outbound)
    channel = place_of(outbound.address)
    old = [receipt.message for receipt in outbound.replaces if not is_file(receipt.message)]
    gone = [
        *old[len(bodies) :],
        *(receipt.message for receipt in outbound.replaces if is_file(receipt.message)),
    ]
    parts = [
        _part("edit", channel, {"components": [], "embeds": [], **body}, target)
        for body, target in zip(bodies, old, strict=False)
    ]
    for index, body in enumerate(bodies[len(old) :]):
        parts.append(
            _part("post", channel, body | (_reply(outbound) if index == 0 and not old else {}))
        )
    parts += [_part("delete", channel, {}, target) for target in gone]
    for start in range(0, len(outbound.files), MAX_FILES):
        reply = _reply(outbound) if not bodies and start == 0 else {}
        parts.append(_files(channel, outbound.files[start : start + MAX_FILES], reply))
    return tuple(parts)


def mark(part: Part) -> Part:
    """The same message with a visible doubt; an edit or deletion shows nothing twice."""
    if part.kind not in ("post", "file"):
        return part
    frozen = json.loads(part.payload)
    said = frozen["body"].get("content")
    frozen["body"]["content"] = f"{said}\n{MARK}" if said else MARK
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
    found = re.fullmatch(r"f?(\d{1,20})", message)
    if found is None:
        raise Rejected(f"Discord: {message!r} is no message of Discord")
    return found.group(1)


def _bodies(outbound: Outbound) -> list[Body]:
    text = clean(outbound.text)
    if not text.strip() and outbound.files and not outbound.choices:
        return []
    rendered = escape if outbound.plain else markdown
    called = _called(outbound)
    calls = " ".join(f"<@{person}>" for person in called)
    room = MAX_TEXT - _ROOM - len(calls) - 1
    head, embed = _card(outbound, text, room)
    if embed:
        pieces = [head]
    else:
        pieces = [rendered(piece) for piece in split_markdown(text, _fits(rendered, room))]
        pieces = [cut for piece in pieces for cut in _cut(piece, room) if is_visible(cut)] or [
            _NOTHING_SAID
        ]
    if calls:
        pieces[0] = f"{calls} {pieces[0]}"
    rings = outbound.reply_to is not None and bool(outbound.mentions)
    bodies = [
        _message(piece, called if index == 0 else (), author=rings and index == 0)
        for index, piece in enumerate(pieces)
    ]
    bodies[0] |= embed
    keyboards = _keyboards(outbound.choices)
    for index, keyboard in enumerate(keyboards):
        if index:
            bodies.append(_message("…", ()))
        bodies[-1]["components"] = keyboard
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
        while units(text[:end]) > most:
            end -= max(1, (units(text[:end]) - most) // 2)
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text]


def _called(outbound: Outbound) -> Sequence[PersonId]:
    """A reply rings its author by itself."""
    people = outbound.mentions if outbound.reply_to is None else outbound.mentions[1:]
    return tuple(dict.fromkeys(person for person in people if re.fullmatch(r"\d{1,20}", person)))


def _message(content: str, called: Sequence[PersonId], *, author: bool = False) -> Body:
    """Allowed mentions: nobody but the people we mean hears a bell, whatever the text says.
    ``author``: of the message this answers."""
    allowed = {"parse": [], "users": list(called), "replied_user": author}
    return {"content": content, "allowed_mentions": allowed, "flags": SUPPRESS_EMBEDS}


def _reply(outbound: Outbound) -> Body:
    """A message that is gone is no reason not to answer (message_reference, fail_if_not_exists)."""
    if outbound.reply_to is None:
        return {}
    return {
        "message_reference": {"message_id": number(outbound.reply_to), "fail_if_not_exists": False}
    }


def _keyboards(choices: Sequence[Choice]) -> list[list[Body]]:
    """Rows of one message; what does not fit into five of them stands under another."""
    buttons = [_button(choice) for choice in {choice.value: choice for choice in choices}.values()]
    rows = [
        {"type": 1, "components": buttons[at : at + MAX_IN_ROW]}
        for at in range(0, len(buttons), MAX_IN_ROW)
    ]
    return [rows[at : at + MAX_ROWS] for at in range(0, len(rows), MAX_ROWS)]


def _button(choice: Choice) -> Body:
    """``custom_id`` carries the whole choice: a press is understood after a restart, by whoever is
    there."""
    if not 1 <= units(choice.value) <= MAX_ID:
        raise Rejected(f"Discord: the choice {choice.value!r} must have 1 to {MAX_ID} characters")
    label = clean(choice.label).strip() or choice.value
    if units(label) > MAX_LABEL:
        label = _cut(label, MAX_LABEL - 1)[0] + "…"
    return {"type": 2, "style": _STYLES[choice.style], "label": label, "custom_id": choice.value}


def _files(channel: str, paths: Sequence[Path], more: Body) -> Part:
    names = [{"id": index, "filename": path.name} for index, path in enumerate(paths)]
    body: Body = {"attachments": names, "allowed_mentions": {"parse": []}, **more}
    return Part(
        "file", _json({"channel": channel, "paths": [str(path) for path in paths], "body": body})
    )


def _part(
    kind: Literal["post", "edit", "delete"],
    channel: str,
    body: Body,
    target: MessageId | None = None,
) -> Part:
    return Part(kind, _json({"channel": channel, "body": body}), target)


def _json(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
