"""What the house wants said, as frozen Feishu calls. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from channels.contract import Address, Choice, MessageId, Outbound, Part
from channels.feishu.markup import MOST_TABLES, markup, tables
from channels.payloads import clean
from channels.split import split_markdown

Body = dict[str, Any]

# "Send message": a card's request has at most 30 KB. The card stands in it as JSON inside JSON.
MOST_BYTES = 27_000
MAX_TEXT = 26_000
MAX_LABEL = 100  # Button component: characters of its text
MAX_CHOICES = 100  # Card JSON 2.0: 200 elements in all
ELEMENT = "answer"  # element_id of the words: what a stream writes to
MARK = "*may be a duplicate*"
_NOTHING_SAID = "(nothing to say)"
_STYLES = {"good": "primary", "danger": "danger", "plain": "default"}
_FILE = "/file"
_PERSON = re.compile(r"ou_[A-Za-z0-9]{1,64}")


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Old messages are edited in order, the rest is posted, the surplus deleted; files come last. A
    file's message cannot be edited."""
    cards = _cards(outbound)
    old = [receipt.message for receipt in outbound.replaces if not is_file(receipt.message)]
    gone = [
        *old[len(cards) :],
        *(receipt.message for receipt in outbound.replaces if is_file(receipt.message)),
    ]
    where = _where(outbound.address, outbound.reply_to)
    parts = [
        _part("edit", {"card": card}, target) for card, target in zip(cards, old, strict=False)
    ]
    more = _where(outbound.address, None)
    posts = [
        (more if old or index else where)
        | {"card": card}
        | ({"stream": True} if outbound.draft else {})
        for index, card in enumerate(cards[len(old) :])
    ]
    parts += [_part("post", post) for post in posts]
    parts += [_part("delete", {}, target) for target in gone]
    parts += [
        _part("file", (more if cards or index else where) | {"path": str(path)})
        for index, path in enumerate(outbound.files)
    ]
    return tuple(parts)


def file_receipt(message: str) -> MessageId:
    """The receipt of a file says so: Feishu edits cards only."""
    return MessageId(message + _FILE)


def is_file(message: MessageId) -> bool:
    return message.endswith(_FILE)


def message_of(target: str) -> str:
    return target.removesuffix(_FILE)


def mark(part: Part) -> Part:
    """The same post with a visible doubt; edits and deletions show nothing twice, and a file's
    message has no room for words."""
    if part.kind != "post":
        return part
    body = json.loads(part.payload)
    body["card"]["body"]["elements"].append({"tag": "markdown", "content": MARK})
    return replace(part, payload=_frozen(body))


def draft(text: str) -> Body:
    """The card of a newer text of a message that is still being written: its head, as much as one
    message holds."""
    pieces = split_markdown(clean(text), lambda piece: _fits(_card(markup(piece)), piece))
    return _card((markup(pieces[0]) if pieces else "") or _NOTHING_SAID)


def words_of(card: Body) -> str:
    return str(card["body"]["elements"][0]["content"])


def streaming(card: Body) -> Body:
    """The same card, ready to be written to while it is read ("Streaming updates")."""
    return card | {"config": card["config"] | {"streaming_mode": True}}


def size(card: Body) -> int:
    """Bytes that a card takes in a request."""
    return len(json.dumps(_frozen(card), ensure_ascii=False).encode("utf-8", "replace"))


def _cards(outbound: Outbound) -> list[Body]:
    text = clean(outbound.text)
    if not text.strip() and outbound.files and not outbound.choices:
        return []
    people = (
        outbound.mentions if outbound.reply_to is None else outbound.mentions[1:]
    )  # a reply rings its author by itself
    calls = " ".join(f"<at id={person}></at>" for person in people if _PERSON.fullmatch(person))
    made = _plain_card if outbound.plain else _card
    room = (
        MOST_BYTES
        - len(calls)
        - (size(_with_buttons(made(""), outbound)) - size(made("")) if outbound.choices else 0)
    )
    shown = _as_it_is if outbound.plain else markup
    pieces = split_markdown(
        text, lambda piece: _fits(made(shown(piece)), "" if outbound.plain else piece, room)
    )
    said = [shown(piece) or _NOTHING_SAID for piece in pieces] or [_NOTHING_SAID]
    said = [piece for whole in said for piece in _cut(whole, made, room)]
    cards = [made(piece) for piece in said]
    if calls:
        cards[0]["body"]["elements"].insert(0, {"tag": "markdown", "content": calls})
    if outbound.choices:
        cards[-1] = _with_buttons(cards[-1], outbound)
    return cards


def _as_it_is(text: str) -> str:
    return text


def _fits(card: Body, source: str, room: int = MOST_BYTES) -> bool:
    return size(card) <= room and tables(source) <= MOST_TABLES


def _cut(text: str, made: Callable[[str], Body], room: int) -> list[str]:
    """A last resort for a piece that no boundary could make fit."""
    if size(made(text)) <= room or len(text) < 2:
        return [text]
    middle = len(text) // 2
    return [*_cut(text[:middle], made, room), *_cut(text[middle:], made, room)]


def _card(content: str) -> Body:
    """Card JSON 2.0. ``update_multi`` must stand there before and after, or nobody may change the
    card."""
    element = {"tag": "markdown", "content": content, "element_id": ELEMENT}
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": [element]}}


def _plain_card(content: str) -> Body:
    element = {"tag": "div", "text": {"tag": "plain_text", "content": content}}
    return {"schema": "2.0", "config": {"update_multi": True}, "body": {"elements": [element]}}


def _with_buttons(card: Body, outbound: Outbound) -> Body:
    """Buttons side by side as far as there is room. The thread travels in the value: the press does
    not name it."""
    where = {"topic": str(outbound.address.topic)} if outbound.address.topic else {}
    where |= {} if outbound.address.chat.startswith("oc_") else {"to": str(outbound.address.chat)}
    columns = [
        {"tag": "column", "width": "auto", "elements": [_button(choice, where)]}
        for choice in outbound.choices[:MAX_CHOICES]
    ]
    row = {"tag": "column_set", "flex_mode": "flow", "columns": columns}
    return card | {"body": {"elements": [*card["body"]["elements"], row]}}


def _button(choice: Choice, where: Body) -> Body:
    label = clean(choice.label).strip() or choice.value
    label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
    return {
        "tag": "button",
        "text": {"tag": "plain_text", "content": label},
        "type": _STYLES[choice.style],
        "behaviors": [{"type": "callback", "value": {"choice": choice.value} | where}],
    }


def _where(address: Address, reply_to: MessageId | None) -> Body:
    """A thread is answered by a reply to its root; another message by a reply that quotes it."""
    if address.topic:
        return {"chat": str(address.chat), "reply": str(address.topic), "in_thread": True}
    return {"chat": str(address.chat)} | ({"reply": str(reply_to)} if reply_to else {})


def _part(
    kind: Literal["post", "edit", "delete", "file"], body: Body, target: MessageId | None = None
) -> Part:
    return Part(kind, _frozen(body), target)


def _frozen(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
