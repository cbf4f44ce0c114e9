"""What a message of any type says, as words and attachments (Feishu docs: "Message content",
received), and what Feishu writes in its own way: times, orders, lists that hold anything. Pure."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from channels.contract import Attachment
from channels.payloads import Body, Malformed, clean, soft
from channels.record import record

_KEY = re.compile(r"@_(?:user_\d+|all)\b")
_DEEPEST = 20  # levels of a card or post that are read
# of a card, or of a part of it
_WORDS = ("title", "subtitle", "text", "content")
_PARTS = ("header", "title", "subtitle", "body", "elements", "columns", "actions", "fields", "text")
Named = Callable[[str], str]  # what stands for a mention's key in the words


@record
class Content:
    """``attachments``: what can be fetched from the message itself."""

    text: str
    attachments: tuple[Attachment, ...] = ()


def read(message: str, kind: str, content: str, named: Named) -> Content:
    """``message``: its id, for the references of its files. Types nobody documented are named, not
    dropped. Raises Malformed."""
    try:
        decoded = json.loads(content or "{}")
    except (ValueError, RecursionError):
        raise Malformed("content is no JSON") from None
    if not isinstance(decoded, dict):
        raise Malformed(f"content is {type(decoded).__name__}, not an object")
    body = cast("Body", decoded)
    match kind:
        case "text":
            return Content(_with_names(word(body, "text"), named))
        case "post":
            if not isinstance(body.get("content"), list):
                # Some clients still send one body per language.
                for language in body:
                    if "content" in soft(body, language):
                        body = soft(body, language)
                        break
            lines, pictures = _lines(body, named)
            attachments: tuple[Attachment, ...] = ()
            for number, (key, picture) in enumerate(pictures, 1):
                name = f"image-{number}.png" if picture == "image" else f"video-{number}.mp4"
                attachments += _file(message, key, picture, name)
            title = word(body, "title")
            if title:
                lines.insert(0, title)
            return Content("\n".join(lines), attachments)
        case "image":
            return Content("", _file(message, word(body, "image_key"), "image", "image.png"))
        case "file" | "audio" | "media":
            name = "voice.opus" if kind == "audio" else word(body, "file_name")
            name = name or ("video.mp4" if kind == "media" else "file")
            return Content("", _file(message, word(body, "file_key"), "file", name))
        case "sticker":  # "Get resource files of a message": stickers cannot be fetched
            return Content("[sticker]")
        case "interactive":
            # In the order they are shown; Feishu gives cards back in several shapes.
            shown: list[str] = []
            _walk(body, shown, 0)
            return Content("\n".join(filter(str.strip, shown)) or "[card]")
        case _:
            return Content(_other(kind, body, named))


def _other(kind: str, body: Body, named: Named) -> str:
    match kind:
        case "share_chat":
            return f"[shared group {word(body, 'chat_id')}]"
        case "share_user":
            return f"[shared contact {word(body, 'user_id')}]"
        case "location":
            place = f"{word(body, 'longitude')}, {word(body, 'latitude')}"
            return f"[location {word(body, 'name')} {place}]"
        case "todo":
            task = soft(body, "summary")
            lines, _ = _lines(task, named)
            return f"[task] {word(task, 'title')} {' '.join(lines)}".strip()
        case "vote":
            lines = [f"[vote] {word(body, 'topic')}"]
            options = body.get("options")
            if isinstance(options, list):
                lines += [f"- {option}" for option in cast("list[object]", options)]
            return "\n".join(lines)
        case "video_chat":
            return f"[video meeting] {word(body, 'topic')}".strip()
        case "share_calendar_event" | "calendar" | "general_calendar":
            return f"[calendar event] {word(body, 'summary')}".strip()
        case "folder":
            return f"[folder {word(body, 'file_name')}]"
        case "merge_forward":
            return "[forwarded messages]"
        case _:
            return f"[{kind}] {_with_names(word(body, 'text'), named)}".strip()


def _with_names(text: str, named: Named) -> str:
    return _KEY.sub(lambda key: named(key.group()), text)


def _file(message: str, key: str, kind: str, name: str) -> tuple[Attachment, ...]:
    if not key:
        raise Malformed(f"a message with a {kind} has no key")
    otherwise = "application/octet-stream"
    if kind == "image":
        otherwise = "image/png"
    media_type = mimetypes.guess_type(name)[0] or otherwise
    return (
        Attachment(
            ref=f"{message} {key} {kind}", name=clean(name), media_type=media_type, size=None
        ),
    )


def _lines(body: Body, named: Named) -> tuple[list[str], list[tuple[str, str]]]:
    """The paragraphs of a post, and the keys of its pictures and videos."""
    content = body.get("content")
    lines: list[str] = []
    pictures: list[tuple[str, str]] = []
    for paragraph in cast("list[object]", content) if isinstance(content, list) else []:
        words: list[str] = []
        for element in rows_of({"row": paragraph}, "row"):
            words.append(_element(element, named))
            match element.get("tag"):
                case "img":
                    pictures.append((word(element, "image_key"), "image"))
                case "media":
                    pictures.append((word(element, "file_key"), "file"))
                case _:
                    continue
        lines.append("".join(words))
    return lines, [(key, kind) for key, kind in pictures if key]


def _element(element: Body, named: Named) -> str:
    text = word(element, "text")
    match element.get("tag"):
        case "a":
            address = word(element, "href")
            if text and address and text != address:
                return f"{text} ({address})"
            return text or address
        case "at":
            key = word(element, "user_id")
            if _KEY.fullmatch(key):
                return named(key)
            name = word(element, "user_name") or key
            return f"@{name}"
        case "emotion":
            return f":{word(element, 'emoji_type')}:"
        case "hr":
            return "———"
        case "code_block":
            return f"```{word(element, 'language').lower()}\n{text.rstrip()}\n```"
        case _:
            return _with_names(text, named)


def _walk(value: object, lines: list[str], depth: int) -> None:
    """Adds the words of a card, or of a part of it."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _walk(item, lines, depth + 1)
    elif isinstance(value, dict):
        body = cast("Body", value)
        lines += filter(None, (word(body, name) for name in _WORDS))
        for name in _PARTS:
            _walk(body.get(name), lines, depth + 1)


MOST_MS = 253_402_300_799_999  # the end of the year 9999


def rows_of(body: Body, name: str) -> list[Body]:
    """The objects of a list; anything else in it, or instead of it, is passed over."""
    value = body.get(name)
    rows = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Body", row) for row in rows if isinstance(row, dict)]


def word(body: Body, name: str) -> str:
    """A text that may be missing or of another type: then it is empty."""
    value = body.get(name)
    if isinstance(value, str):
        return value
    return ""


def milliseconds(body: Body, name: str) -> int:
    """Times are texts of milliseconds since 1970 in messages, and of microseconds in the headers of
    some events."""
    value = body.get(name)
    written = isinstance(value, str) and value.isascii() and value.isdigit()
    if not written and (not isinstance(value, int) or isinstance(value, bool)):
        raise Malformed(f"{name} is no time: {str(value)[:40]!r}")
    number = int(cast("str | int", value))
    while number > MOST_MS:
        number //= 1000
    if number < 0:
        raise Malformed(f"{name} is no time: {number}")
    return number


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def order(ms: int) -> str:
    """Sorts like the numbers do, for ever; messages of one millisecond stay in the order in which
    they arrived."""
    return f"{ms:015d}"
