"""Telegram's reading of its HTML (Telegram Bot API, "HTML style"), with its own words of
refusal."""

from __future__ import annotations

import re
from typing import Any

from tests.platforms.telegram.rules import bad

KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "tg-emoji": "custom_emoji",
}
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_TOKEN = re.compile(r"<(/?)([^\s<>/]*)([^<>]*)>|<|&(#\d+|#x[0-9a-fA-F]+|\w+);", re.DOTALL)
_ATTRIBUTE = re.compile(r"""([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def parse(source: str, *, strict: bool = True) -> tuple[str, list[dict[str, Any]]]:
    """Text and entities of HTML; refuses what Telegram refuses. Not ``strict``: everything is taken
    as words."""
    if not strict:
        return source, []
    text = ""
    found: list[dict[str, Any]] = []
    opened: list[tuple[str, dict[str, Any]]] = []
    last = 0
    for match in _TOKEN.finditer(source):
        text += source[last : match.start()]
        last = match.end()
        offset = len(source[: match.start()].encode())
        if match.group(4) is not None:
            text += _character(match.group(4))
        elif match.group() == "<":
            raise bad(f"can't parse entities: Unclosed start tag at byte offset {offset}")
        elif match.group(1):
            _close(match.group(2).lower(), opened, found, units(text), offset)
        else:
            opened.append(
                (
                    match.group(2).lower(),
                    _open(match.group(2).lower(), match.group(3), units(text), offset),
                )
            )
    text += source[last:]
    if opened:
        raise bad(
            "can't parse entities: Can't find end tag corresponding to start tag"
            f' "{opened[-1][0]}"'
        )
    return _trimmed(text, found)


def _character(name: str) -> str:
    if name.startswith("#x"):
        return chr(int(name[2:], 16))
    if name.startswith("#"):
        return chr(int(name[1:]))
    return _NAMED.get(name, f"&{name};")


def _open(tag: str, rest: str, at: int, offset: int) -> dict[str, Any]:
    if tag not in KINDS:
        raise bad(f'can\'t parse entities: Unsupported start tag "{tag}" at byte offset {offset}')
    entity: dict[str, Any] = {"type": KINDS[tag], "offset": at, "length": 0}
    attributes = {name: a or b or c for name, a, b, c in _ATTRIBUTE.findall(rest)}
    if tag == "a" and "href" in attributes:
        entity["url"] = re.sub(
            r"&(\w+);", lambda match: _character(match.group(1)), attributes["href"]
        )
    if tag == "span" and attributes.get("class") != "tg-spoiler":
        raise bad(
            'can\'t parse entities: Tag "span" must have class "tg-spoiler" at byte offset'
            f" {offset}"
        )
    if tag == "code" and attributes.get("class", "").startswith("language-"):
        entity["language"] = attributes["class"].removeprefix("language-")
    return entity


def _close(
    tag: str,
    opened: list[tuple[str, dict[str, Any]]],
    found: list[dict[str, Any]],
    at: int,
    offset: int,
) -> None:
    if not opened:
        raise bad(f"can't parse entities: Unexpected end tag at byte offset {offset}")
    expected, entity = opened.pop()
    if tag not in {"", expected}:
        raise bad(
            f"can't parse entities: Unmatched end tag at byte offset {offset}, expected"
            f' "</{expected}>", found "</{tag}>"'
        )
    entity["length"] = at - entity["offset"]
    if entity["length"] and (entity["type"] != "text_link" or entity.get("url")):
        found.append(entity)


def _trimmed(text: str, found: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Telegram cuts white space at both ends, and with it the entities."""
    lead = len(text) - len(text.lstrip())
    text = text.strip()
    length = units(text)
    kept: list[dict[str, Any]] = []
    for entity in sorted(found, key=lambda one: (one["offset"], -one["length"])):
        start, end = (
            max(0, entity["offset"] - lead),
            min(length, entity["offset"] - lead + entity["length"]),
        )
        if end > start:
            kept.append({**entity, "offset": start, "length": end - start})
    return text, kept[:100]
