"""Outbound messages as calls of the Bot API, frozen as JSON. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from channels.contract import Address, Choice, MessageId, Outbound, Part, PersonId
from channels.errors import Rejected
from channels.payloads import clean
from channels.split import split_markdown
from channels.telegram.markup import html, inert, units, visible

Body = dict[str, Any]

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
_FORM = re.compile(
    r"[*_`~\[<#>=]+|^(?: {4}|\t)|^-+$", re.MULTILINE
)  # what an entity can begin with; it takes one of them at least
_STYLES = {"good": "success", "danger": "danger"}  # InlineKeyboardButton, style


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Texts first, then files; the choices stand under the last text. Raises Rejected for a choice
    or a place Telegram cannot hold."""
    texts = [_body(outbound, text) for text in _texts(outbound)]
    if outbound.choices:
        texts[-1]["reply_markup"] = _keyboard(outbound.choices)
    targets = [receipt.message for receipt in outbound.replaces]
    parts = [
        Part("edit", _json({**body, "message_id": number(target)}), target)
        for body, target in zip(texts, targets, strict=False)
    ]
    place = _place(outbound.address)
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
    parts += [
        Part("delete", _json({"chat_id": place["chat_id"]}), target)
        for target in targets[len(texts) :]
    ]
    return tuple(parts)


def mark(part: Part) -> Part:
    """The same part with a visible "may be a duplicate"; deleting twice needs none."""
    if part.kind == "delete":
        return part
    body = json.loads(part.payload)
    field = "caption" if part.kind == "file" else "text"
    formatted = part.kind == "file" or "parse_mode" in body
    note = f"<i>({MARK})</i>" if formatted else f"({MARK})"
    body[field] = f"{body[field]}\n\n{note}" if body.get(field) else note
    if formatted:
        body["parse_mode"] = "HTML"
    return replace(part, payload=_json(body))


def newest(text: str) -> str:
    """What a draft shows of a text that may be longer than one message: its end."""
    return html((_pieces(text, _rendered_fits({})) or ["…"])[-1])


def number(message: MessageId) -> int:
    if re.fullmatch(r"\d{1,18}", message) is None:
        raise Rejected(f"Telegram: {message!r} is no message of Telegram")
    return int(message)


def chat_of(address: Address) -> int | str:
    return int(address.chat) if re.fullmatch(r"-?\d{1,18}", address.chat) else address.chat


def topic_of(address: Address) -> int | None:
    """The General topic (1) exists for readers only: naming it when sending is refused ("message
    thread not found")."""
    return (
        int(address.topic)
        if address.topic is not None and address.topic.isdigit() and address.topic != "1"
        else None
    )


def _texts(outbound: Outbound) -> list[str]:
    """Each text as it is sent: Telegram's HTML, or just the words when the message is plain."""
    source = clean(outbound.text)
    if outbound.plain:
        pieces = _pieces(inert(source), lambda piece: units(piece) <= MAX_TEXT - _ROOM)
        return pieces or ([] if outbound.files and not outbound.choices else ["…"])
    made: dict[str, str] = {}
    called = "".join(
        f'<a href="tg://user?id={escape(person)}">@{escape(person)}</a> '
        for person in _called(outbound)
    )
    pieces = _pieces(source, _rendered_fits(made, units(visible(called))))
    if not pieces:
        return [] if outbound.files and not outbound.choices and not called else [called + "…"]
    texts = [made.get(piece) or html(piece) for piece in pieces]
    return [called + texts[0], *texts[1:]]


def _called(outbound: Outbound) -> Sequence[PersonId]:
    """In a private chat, and when it is answered, a person hears of it anyhow."""
    if not outbound.address.chat.startswith("-"):
        return ()
    people = outbound.mentions if outbound.reply_to is None else outbound.mentions[1:]
    return [person for person in people if person.isdigit()]


def _rendered_fits(made: dict[str, str], taken: int = 0) -> Callable[[str], bool]:
    def fits(piece: str) -> bool:
        source = units(piece)
        simple = (
            "|" not in piece and len(_FORM.findall(piece)) < MAX_ENTITIES
        )  # but for tables, rendering adds bullets and margins only
        if simple and units(inert(piece)) + 8 * piece.count("\n") <= MAX_TEXT - _ROOM - taken:
            return True
        if source > _LEAST_SHARE * MAX_TEXT:
            return False
        made[piece] = html(piece)
        return (
            units(visible(made[piece])) <= MAX_TEXT - _ROOM - taken
            and made[piece].count("</") < MAX_ENTITIES
        )  # one is mark()'s

    return fits


def _pieces(text: str, fits: Callable[[str], bool]) -> list[str]:
    return split_markdown(text, fits)


def _place(address: Address) -> Body:
    topic = topic_of(address)
    return {
        "chat_id": chat_of(address),
        **({"message_thread_id": topic} if topic is not None else {}),
    }


def _body(outbound: Outbound, text: str) -> Body:
    formatted: Body = {} if outbound.plain else {"parse_mode": "HTML"}
    return {
        "chat_id": chat_of(outbound.address),
        "text": text,
        **formatted,
        "link_preview_options": {"is_disabled": True},
    }


def _files(paths: Sequence[Path], *, plain: bool) -> list[Body]:
    """What stands together and is of one kind goes as albums (sendMediaGroup); plain: one by one,
    so that one bad file spoils no other."""
    made = [_file(path, plain=plain) for path in paths]
    if plain:
        return made
    bodies: list[Body] = []
    for photo, alike in groupby(made, key=lambda body: bool(body["photo"])):
        bodies += [_album(few, photo=photo) for few in _few(list(alike))]
    return bodies


def _few(files: list[Body]) -> list[list[Body]]:
    return [files[start : start + MAX_ALBUM] for start in range(0, len(files), MAX_ALBUM)]


def _album(files: list[Body], *, photo: bool) -> Body:
    if len(files) == 1:
        return files[0]
    return {"album": [{"path": one["path"], "name": one["name"]} for one in files], "photo": photo}


def _file(path: Path, *, plain: bool) -> Body:
    """A picture that Telegram refused as a photo (its sides, its size) goes as a document the
    second time."""
    return {
        "path": str(path),
        "name": path.name,
        "photo": not plain and path.suffix.lower() in PHOTOS,
    }


def _keyboard(choices: Sequence[Choice]) -> Body:
    rows: list[list[Body]] = [[]]
    for choice in choices:
        button = _button(choice)
        if rows[-1] and sum(len(other["text"]) for other in [*rows[-1], button]) > 28:
            rows.append([])
        rows[-1].append(button)
    return {"inline_keyboard": rows}


def _button(choice: Choice) -> Body:
    if not 1 <= len(choice.value.encode()) <= MAX_DATA:
        raise Rejected(f"Telegram: the choice {choice.value!r} must have 1 to {MAX_DATA} bytes")
    style: Body = {"style": _STYLES[choice.style]} if choice.style in _STYLES else {}
    return {
        "text": clean(choice.label).strip() or choice.value,
        "callback_data": choice.value,
        **style,
    }


def _json(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
