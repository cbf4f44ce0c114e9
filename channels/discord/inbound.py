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
from channels.payloads import Body, Malformed, bodies_of, body_of, clean, cleaned, text_of
from channels.record import record

# Reference, "Snowflakes": milliseconds between 1970 and the first second of 2015
EPOCH = 1_420_070_400_000
QUOTED = 4000  # characters of a replied-to message that are handed on
# Message types: what people say. The others are Discord's own lines (joins, pins, boosts, a
# thread's first row, answers to commands).
_SPOKEN = frozenset({0, 19})
_IS_ID = re.compile(r"\d{1,20}", re.ASCII)
_THREADS = frozenset(
    {10, 11, 12}
)  # Channel types: threads of announcements, public and private ones
# Reference, "Message formatting": <@id> <@!id> <@&id> <#id> <:name:id> <a:name:id> <t:unix:style>
# </name:id>
_MARKED = re.compile(r"<(@!?|@&|#|a?:|/|t:)([^<>\s][^<>]*)>")


@record
class Spot:
    """What is known of a channel. ``parent``: of a thread the channel it stands in, else ""."""

    guild: str
    name: str = ""
    parent: str = ""


def _nobody(message: str) -> str:  # noqa: ARG001 - the default of Place.author_of
    return ""


def _never(thread: str) -> bool:  # noqa: ARG001 - the default of Place.follows
    return False


@record
class Place:
    """What must be known to read an event: who we are, and what we remember of the guilds."""

    account: str  # our user id
    now: Callable[[], datetime]
    spots: Mapping[str, Spot] = field(default_factory=dict[str, Spot])
    roles: Mapping[str, str] = field(default_factory=dict[str, str])  # role id -> name
    ours: Collection[str] = ()  # roles that are ours: calling one calls us
    follows: Callable[[str], bool] = _never  # thread: did we speak, or were we called, in it
    author_of: Callable[[str], str] = _nobody  # message -> who said it, "" when nobody remembers


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
    return datetime.fromtimestamp(((int(number) >> 22) + EPOCH) / 1000, UTC)


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
                said = message(data, place)
                found: list[Arrival] = [] if said is None else [said]
            case "MESSAGE_UPDATE":
                changed = edited(data, place)
                found = [] if changed is None else [changed]
            case "MESSAGE_DELETE":
                found = [_deleted(data, _id(data, "id"), place)]
            case "MESSAGE_DELETE_BULK":
                found = [_deleted(data, number, place) for number in _ids(data, "ids")]
            case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
                found = _reaction(data, event == "MESSAGE_REACTION_ADD", place, name)
            case "INTERACTION_CREATE":
                found = _interaction(data, place)
            case _:
                found = []
        return [cleaned(said) for said in found]
    except (
        OverflowError,
        OSError,
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:  # a moment no calendar has, a shape nobody foresaw
        raise Malformed(f"{type(error).__name__}: {error}") from None


def is_ours(row: Body, place: Place) -> bool:
    return body_of(row, "author", {}).get("id") == place.account


def is_spoken(row: Body, place: Place) -> bool:
    """By a person or another bot: not by us, not one of Discord's own lines."""
    kind = row.get("type", 0)
    return (
        isinstance(kind, int)
        and kind in _SPOKEN
        and not is_ours(row, place)
        and bool(body_of(row, "author", {}).get("id"))
    )


def calls_us(row: Body, place: Place) -> bool:
    """We, or a role of ours, are mentioned; or a message of ours is answered, with or without its
    bell."""
    if any(person.get("id") == place.account for person in bodies_of(row, "mentions")):
        return True
    if any(role in place.ours for role in _ids(row, "mention_roles")):
        return True
    return row.get("type") == 19 and is_ours(body_of(row, "referenced_message", {}), place)


def message(row: Body, place: Place) -> Inbound | None:
    """An event or a row of history. None: nobody spoke. Raises Malformed."""
    if not is_spoken(row, place):
        return None
    number, channel, author = _id(row, "id"), _id(row, "channel_id"), body_of(row, "author")
    address = address_of(channel, place)
    private = not row.get("guild_id") and channel not in place.spots
    text, files = _text(row, place), _attachments(row, channel)
    if not text and not files:
        text = "[something that cannot be shown here]"
    answered = body_of(row, "referenced_message", {}) if row.get("type") == 19 else {}
    reply = (
        text_of(body_of(row, "message_reference", {}), "message_id", "")
        if row.get("type") == 19
        else ""
    )
    return Inbound(
        key=f"{channel}/{number}",
        address=address,
        person=_person(author, row.get("member"), bot=bool(row.get("webhook_id"))),
        at=moment(number),
        order=order(number),
        message=MessageId(number),
        text=text,
        private=private,
        addressed=private
        or calls_us(row, place)
        or (address.topic is not None and place.follows(channel)),
        attachments=files,
        reply_to=MessageId(reply) if reply else None,
        quoted=(_text(answered, place)[:QUOTED] or None) if answered else None,
    )


def edited(row: Body, place: Place) -> Edited | None:
    """The newest text of a message. None: nobody changed it (a preview was added to it, a thread
    began on it)."""
    when = row.get("edited_timestamp")
    if not isinstance(when, str) or not is_spoken(row, place):
        return None
    number, channel = _id(row, "id"), _id(row, "channel_id")
    at = _time(when)
    return Edited(
        key=f"{channel}/{number}/edited/{at.timestamp():.6f}",
        address=address_of(channel, place),
        person=_person(body_of(row, "author"), row.get("member"), bot=bool(row.get("webhook_id"))),
        at=at,
        order=order(snowflake(at)),
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
    return Spot(
        text_of(channel, "guild_id", "") or guild, clean(text_of(channel, "name", "")), parent
    )


def readable(text: str, place: Place, people: Mapping[str, str]) -> str:
    """Discord's markup for things as a person reads it. A call of ours at the start is an address,
    not a word."""
    ours = "|".join([f"@!?{place.account}", *(f"@&{role}" for role in place.ours)])
    text = re.sub(rf"^\s*<(?:{ours})>[\s,:]*", "", text)
    return clean(_MARKED.sub(lambda found: _marked(found, place, people), text))


def _marked(found: re.Match[str], place: Place, people: Mapping[str, str]) -> str:
    kind, inside = found.groups()
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
            return (
                f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%d %H:%M UTC}"
                if re.fullmatch(r"-?\d{1,11}", seconds)
                else found.group()
            )
        case "/":
            return f"/{inside.rpartition(':')[0] or inside}"
        case _:
            return f":{inside.rpartition(':')[0] or inside}:"


def _text(row: Body, place: Place) -> str:
    people = {
        text_of(person, "id", ""): _name(person, person.get("member"))
        for person in bodies_of(row, "mentions")
    }
    lines = [readable(text_of(row, "content", ""), place, people)]
    for snapshot in bodies_of(row, "message_snapshots"):
        forwarded = _text(body_of(snapshot, "message", {}), place)
        lines.append(f"[forwarded] {forwarded}".strip())
    lines += [
        f"[sticker {clean(text_of(sticker, 'name', ''))}]".replace(" ]", "]")
        for sticker in bodies_of(row, "sticker_items")
    ]
    poll = body_of(row, "poll", {})
    if poll:
        options = [
            clean(text_of(body_of(answer, "poll_media", {}), "text", ""))
            for answer in bodies_of(poll, "answers")
        ]
        lines.append(
            f"[poll: {clean(text_of(body_of(poll, 'question', {}), 'text', ''))} —"
            f" {' / '.join(options)}]"
        )
    return "\n".join(line for line in lines if line.strip())


def _attachments(row: Body, channel: str) -> tuple[Attachment, ...]:
    """``ref``: channel, message, attachment and address. The address stops working after a day; the
    first three give a new one."""
    number, found = text_of(row, "id", ""), list[Attachment]()
    files = bodies_of(row, "attachments")
    for snapshot in bodies_of(row, "message_snapshots"):
        files += bodies_of(body_of(snapshot, "message", {}), "attachments")
    for file in files:
        size = file.get("size")
        name = clean(text_of(file, "filename", "")) or "file"
        media = text_of(file, "content_type", "") or "application/octet-stream"
        ref = f"{channel} {number} {text_of(file, 'id', '')} {text_of(file, 'url', '')}"
        found.append(
            Attachment(
                ref,
                name,
                media,
                size if isinstance(size, int) and not isinstance(size, bool) else None,
            )
        )
    return tuple(found)


def _deleted(data: Body, number: str, place: Place) -> Edited:
    """Discord says neither when nor who: the time is ours, the person the one we heard saying
    it."""
    channel, author = _id(data, "channel_id"), place.author_of(number)
    return Edited(
        key=f"{channel}/{number}/deleted",
        address=address_of(channel, place),
        person=Person(PersonId(author), author),
        at=place.now(),
        order=order(snowflake(place.now())),
        message=MessageId(number),
        text=None,
    )


def _reaction(data: Body, added: bool, place: Place, name: str) -> list[Arrival]:
    user, emoji = _id(data, "user_id"), body_of(data, "emoji")
    if user == place.account:
        return []
    member = data.get("member")
    shown = (
        _name(body_of(body_of(data, "member"), "user", {}), cast("object", member))
        if isinstance(member, dict)
        else ""
    )
    channel, target = _id(data, "channel_id"), _id(data, "message_id")
    return [
        Reacted(
            key=f"{channel}/{target}/reaction/{name}",
            address=address_of(channel, place),
            person=Person(PersonId(user), shown or user),
            at=place.now(),
            order=order(snowflake(place.now())),
            message=MessageId(target),
            emoji=text_of(emoji, "name", "") or text_of(emoji, "id", ""),
            added=added,
        )
    ]


def _interaction(data: Body, place: Place) -> list[Arrival]:
    """Receiving and responding: 2 is an application command, 3 a pressed component."""
    kind = data.get("type")
    if kind not in (2, 3) or not data.get("channel_id"):
        return []
    number, channel, what = _id(data, "id"), _id(data, "channel_id"), body_of(data, "data")
    member = data.get("member")
    user = body_of(body_of(data, "member") if isinstance(member, dict) else data, "user")
    private = not data.get("guild_id")
    common: _Common = {
        "key": f"interaction/{number}",
        "address": address_of(channel, place),
        "person": _person(user, data.get("member")),
        "at": moment(number),
        "order": order(number),
    }
    if kind == 2:
        words = " ".join([f"/{text_of(what, 'name')}", *_values(bodies_of(what, "options"))])
        return [
            Inbound(
                **common,
                message=MessageId(number),
                text=clean(words),
                private=private,
                addressed=True,
            )
        ]
    if what.get("component_type") != 2:
        return []
    target, token = (
        _id(body_of(data, "message"), "id"),
        f"{number} {text_of(data, 'application_id', '')} {text_of(data, 'token')}",
    )
    return [
        Answer(**common, message=MessageId(target), choice=text_of(what, "custom_id"), token=token)
    ]


def _values(options: list[Body]) -> list[str]:
    """Options of a command, those of its subcommands after their names."""
    found: list[str] = []
    for option in options:
        value = option.get("value")
        found += (
            [str(value)]
            if value is not None
            else [text_of(option, "name", ""), *_values(bodies_of(option, "options"))]
        )
    return found


def _person(user: Body, member: object, *, bot: bool = False) -> Person:
    return Person(PersonId(_id(user, "id")), _name(user, member), bot or bool(user.get("bot")))


def _name(user: Body, member: object) -> str:
    """As the chat shows it: the guild's nickname, the display name, the user name."""
    nick = text_of(cast("Body", member), "nick", "") if isinstance(member, dict) else ""
    return clean(
        nick or text_of(user, "global_name", "") or text_of(user, "username", "")
    ).strip() or text_of(user, "id", "")


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"edited_timestamp is no moment: {text[:40]!r}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _id(body: Body, name: str) -> str:
    value = text_of(body, name)
    if not id_of(value):
        raise Malformed(f"{name} is no id: {value[:40]!r}")
    return value


def _ids(body: Body, name: str) -> list[str]:
    value: object = body.get(name) or []
    if not isinstance(value, list):
        raise Malformed(f"{name} is {type(value).__name__}, not a list")
    return [
        item for item in cast("list[object]", value) if isinstance(item, str) and item.isdigit()
    ]
