"""What a message shows beside its own text: messages that were forwarded with it, and the
attachments and blocks in which programs speak. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

Body = dict[str, Any]
MOST = 10  # attachments of one message that are read
LONGEST = 4000  # characters of one of them
_DEEP = 8  # levels of blocks


def beside(row: Body, *, program: bool) -> list[tuple[str, str]]:
    """Heading and mrkdwn of each attachment (Reference, "Secondary message attachments") of a
    ``program``; of a person those with ``is_share``, which are forwarded messages: the others are
    links that Slack unfurled, some time later."""
    found: list[tuple[str, str]] = []
    for one in [
        one for one in _objects(row.get("attachments"))[:MOST] if program or is_forwarded(one)
    ]:
        fields = [
            f"{_text(field, 'title')}: {_text(field, 'value')}".strip(": ")
            for field in _objects(one.get("fields"))
        ]
        lines = [_text(one, "pretext"), _text(one, "title"), _text(one, "text"), *fields]
        words = (
            "\n".join(line for line in lines if line)
            or _blocks(one.get("blocks"))
            or _text(one, "fallback")
        )
        if words:
            head = (
                f"forwarded from {_text(one, 'author_name') or 'somebody'}"
                if is_forwarded(one)
                else ""
            )
            found.append((head, words[:LONGEST]))
    return found


def words_of(row: Body) -> str:
    """Its text; of a post that has blocks only, theirs."""
    return _text(row, "text") or _blocks(row.get("blocks"))[:LONGEST]


def files(row: Body) -> list[Body]:
    """Its own, then those of what was forwarded with it."""
    forwarded = [one for one in _objects(row.get("attachments"))[:MOST] if is_forwarded(one)]
    return [file for holder in (row, *forwarded) for file in _objects(holder.get("files"))]


def is_forwarded(attachment: Body) -> bool:
    return attachment.get("is_share") is True


def _blocks(blocks: object) -> str:
    return "\n".join(
        line for block in _objects(blocks) if (line := "".join(_said(block, 0)).strip())
    )


def _said(block: object, depth: int) -> Iterator[str]:
    """The words of a block in their order (Reference, "Blocks" and "Rich text elements"); buttons
    and inputs say nothing."""
    if not isinstance(block, dict) or depth > _DEEP:
        return
    part = cast("Body", block)
    if part.get("type") in {"actions", "input", "button"}:
        return
    text = part.get("text")
    if isinstance(text, str):
        yield text
    elif isinstance(text, dict):
        yield from _said(cast("object", text), depth + 1)
    elif isinstance(url := part.get("url"), str):
        yield url
    for name in ("fields", "elements"):
        if name == "fields" and part.get(name):
            yield "\n"
        for inner in _objects(part.get(name)):
            yield from _said(inner, depth + 1)
            if name == "fields" or part.get("type") == "rich_text":
                yield "\n"


def _objects(value: object) -> list[Body]:
    return (
        [cast("Body", one) for one in cast("list[object]", value) if isinstance(one, dict)]
        if isinstance(value, list)
        else []
    )


def _text(body: Body, name: str) -> str:
    value: object = body.get(name)
    return value.strip() if isinstance(value, str) else ""
