"""What a message of any type says, as words and attachments (Feishu docs: "Message content",
received), and what Feishu writes in its own way: times, orders, lists that hold anything. Pure."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import cast

from channels.contract import Attachment
from channels.payloads import Body, Malformed, clean, soft
from channels.record import record

_KEY = re.compile(r"@_(?:user_\d+|all)\b")
_DEEPEST = 20  # levels of a card or post that are read
Named = Callable[[str], str]  # what stands for a mention's key in the words


@record
class Content:
    """``attachments``: what can be fetched from the message itself."""

    text: str
    attachments: tuple[Attachment, ...] = ()


def decoded(content: str) -> Body:
    """Raises Malformed."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise Malformed("content is no JSON") from None
    if not isinstance(body, dict):
        raise Malformed(f"content is {type(body).__name__}, not an object")
    return cast("Body", body)


def read(message: str, kind: str, content: str, named: Named) -> Content:
    """``message``: its id, for the references of its files. Types nobody documented are named, not
    dropped. Raises Malformed."""
    body = decoded(content) if content else {}
    match kind:
        case "text":
            return Content(_with_names(word(body, "text"), named))
        case "post":
            return _post(message, body, named)
        case "image":
            return Content("", _file(message, word(body, "image_key"), "image", "image.png"))
        case "file":
            return Content(
                "",
                _file(message, word(body, "file_key"), "file", word(body, "file_name") or "file"),
            )
        case "audio":
            return Content("", _file(message, word(body, "file_key"), "file", "voice.opus"))
        case "media":
            return Content(
                "",
                _file(
                    message, word(body, "file_key"), "file", word(body, "file_name") or "video.mp4"
                ),
            )
        case "sticker":
            return Content(
                "[sticker]"
            )  # "Get resource files of a message": stickers cannot be fetched
        case "interactive":
            return Content(_card(body) or "[card]")
        case _:
            return Content(_other(kind, body, named))


def _other(kind: str, body: Body, named: Named) -> str:
    match kind:
        case "share_chat":
            return f"[shared group {word(body, 'chat_id')}]"
        case "share_user":
            return f"[shared contact {word(body, 'user_id')}]"
        case "location":
            return (
                f"[location {word(body, 'name')} {word(body, 'longitude')},"
                f" {word(body, 'latitude')}]"
            )
        case "todo":
            inner = _lines(soft(body, "summary"), named)[0]
            return f"[task] {word(soft(body, 'summary'), 'title')} {' '.join(inner)}".strip()
        case "vote":
            options = body.get("options")
            words = (
                [str(one) for one in cast("list[object]", options)]
                if isinstance(options, list)
                else []
            )
            return "\n".join([f"[vote] {word(body, 'topic')}", *(f"- {one}" for one in words)])
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
    return _KEY.sub(lambda found: named(found.group()), text)


def _file(message: str, key: str, kind: str, name: str) -> tuple[Attachment, ...]:
    if not key:
        raise Malformed(f"a message with a {kind} has no key")
    media = mimetypes.guess_type(name)[0] or (
        "image/png" if kind == "image" else "application/octet-stream"
    )
    return (Attachment(f"{message} {key} {kind}", clean(name), media, None),)


def _post(message: str, body: Body, named: Named) -> Content:
    if not isinstance(body.get("content"), list):  # some clients still send one body per language
        body = next(
            (
                cast("Body", one)
                for one in body.values()
                if isinstance(one, dict) and "content" in one
            ),
            body,
        )
    lines, pictures = _lines(body, named)
    title = word(body, "title")
    found: tuple[Attachment, ...] = ()
    for key, kind in pictures:
        found += _file(
            message,
            key,
            kind,
            f"image-{len(found) + 1}.png" if kind == "image" else f"video-{len(found) + 1}.mp4",
        )
    return Content("\n".join([*([title] if title else []), *lines]), found)


def _lines(body: Body, named: Named) -> tuple[list[str], list[tuple[str, str]]]:
    """The paragraphs of a post, and the keys of its pictures and videos."""
    content = body.get("content")
    lines: list[str] = []
    pictures: list[tuple[str, str]] = []
    for paragraph in cast("list[object]", content) if isinstance(content, list) else []:
        said: list[str] = []
        for element in rows_of({"row": paragraph}, "row"):
            said.append(_element(element, named))
            key = word(element, "image_key") if element.get("tag") == "img" else ""
            pictures += [(key, "image")] if key else []
            pictures += (
                [(word(element, "file_key"), "file")]
                if element.get("tag") == "media" and word(element, "file_key")
                else []
            )
        lines.append("".join(said))
    return lines, pictures


def _element(element: Body, named: Named) -> str:
    text = word(element, "text")
    match element.get("tag"):
        case "a":
            address = word(element, "href")
            return (
                f"{text} ({address})" if text and address and text != address else text or address
            )
        case "at":
            key = word(element, "user_id")
            return named(key) if _KEY.fullmatch(key) else f"@{word(element, 'user_name') or key}"
        case "emotion":
            return f":{word(element, 'emoji_type')}:"
        case "hr":
            return "———"
        case "code_block":
            return f"```{word(element, 'language').lower()}\n{text.rstrip()}\n```"
        case _:
            return _with_names(text, named)


def _card(body: Body) -> str:
    """The words of a card, in the order they are shown; Feishu gives cards back in several
    shapes."""
    found: list[str] = []
    _walk(body, found, 0)
    return "\n".join(line for line in found if line.strip())


def _walk(value: object, found: list[str], depth: int) -> None:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _walk(item, found, depth + 1)
    elif isinstance(value, dict):
        body = cast("Mapping[str, object]", value)
        found += [
            str(body[name])
            for name in ("title", "subtitle", "text", "content")
            if isinstance(body.get(name), str)
        ]
        for name in (
            "header",
            "title",
            "subtitle",
            "body",
            "elements",
            "columns",
            "actions",
            "fields",
            "text",
        ):
            _walk(body.get(name), found, depth + 1)


MOST_MS = 253_402_300_799_999  # the end of the year 9999


def rows_of(body: Body, name: str) -> list[Body]:
    """The objects of a list; anything else in it, or instead of it, is passed over."""
    value = body.get(name)
    return (
        [cast("Body", row) for row in cast("list[object]", value) if isinstance(row, dict)]
        if isinstance(value, list)
        else []
    )


def word(body: Body, name: str) -> str:
    """A text that may be missing or of another type: then it is empty."""
    value = body.get(name)
    return value if isinstance(value, str) else ""


def milliseconds(body: Body, name: str) -> int:
    """Times are texts of milliseconds since 1970 in messages, and of microseconds in the headers of
    some events."""
    value = body.get(name)
    if not (isinstance(value, str) and value.isascii() and value.isdigit()) and not (
        isinstance(value, int) and not isinstance(value, bool)
    ):
        raise Malformed(f"{name} is no time: {str(value)[:40]!r}")
    number = int(value)
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
