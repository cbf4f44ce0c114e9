"""Discord's gateway events and rows of history as arrivals. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import TypedDict, cast

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

# Reference, "Snowflakes": milliseconds between 1970 and the first second of 2015
EPOCH = 1_420_070_400_000
QUOTED = 4000  # characters of a replied-to message that are handed on
# Message types: what people say. The others are Discord's own lines (joins, pins, boosts, a
# thread's first row, answers to commands).
_REPLY = 19
_SPOKEN = frozenset({0, _REPLY})
_IS_ID = re.compile(r"\d{1,20}", re.ASCII)
# Channel types: threads of announcements, public and private ones
_THREADS = frozenset({10, 11, 12})
# A moment no calendar has, a shape nobody foresaw.
_UNFORESEEN = (OverflowError, OSError, ValueError, TypeError, AttributeError, RecursionError)
# Reference, "Message formatting": <@id> <@!id> <@&id> <#id> <:name:id> <a:name:id> <t:unix:style>
# </name:id>
_MARKED = re.compile(r"<(@!?|@&|#|a?:|/|t:)([^<>\s][^<>]*)>")


@record
class Spot:
    """What is known of a channel. ``parent``: of a thread the channel it stands in, else ""."""

    guild: str
    name: str = ""
    parent: str = ""


@record
class Place:
    """What must be known to read an event: who we are, and what we remember of the guilds."""

    account: str  # our user id
    now: Callable[[], datetime]
    spots: Mapping[str, Spot] = field(default_factory=dict[str, Spot])
    roles: Mapping[str, str] = field(default_factory=dict[str, str])  # role id -> name
    ours: Collection[str] = ()  # roles that are ours: calling one calls us
    followed: Collection[str] = ()  # threads in which we spoke, or were called
    authors: Mapping[str, str] = field(default_factory=dict[str, str])  # message -> who said it


class _Common(TypedDict):
    key: str
    address: Address
    person: Person
    at: datetime
    order: str


def snowflake(at: datetime) -> int:
    """The least id of that moment."""
    return max(0, int(at.timestamp() * 1000) - EPOCH) << 22


def moment(number: str) -> datetime:
    milliseconds = (int(number) >> 22) + EPOCH
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def order(number: str | int) -> str:
    """Ids sort like time does; a fixed width makes words of them that sort the same."""
    return f"{int(number):020d}"


def id_of(value: object) -> str:
    """ "" for whatever is no id, and can be asked for nowhere."""
    return value if isinstance(value, str) and _IS_ID.fullmatch(value) is not None else ""


def chat_of(data: Body) -> str:
    """The channel an event belongs to; "" when it belongs to none."""
    return id_of(data.get("channel_id"))


def read(event: str, data: Body, place: Place, name: str) -> list[Arrival]:
    """The arrivals of one event. ``name``: of the event, where it has no id of its own (session and
    number). Raises Malformed."""
    try:
        match event:
            case "MESSAGE_CREATE":
                arrivals: list[Arrival | None] = [message(data, place)]
            case "MESSAGE_UPDATE":
                arrivals = [edited(data, place)]
            case "MESSAGE_DELETE":
                arrivals = [_deleted(data, _id(data, "id"), place)]
            case "MESSAGE_DELETE_BULK":
                arrivals = [_deleted(data, number, place) for number in _ids(data, "ids")]
            case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
                arrivals = [_reaction(data, event == "MESSAGE_REACTION_ADD", place, name)]
            case "INTERACTION_CREATE":
                arrivals = [_interaction(data, place)]
            case _:
                arrivals = []
        return [cleaned(arrival) for arrival in arrivals if arrival is not None]
    except _UNFORESEEN as error:
        raise Malformed(f"{type(error).__name__}: {error}") from None


def is_spoken(row: Body, place: Place) -> bool:
    """By a person or another bot: not by us, not one of Discord's own lines."""
    kind = row.get("type", 0)
    if not isinstance(kind, int) or kind not in _SPOKEN:
        return False
    author = body_of(row, "author", {}).get("id")
    return bool(author) and author != place.account


def calls_us(row: Body, place: Place) -> bool:
    """We, or a role of ours, are mentioned; or a message of ours is answered, with or without its
    bell."""
    if any(person.get("id") == place.account for person in bodies_of(row, "mentions")):
        return True
    if any(role in place.ours for role in _ids(row, "mention_roles")):
        return True
    if row.get("type") != _REPLY:
        return False
    author = body_of(body_of(row, "referenced_message", {}), "author", {})
    return author.get("id") == place.account


def message(row: Body, place: Place) -> Inbound | None:
    """An event or a row of history. None: nobody spoke. Raises Malformed."""
    if not is_spoken(row, place):
        return None
    number = _id(row, "id")
    channel = _id(row, "channel_id")
    in_thread = address_of(channel, place).topic is not None
    private = not row.get("guild_id") and channel not in place.spots
    is_followed = in_thread and channel in place.followed
    text = _text(row, place)
    files = bodies_of(row, "attachments")
    for snapshot in bodies_of(row, "message_snapshots"):
        files += bodies_of(body_of(snapshot, "message", {}), "attachments")
    attachments: list[Attachment] = []
    for file in files:
        # An address stops working after a day; what stands before it gives a new one.
        ref = f"{channel} {number} {text_of(file, 'id', '')} {text_of(file, 'url', '')}"
        name = clean(text_of(file, "filename", "")) or "file"
        media = text_of(file, "content_type", "") or "application/octet-stream"
        size = file.get("size")
        is_size = isinstance(size, int) and not isinstance(size, bool)
        attachments.append(Attachment(ref, name, media, size if is_size else None))
    if not text and not files:
        text = "[something that cannot be shown here]"
    quoted = ""
    reply = ""
    if row.get("type") == _REPLY:
        answered = body_of(row, "referenced_message", {})
        quoted = _text(answered, place)[:QUOTED]
        reference = body_of(row, "message_reference", {})
        reply = text_of(reference, "message_id", "")
    return Inbound(
        **_common(f"{channel}/{number}", channel, _author(row), number, place),
        message=MessageId(number),
        text=text,
        private=private,
        addressed=private or calls_us(row, place) or is_followed,
        attachments=tuple(attachments),
        reply_to=MessageId(reply) if reply else None,
        quoted=quoted or None,
    )


def edited(row: Body, place: Place) -> Edited | None:
    """The newest text of a message. None: nobody changed it (a preview was added to it, a thread
    began on it)."""
    when = row.get("edited_timestamp")
    if not isinstance(when, str) or not is_spoken(row, place):
        return None
    number = _id(row, "id")
    channel = _id(row, "channel_id")
    try:
        at = datetime.fromisoformat(when)
    except ValueError:
        raise Malformed(f"edited_timestamp is no moment: {when[:40]!r}") from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    key = f"{channel}/{number}/edited/{at.timestamp():.6f}"
    return Edited(
        **_common(key, channel, _author(row), at, place),
        message=MessageId(number),
        text=_text(row, place),
    )


def address_of(channel: str, place: Place) -> Address:
    """A thread, a forum's post among them, is a topic of the channel it stands in."""
    spot = place.spots.get(channel)
    if spot is not None and spot.parent:
        return Address("discord", place.account, ChatId(spot.parent), TopicId(channel))
    return Address("discord", place.account, ChatId(channel))


def spot_of(channel: Body, guild: str) -> Spot:
    """From a channel object. Raises Malformed."""
    parent = text_of(channel, "parent_id", "") if channel.get("type") in _THREADS else ""
    name = clean(text_of(channel, "name", ""))
    return Spot(text_of(channel, "guild_id", "") or guild, name, parent)


def readable(text: str, place: Place, people: Mapping[str, str]) -> str:
    """Discord's markup for things as a person reads it. A call of ours at the start is an address,
    not a word."""
    ours = [f"@!?{place.account}"]
    ours += [f"@&{role}" for role in place.ours]
    call = rf"^\s*<(?:{'|'.join(ours)})>[\s,:]*"
    text = re.sub(call, "", text)
    return clean(_MARKED.sub(lambda markup: _marked(markup, place, people), text))


def _marked(markup: re.Match[str], place: Place, people: Mapping[str, str]) -> str:
    kind, inside = markup.groups()
    match kind:
        case "@" | "@!":
            return f"@{people.get(inside, inside)}"
        case "@&":
            return f"@{place.roles.get(inside, inside)}"
        case "#":
            spot = place.spots.get(inside)
            return f"#{spot.name if spot is not None and spot.name else inside}"
        case "t:":
            seconds = inside.partition(":")[0]
            if not re.fullmatch(r"-?\d{1,11}", seconds):
                return markup.group()
            return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M UTC}"
        case "/":
            return f"/{inside.rpartition(':')[0] or inside}"
        case _:
            return f":{inside.rpartition(':')[0] or inside}:"


def _text(row: Body, place: Place) -> str:
    people: dict[str, str] = {}
    for person in bodies_of(row, "mentions"):
        people[text_of(person, "id", "")] = _name(person, person.get("member"))
    lines = [readable(text_of(row, "content", ""), place, people)]
    for snapshot in bodies_of(row, "message_snapshots"):
        forwarded = _text(body_of(snapshot, "message", {}), place)
        lines.append(f"[forwarded] {forwarded}".strip())
    for sticker in bodies_of(row, "sticker_items"):
        name = clean(text_of(sticker, "name", ""))
        lines.append(f"[sticker {name}]".replace(" ]", "]"))
    poll = body_of(row, "poll", {})
    if poll:
        question = body_of(poll, "question", {})
        texts = [clean(text_of(question, "text", ""))]
        for answer in bodies_of(poll, "answers"):
            media = body_of(answer, "poll_media", {})
            texts.append(clean(text_of(media, "text", "")))
        lines.append(f"[poll: {texts[0]} — {' / '.join(texts[1:])}]")
    return "\n".join(line for line in lines if line.strip())


def _deleted(data: Body, number: str, place: Place) -> Edited:
    """Discord says neither when nor who: the time is ours, the person the one we heard saying
    it."""
    channel = _id(data, "channel_id")
    author = place.authors.get(number, "")
    person = Person(PersonId(author), author)
    common = _common(f"{channel}/{number}/deleted", channel, person, place.now(), place)
    return Edited(**common, message=MessageId(number), text=None)


def _reaction(data: Body, added: bool, place: Place, name: str) -> Reacted | None:
    user = _id(data, "user_id")
    emoji = body_of(data, "emoji")
    if user == place.account:
        return None
    member = soft(data, "member")
    shown = _name(body_of(member, "user", {}), member) if member else ""
    channel = _id(data, "channel_id")
    target = _id(data, "message_id")
    person = Person(PersonId(user), shown or user)
    key = f"{channel}/{target}/reaction/{name}"
    return Reacted(
        **_common(key, channel, person, place.now(), place),
        message=MessageId(target),
        emoji=first_text(emoji, "name", "id"),
        added=added,
    )


def _interaction(data: Body, place: Place) -> Inbound | Answer | None:
    """Receiving and responding: 2 is an application command, 3 a pressed component."""
    kind = data.get("type")
    if kind not in (2, 3) or not data.get("channel_id"):
        return None
    number = _id(data, "id")
    channel = _id(data, "channel_id")
    content = body_of(data, "data")
    member = soft(data, "member")
    user = body_of(member or data, "user")
    person = _person(user, member)
    common = _common(f"interaction/{number}", channel, person, number, place)
    if kind == 2:
        words = _values(bodies_of(content, "options"))
        text = clean(" ".join([f"/{text_of(content, 'name')}", *words]))
        private = not data.get("guild_id")
        message = MessageId(number)
        return Inbound(**common, message=message, text=text, private=private, addressed=True)
    if content.get("component_type") != 2:
        return None
    target = _id(body_of(data, "message"), "id")
    application = text_of(data, "application_id", "")
    return Answer(
        **common,
        message=MessageId(target),
        choice=text_of(content, "custom_id"),
        token=f"{number} {application} {text_of(data, 'token')}",
    )


def _values(options: list[Body]) -> list[str]:
    """Options of a command, those of its subcommands after their names."""
    words: list[str] = []
    for option in options:
        value = option.get("value")
        if value is not None:
            words.append(str(value))
        else:
            words += [text_of(option, "name", ""), *_values(bodies_of(option, "options"))]
    return words


def _common(key: str, channel: str, person: Person, when: str | datetime, place: Place) -> _Common:
    """``when``: the id that tells it, or the moment."""
    number = str(snowflake(when)) if isinstance(when, datetime) else when
    return {
        "key": key,
        "address": address_of(channel, place),
        "person": person,
        "at": when if isinstance(when, datetime) else moment(when),
        "order": order(number),
    }


def _author(row: Body) -> Person:
    return _person(body_of(row, "author"), row.get("member"), bot=bool(row.get("webhook_id")))


def _person(user: Body, member: object, *, bot: bool = False) -> Person:
    is_bot = bot or bool(user.get("bot"))
    return Person(PersonId(_id(user, "id")), _name(user, member), is_bot)


def _name(user: Body, member: object) -> str:
    """As the chat shows it: the guild's nickname, the display name, the user name."""
    nick = text_of(cast("Body", member), "nick", "") if isinstance(member, dict) else ""
    shown = nick or first_text(user, "global_name", "username")
    return clean(shown).strip() or text_of(user, "id", "")


def _id(body: Body, name: str) -> str:
    value = text_of(body, name)
    if not id_of(value):
        raise Malformed(f"{name} is no id: {value[:40]!r}")
    return value


def _ids(body: Body, name: str) -> list[str]:
    value: object = body.get(name) or []
    if not isinstance(value, list):
        raise Malformed(f"{name} is {type(value).__name__}, not a list")
    items = cast("list[object]", value)
    return [item for item in items if isinstance(item, str) and item.isdigit()]
