"""Telegram's updates as arrivals. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

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
from channels.telegram.updates import Entity, Malformed, Message, Press, Reaction, User, read_update

QUOTED = 4000  # characters of a replied-to message that are handed on


@record
class Me:
    """The bot itself: its number, and its name without @."""

    id: int
    name: str


def arrivals(raw: object, me: Me, now: datetime) -> tuple[Arrival, ...]:
    """What one update (a decoded JSON object) says; nothing for kinds that need no answer. Raises
    Malformed."""
    update = read_update(raw)
    try:
        result: list[Arrival] = []
        if update.message is not None:
            message = _message(update.message, me)
            if message is not None:
                result.append(message)
        edit = update.edited_message
        newest = _message(edit, me) if edit is not None else None
        if edit is not None and newest is not None:
            date = edit.edit_date or edit.date
            digest = 0  # two edits within one second are two
            for character in newest.text:
                digest = (digest * 31 + ord(character)) & 0xFFFFFFFF
            result.append(
                Edited(
                    key=f"{newest.key}/edit/{date}/{digest:08x}",
                    address=newest.address,
                    person=newest.person,
                    at=_time(date),
                    order=_order(date, edit.message_id),
                    message=newest.message,
                    text=newest.text,
                )
            )
        if update.callback_query is not None:
            result += _press(update.callback_query, me, now)
        if update.message_reaction is not None:
            result += _reaction(update.message_reaction, me)
        return tuple(cleaned(arrival) for arrival in result)
    except (ValueError, OverflowError, OSError) as error:  # a date no calendar has
        raise Malformed(str(error)) from None


def _message(message: Message, me: Me) -> Inbound | None:
    sender = message.sender
    if sender is None or sender.id == me.id or message.is_automatic_forward or message.date == 0:
        return None
    # Message, "sender_chat": a chat speaks, behind a bot's name for old clients
    if sender.is_bot and message.sender_chat is not None:
        return None
    attachments = _attachments(message)
    text = _text(message, me)
    if not text and not attachments:  # somebody joined, a title changed, a message was pinned
        return None
    private = message.chat.type == "private"
    words, entities = _words(message)
    for entity in entities:
        # ``/stop@other_bot`` is an order to that bot, also as a reply to us and where no mention is
        # required (Bots, "Commands").
        if not private and entity.type == "bot_command" and entity.offset == 0:
            name = _part(words, entity).lower().partition("@")[2]
            if name not in ("", me.name.lower()):
                return None
            break
    reply = _reply(message)
    quoted = ""
    if message.quote is not None:
        quoted = message.quote.text
    elif reply is not None:
        quoted = reply.text or reply.caption or _other(reply)
        attachments = attachments or _attachments(reply)  # "what is this?" said to a picture
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
        attachments=attachments,
        reply_to=MessageId(str(reply.message_id)) if reply is not None else None,
        quoted=clean(quoted)[:QUOTED] or None,
        album=message.media_group_id,
    )


def _press(press: Press, me: Me, now: datetime) -> Iterator[Answer]:
    # a button of an inline message, or a game
    if press.message is None or press.data is None or press.sender.is_bot:
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
    old = {kind.emoji or kind.custom_emoji_id or kind.type for kind in reaction.old_reaction}
    new = {kind.emoji or kind.custom_emoji_id or kind.type for kind in reaction.new_reaction}
    for emoji in sorted(old ^ new):
        added = emoji in new
        sign = "-"
        if added:
            sign = "+"
        message = f"{reaction.chat.id}/{reaction.message_id}"
        yield Reacted(
            key=f"{message}/reaction/{reaction.user.id}/{reaction.date}/{emoji}/{sign}",
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
        channel="telegram",
        account=str(me.id),
        chat=ChatId(str(message.chat.id)),
        topic=TopicId(str(topic)) if topic is not None else None,
    )


def _person(user: User) -> Person:
    name = clean(f"{user.first_name} {user.last_name}").strip() or user.username or str(user.id)
    return Person(PersonId(str(user.id)), name, user.is_bot)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _order(seconds: int, message: int) -> str:
    return f"{seconds:012d}.{message:012d}"


# Who is meant


def _is_meant(message: Message, me: Me) -> bool:
    """A mention, a command (with this bot's name or none) or a reply to the bot (Bot API, "Privacy
    mode")."""
    reply = _reply(message)
    if reply is not None and reply.sender is not None and reply.sender.id == me.id:
        return True
    handle = f"@{me.name.lower()}"
    words, entities = _words(message)
    for entity in entities:
        word = _part(words, entity).lower()
        match entity.type:
            case "mention":
                meant = word == handle
            case "text_mention":
                meant = entity.user is not None and entity.user.id == me.id
            case "bot_command":
                meant = word.endswith(handle) or "@" not in word
            case _:
                meant = False
        if meant:
            return True
    return False


def _words(message: Message) -> tuple[bytes, Sequence[Entity]]:
    """The text as UTF-16, in whose units entities count."""
    if message.text:
        return message.text.encode("utf-16-le", "surrogatepass"), message.entities
    return message.caption.encode("utf-16-le", "surrogatepass"), message.caption_entities


def _part(words: bytes, entity: Entity) -> str:
    start = 2 * entity.offset
    return words[start : start + 2 * entity.length].decode("utf-16-le", "replace")


# What is said


def _text(message: Message, me: Me) -> str:
    """The words of a message. Links behind words (text_link) carry their address after the words,
    else nobody could read it."""
    words, entities = _words(message)
    pieces: list[bytes] = []
    last = 0
    links = [entity for entity in entities if entity.type == "text_link"]
    for entity in sorted(links, key=lambda entity: entity.offset):
        end = 2 * (entity.offset + entity.length)
        if end >= last and entity.url != _part(words, entity):
            address = f" ({entity.url})".encode("utf-16-le", "surrogatepass")
            pieces += [words[last:end], address]
            last = end
    pieces.append(words[last:])
    text = clean(b"".join(pieces).decode("utf-16-le", "surrogatepass"))
    if message.chat.type != "private" and me.name:  # being spoken to is said by ``addressed``
        call = rf"^@{re.escape(me.name)}\b[\s,:]*"
        text = re.sub(call, "", text, flags=re.IGNORECASE) or text
    forwarded = ""
    origin = message.forward_origin
    if origin is not None:
        chat = origin.chat or origin.sender_chat
        if origin.sender_user is not None:
            name = _person(origin.sender_user).name
        else:
            name = (chat.title if chat is not None else "") or origin.sender_user_name
        forwarded = f"[forwarded from {clean(name or 'somebody')}]"
    return "\n".join(filter(None, (forwarded, clean(_other(message)), text)))


def _other(message: Message) -> str:
    """What is neither text nor a file, in words."""
    if message.sticker is not None:
        return f"[sticker {message.sticker.emoji}]".replace(" ]", "]")
    if message.venue is not None:
        return f"[place: {message.venue.title}, {message.venue.address}]"
    if message.location is not None:
        location = message.location
        return f"[location: {location.latitude}, {location.longitude}]"
    if message.contact is not None:
        contact = message.contact
        name = f"{contact.first_name} {contact.last_name}".strip()
        return f"[contact: {name}, {contact.phone_number}]"
    if message.poll is not None:
        options = " / ".join(option.text for option in message.poll.options)
        return f"[poll: {message.poll.question} — {options}]"
    if message.checklist is not None:
        tasks = " / ".join(task.text for task in message.checklist.tasks)
        return f"[checklist: {message.checklist.title} — {tasks}]"
    if message.story is not None:
        return f"[a story of {message.story.chat.title or 'somebody'}, which bots cannot see]"
    if message.dice is not None:
        return f"[{message.dice.emoji} {message.dice.value}]"
    return ""


def _attachments(message: Message) -> tuple[Attachment, ...]:
    attachments: list[Attachment] = []
    if message.photo:
        largest = max(message.photo, key=lambda size: size.file_size or 0)
        largest = largest if largest.file_size else message.photo[-1]
        name = f"photo-{largest.file_unique_id}.jpg"
        attachments.append(
            Attachment(
                ref=largest.file_id, name=name, media_type="image/jpeg", size=largest.file_size
            )
        )
    document = message.document if message.animation is None else None  # each animation is both
    for file, kind, suffix, media_type in (
        (message.animation, "animation", ".mp4", "video/mp4"),
        (document, "document", "", "application/octet-stream"),
        (message.voice, "voice", ".ogg", "audio/ogg"),
        (message.audio, "audio", ".mp3", "audio/mpeg"),
        (message.video, "video", ".mp4", "video/mp4"),
        (message.video_note, "video", ".mp4", "video/mp4"),
    ):
        if file is not None:
            name = clean(file.file_name) or f"{kind}-{file.file_unique_id}{suffix}"
            attachments.append(
                Attachment(
                    ref=file.file_id,
                    name=name,
                    media_type=file.mime_type or media_type,
                    size=file.file_size,
                )
            )
    return tuple(attachments)


def _reply(message: Message) -> Message | None:
    """Every message of a topic answers the topic's first one; that is no reply."""
    reply = message.reply_to_message
    if reply is None or not message.is_topic_message:
        return reply
    if reply.message_id == message.message_thread_id:
        return None
    return reply


# What is too old


def fenced(arrivals: Sequence[Arrival], oldest: datetime) -> list[Arrival]:
    """Messages said before ``oldest`` become one per place: the newest stays and says how many came
    before it.

    Telegram's queue hands over everything of the last day, and what was handed over is never
    dropped silently: one answer covers them, and their names count as seen."""
    old: dict[Address, list[Inbound]] = {}
    for arrival in arrivals:
        if isinstance(arrival, Inbound) and arrival.at < oldest:
            old.setdefault(arrival.address, []).append(arrival)
    left_out: set[str] = set()
    covering: dict[str, Inbound] = {}
    for messages in old.values():
        newest = messages[-1]
        left_out.update(message.key for message in messages)
        if len(messages) > 1:
            span = f"{messages[0].at:%Y-%m-%d %H:%M} to {newest.at:%H:%M} UTC"
            text = (
                f"[{len(messages)} messages from {span} came while nobody was listening and are"
                f" older than catch_up.max_age; the newest one:]\n{newest.text}"
            )
            aliases = tuple(message.key for message in messages[:-1])
            covering[newest.key] = replace(newest, text=text, aliases=aliases)
        else:
            covering[newest.key] = newest
    left_out -= covering.keys()
    return [
        covering.get(arrival.key, arrival) for arrival in arrivals if arrival.key not in left_out
    ]
