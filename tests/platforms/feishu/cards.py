"""What Feishu accepts as a card, and what a person sees of it (Feishu docs: "Card JSON 2.0
structure")."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from channels.text import parse, plain
from tests.platforms.feishu.rules import Refusal, Rules

Row = dict[str, Any]
TAGS = {"markdown", "div", "plain_text", "column_set", "column", "button", "hr", "img"}
CALLS_ALL = re.compile(r"<at\s+(id|user_id)\s*=\s*[\"']?all[\"']?\s*>", re.IGNORECASE)


def elements(value: Any) -> Iterator[Row]:
    """Everything with a tag, in the order it is shown."""
    if isinstance(value, list):
        for one in value:
            yield from elements(one)
    elif isinstance(value, dict):
        if "tag" in value:
            yield value
        for name in ("elements", "columns", "text", "body"):
            yield from elements(value.get(name))


def check(card: Any, rules: Rules) -> None:
    """Raises Refusal 230099, or 200621 for what is no card."""
    if (
        not isinstance(card, dict)
        or card.get("schema") != "2.0"
        or not isinstance(card.get("body", {}).get("elements"), list)
    ):
        raise Refusal(
            230099,
            "Failed to create card content, ext=ErrCode: 200621; ErrMsg: parse card json err",
        )
    found = list(elements(card["body"]))
    if rules.schema:
        ids = [one["element_id"] for one in found if "element_id" in one]
        if any(one["tag"] not in TAGS for one in found) or len(set(ids)) != len(ids):
            raise Refusal(
                230099,
                "Failed to create card content, ext=ErrCode: 200861; ErrMsg: not support tag, or"
                " element_id twice",
            )
        if any(not re.fullmatch(r"[A-Za-z]\w{0,19}", one) for one in ids):
            raise Refusal(
                230099, "Failed to create card content, ext=ErrCode: 300301; ErrMsg: element_id"
            )
    if len(found) > rules.elements:
        raise Refusal(
            230099,
            "Failed to create card content, ext=ErrCode: 11310; ErrMsg: element exceeds the limit",
        )
    if (
        sum(node.type == "table" for text in _markdown(found) for node in parse(text).walk())
        > rules.tables
    ):
        raise Refusal(
            230099,
            "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over"
            " limit",
        )
    for button in (one for one in found if one["tag"] == "button"):
        behaviors = button.get("behaviors", [])
        right = all(
            one.get("type") == "callback" and isinstance(one.get("value"), dict)
            for one in behaviors
        )
        if not 0 < len(button["text"]["content"]) <= rules.label or not right:
            raise Refusal(
                230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: button"
            )


def _markdown(found: list[Row]) -> list[str]:
    return [one["content"] for one in found if one["tag"] == "markdown"]


def text_of(card: Row) -> str:
    """What a person reads: markup gone, entities decoded, nothing of zero width."""
    parts = [
        plain(element["content"])
        for element in elements(card["body"])
        if element["tag"] == "markdown"
    ]
    parts += [one["text"]["content"] for one in elements(card["body"]) if one["tag"] == "div"]
    return "\n".join(parts).replace("\u200b", "")


def buttons(card: Row) -> list[Row]:
    return [element for element in elements(card["body"]) if element["tag"] == "button"]


def calls_all(content: str) -> bool:
    return bool(CALLS_ALL.search(json.dumps(json.loads(content), ensure_ascii=False)))
