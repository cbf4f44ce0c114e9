"""Slack's events, history rows and pressed buttons as arrivals. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
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
from channels.payloads import (
    Body,
    Malformed,
    bodies_of,
    body_of,
    clean,
    cleaned,
    first_text,
    soft,
    text_of,
)
from channels.record import record
from channels.slack.mrkdwn import attachments_of, files_of, readable, words_of

# Reference, "message" event subtypes: these are people or programs talking; the others are Slack's
# own lines (joins, topics, pins) or copies. The last one was seen, and is not documented.
_SPOKEN = frozenset(
    {"", "file_share", "thread_broadcast", "me_message", "bot_message", "message_share"}
)
_SLACKBOT = "USLACKBOT"
_PERSON = re.compile(r"<@([UW][A-Z0-9]+)(?:\|([^<>]*))?>")


def _nobody(chat: str, ts: str) -> str | None:  # noqa: ARG001 - the default of Place.topic_of
    return None


def _always(words: str) -> bool:  # noqa: ARG001 - the default of Place.is_order
    return True


def _never(chat: str, thread: str) -> bool:  # noqa: ARG001 - the default of Place.follows
    return False


@record
class Place:
    """What must be known to read an event: who we are, and what we remember of this workspace."""

    account: str
    user: str  # our bot's user id
    now: Callable[[], datetime]
    names: Mapping[str, str] = field(default_factory=dict[str, str])  # user id -> name
    # (chat, thread): did we speak, or were we called, in this thread
    follows: Callable[[str, str], bool] = _never
    # (chat, ts): the thread a message stands in
    topic_of: Callable[[str, str], str | None] = _nobody
    is_order: Callable[[str], bool] = _always  # are the words after /ohmo a command of the house
    # our bot's own id (bot_id of auth.test): a post under another name carries only that
    bot: str = ""


class _Common(TypedDict):
    key: str
    address: Address
    person: Person
    at: datetime
    order: str


def moment(ts: str) -> datetime:
    """A message's ts is its time: seconds since 1970 with six decimals, unique inside a
    conversation."""
    return datetime.fromtimestamp(float(ts), UTC)


def order(ts: str) -> str:
    """Sorts like the numbers do, for ever."""
    seconds, _, fraction = ts.partition(".")
    return f"{seconds:0>12}.{fraction:0<6}"


def people_in(text: str) -> set[str]:
    return {mention.group(1) for mention in _PERSON.finditer(text)}


def chat_of(kind: str, payload: Body) -> str:
    """The conversation an envelope belongs to; "" when it belongs to none (channel_created carries
    an object there)."""
    if kind == "events_api":
        event = soft(payload, "event")
        item = soft(event, "item")
        chats: list[object] = [event.get("channel"), item.get("channel")]
    elif kind == "interactive":
        channel = soft(payload, "channel")
        container = soft(payload, "container")
        chats = [channel.get("id"), container.get("channel_id")]
    else:
        chats = [payload.get("channel_id")]
    return next((chat for chat in chats if isinstance(chat, str)), "")


def said_at(payload: Body) -> str:
    """The name in its conversation of the message that an event brings; "" of other envelopes."""
    ts = soft(payload, "event").get("ts")
    return ts if isinstance(ts, str) else ""


def people_of(kind: str, payload: Body) -> set[str]:
    """User ids whose names an envelope's arrivals show."""
    event = soft(payload, "event") if kind == "events_api" else {}
    rows = [event, soft(event, "message")]
    users: set[str] = set()
    for row in rows:
        user = row.get("user")
        text = row.get("text")
        if isinstance(user, str) and user:
            users.add(user)
        if isinstance(text, str):
            users |= people_in(text)
    return users


def read(kind: str, payload: Body, place: Place) -> list[Arrival]:
    """The arrivals of one envelope: one, or none when nobody spoke to us. Raises Malformed."""
    arrivals: list[Arrival | None] = []
    if kind == "events_api":
        arrivals = [_event(body_of(payload, "event"), place)]
    elif kind == "interactive" and payload.get("type") == "block_actions":
        arrivals += _pressed(payload, place)
    elif kind == "slash_commands":
        arrivals = [_command(payload, place)]
    return [cleaned(arrival) for arrival in arrivals if arrival is not None]


def _event(event: Body, place: Place) -> Arrival | None:
    kind = text_of(event, "type")
    if kind in {"reaction_added", "reaction_removed"}:
        return _reaction(event, kind == "reaction_added", place)
    if kind not in {"message", "app_mention"}:
        return None
    chat = text_of(event, "channel")
    private = event.get("channel_type") == "im" or chat.startswith("D")
    match text_of(event, "subtype", ""):
        case "message_changed":
            now = body_of(event, "message")
            before = body_of(event, "previous_message", {})
            if now.get("subtype") == "tombstone":  # a deleted message that keeps its thread
                return _deleted(event | {"deleted_ts": now.get("ts")}, chat, place)
            if before and now.get("text") == before.get("text"):
                return None  # an unfurled link or a new reply changes a message too
            at = text_of(event, "ts", "")
            return edited(now, chat, place, private=private, ts=at)
        case "message_deleted":
            return _deleted(event, chat, place)
        case _:
            is_direct = event.get("channel_type") == "im" or kind == "message"
            return message(event, chat, place, private=private and is_direct)


def is_spoken(row: Body, place: Place) -> bool:
    """By a person or another bot: not by us, not one of Slack's own lines."""
    return (
        text_of(row, "subtype", "") in _SPOKEN
        and _author(row) not in {"", place.user, _SLACKBOT}
        and (not row.get("bot_id") or row.get("bot_id") != place.bot)
        and not row.get("hidden")
    )


def is_bots(row: Body) -> bool:
    """Said by a program; only its posts carry ``bot_id`` (Reference, "bot_message")."""
    return bool(row.get("bot_id"))


def _author(row: Body) -> str:
    """A bot_message of an older app has no user, only the bot's id."""
    return first_text(row, "user", "bot_id")


def message(row: Body, chat: str, place: Place, *, private: bool) -> Inbound | None:
    """A message event, its app_mention twin or a row of history: equal keys, because the key is
    (channel, ts). None: not for us."""
    if not is_spoken(row, place):
        return None
    ts = _ts(row, "ts")
    thread = _thread(row)
    called = place.user in people_in(text_of(row, "text", ""))
    addressed = (
        private
        or called
        or row.get("parent_user_id") == place.user
        or (thread != "" and place.follows(chat, thread))
    )
    once = text_of(row, "client_msg_id", "")
    topic = _topic(ts, thread, called=called, private=private)
    person = _person(_author(row), place, row)
    attachments: list[Attachment] = []
    for file in files_of(row):
        # Its private address opens with the bot's token for as long as the file lives.
        url = first_text(file, "url_private_download", "url_private")
        is_elsewhere = file.get("file_access") == "check_file_info"
        if file.get("mode") == "tombstone" or not (url or is_elsewhere):
            continue
        name = first_text(file, "name", "title") or "file"
        size = file.get("size")
        attachment = Attachment(
            ref=f"{text_of(file, 'id', '')} {url}".strip(),
            name=clean(name),
            media_type=text_of(file, "mimetype", "") or "application/octet-stream",
            size=size if isinstance(size, int) else None,
        )
        attachments.append(attachment)
    return Inbound(
        **_common(f"{chat}/{ts}", chat, topic, person, ts, place),
        aliases=(f"client_msg_id/{once}",) if once else (),
        message=MessageId(ts),
        text=_whole(row, place),
        private=private,
        addressed=addressed,
        attachments=tuple(attachments),
    )


def _whole(row: Body, place: Place) -> str:
    """Its words, and what was forwarded with them or is said in attachments and blocks, which the
    words do not hold."""
    text = words_of(row) if is_bots(row) else text_of(row, "text", "")
    pieces = [readable(text, place.user, place.names)]
    for head, words in attachments_of(row, program=is_bots(row)):
        if head:
            pieces.append(f"[{clean(head)}]")
        pieces.append(readable(words, place.user, place.names))
    return "\n".join(filter(None, pieces))


def edited(row: Body, chat: str, place: Place, *, private: bool, ts: str = "") -> Edited | None:
    """The newest text of a message that was changed; ``row`` is the message as it stands now."""
    if not is_spoken(row, place):
        return None
    message_ts = _ts(row, "ts")
    called = place.user in people_in(text_of(row, "text", ""))
    edit = body_of(row, "edited", {})
    changed = text_of(edit, "ts", "") or ts or message_ts
    topic = _topic(message_ts, _thread(row), called=called, private=private)
    person = _person(_author(row), place, row)
    key = f"{chat}/{message_ts}/edited/{changed}"
    return Edited(
        **_common(key, chat, topic, person, changed, place),
        message=MessageId(message_ts),
        text=_whole(row, place),
    )


def _deleted(event: Body, chat: str, place: Place) -> Edited | None:
    before = body_of(event, "previous_message", {})
    if before and not is_spoken(before, place):
        return None
    deleted = _ts(event, "deleted_ts")
    ts = _ts(event, "ts")
    private = event.get("channel_type") == "im" or chat.startswith("D")
    called = place.user in people_in(text_of(before, "text", ""))
    thread = _thread(before) or place.topic_of(chat, deleted) or ""
    topic = _topic(deleted, thread, called=called, private=private)
    person = _person(_author(before), place, before)
    common = _common(f"{chat}/{deleted}/deleted", chat, topic, person, ts, place)
    return Edited(**common, message=MessageId(deleted), text=None)


def _reaction(event: Body, added: bool, place: Place) -> Reacted | None:
    item = body_of(event, "item")
    user = text_of(event, "user")
    if item.get("type") != "message" or user == place.user:
        return None
    chat = text_of(item, "channel")
    target = _ts(item, "ts")
    ts = _ts(event, "event_ts")
    emoji = text_of(event, "reaction")
    key = f"{chat}/{target}/{emoji}/{user}/{ts}"
    topic = place.topic_of(chat, target)
    person = _person(user, place)
    return Reacted(
        **_common(key, chat, topic, person, ts, place),
        message=MessageId(target),
        emoji=emoji,
        added=added,
    )


def _pressed(payload: Body, place: Place) -> list[Answer]:
    """block_actions payload: who pressed which button of which of our messages."""
    container = body_of(payload, "container", {})
    chat = chat_of("interactive", payload)
    row = body_of(payload, "message", {})
    target = text_of(container, "message_ts", "") or _ts(row, "ts")
    thread = text_of(container, "thread_ts", "") or text_of(row, "thread_ts", "")
    topic = thread or place.topic_of(chat, target)
    user = body_of(payload, "user")
    user_id = text_of(user, "id")
    name = first_text(user, "name", "username") or user_id
    person = Person(PersonId(user_id), clean(name))
    answers: list[Answer] = []
    for action in bodies_of(payload, "actions"):
        if action.get("type") != "button" or "value" not in action:
            continue
        ts = _ts(action, "action_ts")
        key = f"{chat}/{target}/pressed/{user_id}/{ts}"
        answers.append(
            Answer(
                **_common(key, chat, topic, person, ts, place),
                message=MessageId(target),
                choice=text_of(action, "value"),
                token=text_of(payload, "response_url", ""),
            )
        )
    return answers


def _command(payload: Body, place: Place) -> Inbound:
    """A slash command registered for the app: ``/ohmo stop`` and ``/stop`` say "/stop", ``/ohmo how
    are you`` is no command of the house and says just that. It has no ts of its own."""
    chat = text_of(payload, "channel_id")
    trigger = text_of(payload, "trigger_id")
    user = text_of(payload, "user_id")
    command = text_of(payload, "command")
    typed = text_of(payload, "text", "").strip()
    text = readable(typed, place.user, place.names)
    if command != "/ohmo":
        text = f"{command} {text}".strip()
    elif place.is_order(text):
        words = text.removeprefix("/") or "help"
        text = f"/{words}"
    ts = f"{place.now().timestamp():.6f}"
    private = payload.get("channel_name") == "directmessage"
    name = text_of(payload, "user_name", "") or user
    person = Person(PersonId(user), clean(name))
    common = _common(f"{chat}/command/{trigger}", chat, None, person, ts, place)
    return Inbound(**common, message=MessageId(trigger), text=text, private=private, addressed=True)


def _thread(row: Body) -> str:
    """The root of the thread a message answers in. A root carries its own ts there as soon as
    somebody answers: that is no thread yet."""
    thread = text_of(row, "thread_ts", "")
    return "" if thread == row.get("ts") else thread


def _topic(ts: str, thread: str, *, called: bool, private: bool) -> str | None:
    """Inside a thread its root; a call in a channel starts a thread on itself; anything else stands
    in the conversation."""
    return thread or (ts if called and not private else None)


def _person(user: str, place: Place, row: Body | None = None) -> Person:
    row = row or {}
    profile = body_of(row, "user_profile", {})
    program = body_of(row, "bot_profile", {})
    name = place.names.get(user, "")
    name = name or first_text(profile, "display_name", "real_name")
    name = name or text_of(row, "username", "") or text_of(program, "name", "")
    return Person(PersonId(user), clean(name or user), is_bots(row))


def _common(
    key: str, chat: str, topic: str | None, person: Person, ts: str, place: Place
) -> _Common:
    thread = TopicId(topic) if topic else None
    address = Address("slack", place.account, ChatId(chat), thread)
    return {"key": key, "address": address, "person": person, "at": moment(ts), "order": order(ts)}


def _ts(body: Body, name: str) -> str:
    value = text_of(body, name)
    if not re.fullmatch(r"\d{1,11}(\.\d{1,6})?", value):
        raise Malformed(f"{name} is no timestamp: {value[:40]!r}")
    return value
