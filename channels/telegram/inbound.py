"""Telegram's updates as arrivals. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import cast

from pydantic import ValidationError

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
from channels.payloads import clean, cleaned
from channels.record import record
from channels.telegram.updates import Entity, Message, Origin, Press, Reaction, Update, User

QUOTED = 4000  # characters of a replied-to message that are handed on


@record
class Me:
    """The bot itself: its number, and its name without @."""

    id: int
    name: str


class Malformed(ValueError):
    """An update of a shape that Telegram does not document."""


def arrivals(raw: object, me: Me, now: datetime) -> tuple[Arrival, ...]:
    """What one update (a decoded JSON object) says; nothing for kinds that need no answer. Raises
    Malformed."""
    try:
        update = Update.model_validate(raw)
    except ValidationError as error:
        where = ".".join(
            str(step) for step in error.errors(include_input=False, include_url=False)[0]["loc"]
        )
        raise Malformed(f"cannot be read at {where or 'its top'}") from None
    except RecursionError:
        raise Malformed("is nested too deeply") from None
    try:
        return tuple(cleaned(said) for said in _arrivals(update, me, now))
    except (ValueError, OverflowError, OSError) as error:  # a date no calendar has
        raise Malformed(str(error)) from None


def number(raw: object) -> int | None:
    """The update_id, even of an update that cannot be read otherwise."""
    found = raw.get("update_id") if isinstance(raw, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def moved(raw: object) -> tuple[int, int] | None:
    """The old and the new number of a group that became a supergroup (Message, migrate_to_chat_id);
    None: this update tells of none."""
    message: object = (
        cast("dict[str, object]", raw).get("message") if isinstance(raw, dict) else None
    )
    if not isinstance(message, dict) or "migrate_to_chat_id" not in message:
        return None
    try:
        said = Message.model_validate(message)
    except (ValidationError, RecursionError):
        return None
    return (said.chat.id, said.migrate_to_chat_id) if said.migrate_to_chat_id is not None else None


def _arrivals(update: Update, me: Me, now: datetime) -> Iterator[Arrival]:
    if update.message is not None:
        found = _message(update.message, me)
        if found is not None:
            yield found
    if update.edited_message is not None:
        edited = _message(update.edited_message, me)
        if edited is not None:
            yield _edited(update.edited_message, edited)
    if update.callback_query is not None:
        yield from _press(update.callback_query, me, now)
    if update.message_reaction is not None:
        yield from _reaction(update.message_reaction, me)


def _message(message: Message, me: Me) -> Inbound | None:
    sender = message.sender
    if sender is None or sender.id == me.id or message.is_automatic_forward or message.date == 0:
        return None
    if (
        sender.is_bot and message.sender_chat is not None
    ):  # Message, "sender_chat": a chat speaks, behind a bot's name for old clients
        return None
    attachments = _attachments(message)
    text = _text(message, me)
    if not text and not attachments:  # somebody joined, a title changed, a message was pinned
        return None
    private = message.chat.type == "private"
    if not private and _is_for_another_bot(message, me):
        return None
    reply = _reply(message)
    return Inbound(
        key=f"{message.chat.id}/{message.message_id}",
        address=_address(message, me),
        person=_person(sender),
        at=_time(message.date),
        order=_order(message.date, message.message_id),
        message=MessageId(str(message.message_id)),
        text=text,
        private=private,
        addressed=private or _is_meant(message, me),
        attachments=attachments
        or (_attachments(reply) if reply is not None else ()),  # "what is this?" said to a picture
        reply_to=MessageId(str(reply.message_id)) if reply is not None else None,
        quoted=_quoted(message, reply),
        album=message.media_group_id,
    )


def _edited(message: Message, whole: Inbound) -> Edited:
    date = message.edit_date or message.date
    return Edited(
        key=f"{whole.key}/edit/{date}/{_digest(whole.text)}",
        address=whole.address,
        person=whole.person,
        at=_time(date),
        order=_order(date, message.message_id),
        message=whole.message,
        text=whole.text,
    )


def _press(press: Press, me: Me, now: datetime) -> Iterator[Answer]:
    if (
        press.message is None or press.data is None or press.sender.is_bot
    ):  # a button of an inline message, or a game
        return
    yield Answer(
        key=f"press/{press.id}",
        address=_address(press.message, me),
        person=_person(press.sender),
        at=now,  # a CallbackQuery has no date of its own
        order=_order(int(now.timestamp()), press.message.message_id),
        message=MessageId(str(press.message.message_id)),
        choice=press.data,
        token=press.id,
    )


def _reaction(reaction: Reaction, me: Me) -> Iterator[Reacted]:
    if reaction.user is None or reaction.user.is_bot:  # an anonymous one, or a bot's
        return
    old = {found.emoji or found.custom_emoji_id or found.type for found in reaction.old_reaction}
    new = {found.emoji or found.custom_emoji_id or found.type for found in reaction.new_reaction}
    for emoji in sorted(old ^ new):
        added = emoji in new
        place = f"{reaction.chat.id}/{reaction.message_id}/reaction"
        yield Reacted(
            key=f"{place}/{reaction.user.id}/{reaction.date}/{emoji}/{'+' if added else '-'}",
            address=Address("telegram", str(me.id), ChatId(str(reaction.chat.id))),
            person=_person(reaction.user),
            at=_time(reaction.date),
            order=_order(reaction.date, reaction.message_id),
            message=MessageId(str(reaction.message_id)),
            emoji=emoji,
            added=added,
        )


def _address(message: Message, me: Me) -> Address:
    """The General topic has no number of its own; a reply chain outside of forums has one that is
    no topic (Message, is_topic_message)."""
    topic = message.message_thread_id if message.is_topic_message else None
    return Address(
        "telegram",
        str(me.id),
        ChatId(str(message.chat.id)),
        TopicId(str(topic)) if topic is not None else None,
    )


def _person(user: User) -> Person:
    name = clean(f"{user.first_name} {user.last_name}").strip() or user.username or str(user.id)
    return Person(PersonId(str(user.id)), name, user.is_bot)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _order(seconds: int, message: int) -> str:
    return f"{seconds:012d}.{message:012d}"


def _digest(text: str) -> str:
    """Two edits within one second are two."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return f"{value:08x}"


# Who is meant


def _is_meant(message: Message, me: Me) -> bool:
    """A mention, a command (with this bot's name or none) or a reply to the bot (Bot API, "Privacy
    mode")."""
    reply = _reply(message)
    if reply is not None and reply.sender is not None and reply.sender.id == me.id:
        return True
    words, entities = _words(message)
    return any(_names(words, entity, me) for entity in entities)


def _is_for_another_bot(message: Message, me: Me) -> bool:
    """``/stop@other_bot`` is an order to that bot, also as a reply to us and where no mention is
    required (Bots, "Commands")."""
    words, entities = _words(message)
    first = next(
        (entity for entity in entities if entity.type == "bot_command" and entity.offset == 0), None
    )
    name = _part(words, first).lower().partition("@")[2] if first is not None else ""
    return bool(name) and name != me.name.lower()


def _names(words: bytes, entity: Entity, me: Me) -> bool:
    said = _part(words, entity).lower()
    match entity.type:
        case "mention":
            return said == f"@{me.name.lower()}"
        case "text_mention":
            return entity.user is not None and entity.user.id == me.id
        case "bot_command":
            return said.endswith(f"@{me.name.lower()}") or "@" not in said
        case _:
            return False


def _words(message: Message) -> tuple[bytes, Sequence[Entity]]:
    """The text as UTF-16, in whose units entities count."""
    if message.text:
        return message.text.encode("utf-16-le", "surrogatepass"), message.entities
    return message.caption.encode("utf-16-le", "surrogatepass"), message.caption_entities


def _part(words: bytes, entity: Entity) -> str:
    return words[2 * entity.offset : 2 * (entity.offset + entity.length)].decode(
        "utf-16-le", "replace"
    )


# What is said


def _text(message: Message, me: Me) -> str:
    words, entities = _words(message)
    text = clean(_with_addresses(words, entities))
    if message.chat.type != "private" and me.name:  # being spoken to is said by ``addressed``
        text = re.sub(rf"^@{re.escape(me.name)}\b[\s,:]*", "", text, flags=re.IGNORECASE) or text
    lines = (
        [f"[forwarded from {clean(_origin(message.forward_origin))}]"]
        if message.forward_origin is not None
        else []
    )
    lines += [line for line in (clean(_other(message)), text) if line]
    return "\n".join(lines)


def _with_addresses(words: bytes, entities: Sequence[Entity]) -> str:
    """Links behind words (text_link) carry their address after the words, else nobody could read
    it."""
    pieces: list[bytes] = []
    last = 0
    for entity in sorted(
        (entity for entity in entities if entity.type == "text_link"),
        key=lambda entity: entity.offset,
    ):
        end = 2 * (entity.offset + entity.length)
        if end >= last and entity.url != _part(words, entity):
            pieces += [words[last:end], f" ({entity.url})".encode("utf-16-le", "surrogatepass")]
            last = end
    return b"".join([*pieces, words[last:]]).decode("utf-16-le", "surrogatepass")


def _origin(origin: Origin) -> str:
    if origin.sender_user is not None:
        return _person(origin.sender_user).name
    chat = origin.chat or origin.sender_chat
    return (chat.title if chat is not None else "") or origin.sender_user_name or "somebody"


def _other(message: Message) -> str:
    """What is neither text nor a file, in words."""
    if message.sticker is not None:
        return f"[sticker {message.sticker.emoji}]".replace(" ]", "]")
    if message.venue is not None:
        return f"[place: {message.venue.title}, {message.venue.address}]"
    if message.location is not None:
        return f"[location: {message.location.latitude}, {message.location.longitude}]"
    if message.contact is not None:
        contact = message.contact
        return (
            f"[contact: {f'{contact.first_name} {contact.last_name}'.strip()},"
            f" {contact.phone_number}]"
        )
    if message.poll is not None:
        return (
            f"[poll: {message.poll.question} —"
            f" {' / '.join(option.text for option in message.poll.options)}]"
        )
    if message.checklist is not None:
        return (
            f"[checklist: {message.checklist.title} —"
            f" {' / '.join(task.text for task in message.checklist.tasks)}]"
        )
    if message.story is not None:
        return f"[a story of {message.story.chat.title or 'somebody'}, which bots cannot see]"
    if message.dice is not None:
        return f"[{message.dice.emoji} {message.dice.value}]"
    return ""


def _attachments(message: Message) -> tuple[Attachment, ...]:
    found: list[Attachment] = []
    if message.photo:
        largest = max(message.photo, key=lambda size: size.file_size or 0)
        largest = largest if largest.file_size else message.photo[-1]
        found.append(
            Attachment(
                largest.file_id,
                f"photo-{largest.file_unique_id}.jpg",
                "image/jpeg",
                largest.file_size,
            )
        )
    for file, kind, suffix, media_type in (
        (message.animation, "animation", ".mp4", "video/mp4"),
        (
            message.document if message.animation is None else None,
            "document",
            "",
            "application/octet-stream",
        ),
        (message.voice, "voice", ".ogg", "audio/ogg"),
        (message.audio, "audio", ".mp3", "audio/mpeg"),
        (message.video, "video", ".mp4", "video/mp4"),
        (message.video_note, "video", ".mp4", "video/mp4"),
    ):
        if file is not None:
            name = clean(file.file_name) or f"{kind}-{file.file_unique_id}{suffix}"
            found.append(
                Attachment(file.file_id, name, file.mime_type or media_type, file.file_size)
            )
    return tuple(found)


def _reply(message: Message) -> Message | None:
    """Every message of a topic answers the topic's first one; that is no reply."""
    reply = message.reply_to_message
    return (
        None
        if reply is None
        or (message.is_topic_message and reply.message_id == message.message_thread_id)
        else reply
    )


def _quoted(message: Message, reply: Message | None) -> str | None:
    text = (
        message.quote.text
        if message.quote is not None
        else (reply.text or reply.caption or _other(reply))
        if reply is not None
        else ""
    )
    return clean(text)[:QUOTED] or None


# What is too old


def fenced(found: Sequence[Arrival], oldest: datetime) -> list[Arrival]:
    """Messages said before ``oldest`` become one per place: the newest stays and says how many came
    before it.

    Telegram's queue hands over everything of the last day, and what was handed over is never
    dropped silently: one answer covers them, and their names count as seen."""
    old = [arrival for arrival in found if isinstance(arrival, Inbound) and arrival.at < oldest]
    if not old:
        return list(found)
    last: dict[str, Inbound] = {}
    for _, group in groupby(
        sorted(old, key=lambda arrival: repr(arrival.address)), key=lambda arrival: arrival.address
    ):
        many = list(group)
        last[many[-1].key] = _covering(many)
    gone = {arrival.key for arrival in old} - last.keys()
    return [last.get(arrival.key, arrival) for arrival in found if arrival.key not in gone]


def _covering(many: Sequence[Inbound]) -> Inbound:
    newest = many[-1]
    span = f"{many[0].at:%Y-%m-%d %H:%M} to {newest.at:%H:%M} UTC"
    note = (
        f"[{len(many)} messages from {span} came while nobody was listening and are older than"
        " catch_up.max_age; the newest one:]"
    )
    return (
        newest
        if len(many) == 1
        else replace(
            newest, text=f"{note}\n{newest.text}", aliases=tuple(one.key for one in many[:-1])
        )
    )
