"""Feishu's events and rows of history as arrivals. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from typing import TypedDict

from channels.contract import (
    Address,
    Answer,
    Arrival,
    Attachment,
    ChatId,
    Edited,
    Inbound,
    MessageId,
    Person,
    PersonId,
    Reacted,
    TopicId,
)
from channels.feishu import content
from channels.feishu.content import milliseconds, moment, order, rows_of, word
from channels.payloads import Body, Malformed, body_of, clean, cleaned, soft, text_of
from channels.record import record

MESSAGE, RECALLED = "im.message.receive_v1", "im.message.recalled_v1"
REACTED, UNREACTED = "im.message.reaction.created_v1", "im.message.reaction.deleted_v1"
PRESSED = "card.action.trigger"


def _never(message: str) -> bool:  # noqa: ARG001 - the default of Place.is_ours and Place.follows
    return False


@record
class EventContext:
    """What must be known to read an event: who we are, and what we remember."""

    app: str  # cli_…: the account, and the sender of our own rows in the history
    bot: str  # our bot's open_id: what a mention names
    names: Mapping[str, str] = field(default_factory=dict[str, str])  # open_id -> name
    follows: Callable[[str], bool] = _never  # (root): did we speak, or were called, in this thread
    is_ours: Callable[[str], bool] = _never  # (message): did we say it
    # (message): the thread a message stands in, when it is known
    topic_of: Callable[[str], str | None] = dict[str, str]().get
    # message -> what it said, of those that were answered to
    quoted: Mapping[str, str] = field(default_factory=dict[str, str])
    # message -> what the messages forwarded with it said
    inside: Mapping[str, str] = field(default_factory=dict[str, str])


@record
class Spoken:
    """A message as an event or a row of history tells it."""

    id: str
    chat: str
    kind: str
    content: str
    ms: int
    changed: int  # ms of its last change; 0: never
    sender: str
    person: bool  # said by a person: not by us, nor by another bot
    root: str
    parent: str
    thread: str
    mentions: tuple[tuple[str, str, str], ...]  # key in the content, open_id, name
    deleted: bool = False

    @property
    def topic(self) -> str | None:
        """Threads are named by their root; the root itself carries the thread's id as soon as there
        is one."""
        if self.thread:
            return self.root or self.id
        return None


class _Common(TypedDict):
    key: str
    address: Address
    person: Person
    at: datetime
    order: str


def kind_of(payload: Body) -> str:
    """The event's type; "" when there is none."""
    return word(soft(payload, "header"), "event_type")


def chat_of(payload: Body) -> str:
    """The conversation an event belongs to; "" when it names none (reactions do not)."""
    event = soft(payload, "event")
    return (
        word(soft(event, "message"), "chat_id")
        or word(event, "chat_id")
        or word(soft(event, "context"), "open_chat_id")
    )


def message_id(payload: Body) -> str:
    """The id of the message that an event brings; "" of other events."""
    return word(soft(soft(payload, "event"), "message"), "message_id")


def spoken_in(payload: Body) -> Spoken | None:
    """The message of an event, None for other events. Raises Malformed."""
    if kind_of(payload) != MESSAGE:
        return None
    event = body_of(payload, "event")
    message = body_of(event, "message")
    sender = body_of(event, "sender")
    return Spoken(
        id=text_of(message, "message_id"),
        chat=text_of(message, "chat_id"),
        kind=text_of(message, "message_type"),
        content=text_of(message, "content", ""),
        ms=milliseconds(message, "create_time"),
        changed=0,
        sender=text_of(body_of(sender, "sender_id", {}), "open_id", ""),
        person=text_of(sender, "sender_type", "user") == "user",
        root=text_of(message, "root_id", ""),
        parent=text_of(message, "parent_id", ""),
        thread=text_of(message, "thread_id", ""),
        mentions=tuple(
            (word(mention, "key"), word(soft(mention, "id"), "open_id"), word(mention, "name"))
            for mention in rows_of(message, "mentions")
        ),
    )


def spoken_row(row: Body) -> Spoken:
    """A row of "Get chat history". Raises Malformed."""
    sender = body_of(row, "sender", {})
    updated = bool(row.get("updated"))
    return Spoken(
        id=text_of(row, "message_id"),
        chat=text_of(row, "chat_id", ""),
        kind=text_of(row, "msg_type"),
        content=text_of(body_of(row, "body", {}), "content", ""),
        ms=milliseconds(row, "create_time"),
        changed=milliseconds(row, "update_time") if updated else 0,
        sender=text_of(sender, "id", ""),
        person=text_of(sender, "sender_type", "") == "user",
        root=text_of(row, "root_id", ""),
        parent=text_of(row, "parent_id", ""),
        thread=text_of(row, "thread_id", ""),
        mentions=tuple(
            (word(mention, "key"), word(mention, "id"), word(mention, "name"))
            for mention in rows_of(row, "mentions")
        ),
        deleted=bool(row.get("deleted")),
    )


def is_reaction(payload: Body) -> bool:
    return kind_of(payload) in {REACTED, UNREACTED}


def is_private(payload: Body) -> bool:
    return word(soft(soft(payload, "event"), "message"), "chat_type") == "p2p"


def read(payload: Body, context: EventContext, spoken: Spoken | None = None) -> list[Arrival]:
    """The arrivals of one event: one, or none when nobody spoke to us. ``spoken``: what
    ``spoken_in`` said of it already. Raises Malformed."""
    arrival: Arrival | None = None
    match kind_of(payload):
        case "im.message.receive_v1":
            spoken = spoken or spoken_in(payload)
            if spoken is not None and spoken.person:
                arrival = message(spoken, context, private=is_private(payload))
        case "im.message.recalled_v1":
            arrival = _recalled(body_of(payload, "event"), context)
        case "im.message.reaction.created_v1" | "im.message.reaction.deleted_v1" as kind:
            arrival = _reaction(body_of(payload, "event"), context, added=kind == REACTED)
        case "card.action.trigger":
            arrival = _pressed(payload, context)
        case _:
            pass
    if arrival is None:
        return []
    return [cleaned(arrival)]


def message(spoken: Spoken, context: EventContext, *, private: bool) -> Inbound:
    """An event's message, or a row of history: equal keys, because the key is the message's id
    ("Receive message": do not use event_id)."""
    text, attachments = _content(spoken, context)
    addressed = private or context.bot in {person for _, person, _ in spoken.mentions}
    if not addressed:
        followed = spoken.topic is not None and context.follows(spoken.topic)
        addressed = followed or context.is_ours(spoken.parent)
    answers = ""
    if spoken.parent != spoken.topic:
        answers = spoken.parent
    common = _common(
        context,
        key=spoken.id,
        chat=spoken.chat,
        topic=spoken.topic,
        person=spoken.sender,
        ms=spoken.ms,
    )
    return Inbound(
        **common,
        message=MessageId(spoken.id),
        text=text,
        private=private,
        addressed=addressed,
        attachments=attachments,
        reply_to=MessageId(answers) if answers else None,
        quoted=context.quoted.get(answers) if answers else None,
    )


def edited(spoken: Spoken, context: EventContext) -> Edited:
    """Feishu announces no edit; the history shows the newest text, and that a message is gone."""
    text = None if spoken.deleted else _content(spoken, context)[0]
    at = max(spoken.changed, spoken.ms)
    key = f"{spoken.id}/recalled" if spoken.deleted else f"{spoken.id}/edited/{at}"
    common = _common(
        context, key=key, chat=spoken.chat, topic=spoken.topic, person=spoken.sender, ms=at
    )
    return Edited(**common, message=MessageId(spoken.id), text=text)


def summary(spoken: Spoken, context: EventContext) -> str:
    """What a message said, in one piece, for those who answer to it."""
    text, files = _content(spoken, context)
    lines = [text, *(f"[file: {file.name}]" for file in files)]
    return "\n".join(filter(None, lines))


def _content(spoken: Spoken, context: EventContext) -> tuple[str, tuple[Attachment, ...]]:
    names = {key: (person, name) for key, person, name in spoken.mentions}

    def named(key: str) -> str:
        if key == "@_all":
            return "@all"
        person, name = names.get(key, ("", ""))
        return f"@{name or context.names.get(person) or person or key.removeprefix('@_')}"

    if spoken.kind == "merge_forward" and spoken.id in context.inside:
        return clean(context.inside[spoken.id]), ()
    result = content.read(spoken.id, spoken.kind, spoken.content, named)
    text = result.text
    # A call of our bot at the start is an address, not a word.
    calls = [named(key) for key, person, _ in spoken.mentions if person == context.bot]
    if calls and spoken.kind in {"text", "post"}:
        call = rf"^\s*{re.escape(calls[0])}[\s,:，：]*"
        text = re.sub(call, "", text)
    return clean(text), result.attachments


def _recalled(event: Body, context: EventContext) -> Edited | None:
    """im.message.recalled_v1 names the message and its chat, not who said it."""
    target = text_of(event, "message_id")
    chat = text_of(event, "chat_id")
    ms = milliseconds(event, "recall_time")
    if context.is_ours(target):
        return None
    common = _common(
        context,
        key=f"{target}/recalled",
        chat=chat,
        topic=context.topic_of(target),
        person="",
        ms=ms,
    )
    return Edited(**common, message=MessageId(target), text=None)


def _reaction(event: Body, context: EventContext, *, added: bool) -> Reacted | None:
    """im.message.reaction.created_v1 and .deleted_v1; those of apps are our own "typing", or
    another bot's."""
    if word(event, "operator_type") == "app":
        return None
    target = text_of(event, "message_id")
    ms = milliseconds(event, "action_time")
    emoji = text_of(body_of(event, "reaction_type"), "emoji_type")
    user = text_of(body_of(event, "user_id"), "open_id")
    chat = word(event, "chat_id")
    if not chat:
        # Asked for elsewhere; a reaction to a message whose chat nobody knows concerns nobody.
        return None
    sign = "-"
    if added:
        sign = "+"
    common = _common(
        context,
        key=f"{target}/{emoji}/{user}/{ms}/{sign}",
        chat=chat,
        topic=context.topic_of(target),
        person=user,
        ms=ms,
    )
    return Reacted(**common, message=MessageId(target), emoji=emoji, added=added)


def _pressed(payload: Body, context: EventContext) -> Answer | None:
    """card.action.trigger: the button's value is what render.py gave it."""
    header = body_of(payload, "header")
    event = body_of(payload, "event")
    action = body_of(event, "action")
    card = body_of(event, "context")
    operator = body_of(event, "operator")
    value = body_of(action, "value", {})
    choice = word(value, "choice")
    if not choice:
        return None
    target = text_of(card, "open_message_id")
    chat = word(value, "to") or text_of(card, "open_chat_id")
    topic = word(value, "topic") or None
    ms = milliseconds(header, "create_time")
    event_id = text_of(header, "event_id")
    common = _common(
        context,
        key=f"pressed/{event_id}",
        chat=chat,
        topic=topic,
        person=text_of(operator, "open_id"),
        ms=ms,
    )
    return Answer(**common, message=MessageId(target), choice=choice, token=event_id)


def _common(
    context: EventContext, *, key: str, chat: str, topic: str | None, person: str, ms: int
) -> _Common:
    """``person``: an open_id."""
    if not chat:
        raise Malformed("chat_id is empty")
    name = context.names.get(person) or person
    return {
        "key": key,
        "address": Address(
            channel="feishu",
            account=context.app,
            chat=ChatId(chat),
            topic=TopicId(topic) if topic else None,
        ),
        "person": Person(PersonId(person), clean(name)),
        "at": moment(ms),
        "order": order(ms),
    }
