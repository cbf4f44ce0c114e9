"""Matrix events into arrivals. Pure: what has to be asked of the homeserver comes in as ``Room``
and ``Original``.

Source: Matrix Client-Server API, "Instant Messaging", "Event replacements", "Rich replies",
"Threading", "User and room mentions"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import unquote

from channels.contract import (
    Address,
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
from channels.payloads import Body, clean, cleaned
from channels.record import record

Object = Mapping[str, Any]  # as it came in JSON
Event = Object

FILES = {"m.file", "m.image", "m.audio", "m.video"}
SPOKEN = {"m.room.message", "m.reaction", "m.room.redaction"}
# m.notice is what bots say to people; bots do not answer it
SAID = {"m.text", "m.emote", "m.location", *FILES}
# MSC3955, "Automated event mixin", under its unstable name: a program said it. Not m.notice:
# clients ring for none of those (Push Rules, .m.rule.suppress_notices), and a person who is asked,
# or waits for a report, wants to hear of it.
AUTOMATED = "org.matrix.msc1767.automated"
_PILL = re.compile(r"https://matrix\.to/#/([^\"'?\s<>]+)")
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000


@dataclass(slots=True)
class Room:
    """What is known about a room. ``members``: display names of those who joined, by user id."""

    id: str
    members: dict[str, str] = field(default_factory=dict[str, str])
    direct: bool = False  # marked in our m.direct
    # the content of m.room.encryption; None: not known to be encrypted
    encryption: Body | None = None

    @property
    def private(self) -> bool:
        return self.direct or len(self.members) <= 2

    def learn(self, event: Event) -> None:
        """A state event of this room."""
        content = object_of(event, "content")
        user = event.get("state_key")
        if event.get("type") != "m.room.member" or not isinstance(user, str):
            return
        if content.get("membership") == "join":
            self.members[user] = text_of(content, "displayname") or localpart(user)
        else:
            self.members.pop(user, None)


@record
class Original:
    """The event that another one is about. ``reacts_to``: it is a reaction to that message, and
    ``text`` its emoji."""

    sender: str
    text: str
    topic: str | None
    reacts_to: str | None = None


@record
class Unreadable:
    """Why an encrypted event cannot be read. ``session``: its key is missing, and may come;
    ``stranger``: the sender's devices have to be asked for first."""

    why: str
    session: str = ""
    stranger: bool = False


@record
class View:
    """Who looks, and at what."""

    me: str
    room: Room
    order: str

    def address(self, topic: str | None) -> Address:
        thread = None if topic is None else TopicId(topic)
        return Address("matrix", self.me, ChatId(self.room.id), thread)

    def person(self, user: str, *, bot: bool = False) -> Person:
        return Person(PersonId(user), clean(self.room.members.get(user) or localpart(user)), bot)


def mapping(value: object) -> Object:
    """Empty when it is no JSON object: a malformed event is no reason to fall over."""
    return cast("Object", value) if isinstance(value, dict) else {}


def object_of(values: Object, key: str) -> Object:
    """Empty when there is none."""
    return mapping(values.get(key))


def text_of(values: Object, key: str) -> str:
    value: object = values.get(key)
    return value if isinstance(value, str) else ""


def list_of(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def events_of(part: object) -> list[Event]:
    """``events`` of a part of a sync."""
    return [mapping(event) for event in list_of(mapping(part).get("events"))]


def localpart(user: str) -> str:
    return user.removeprefix("@").partition(":")[0]


def about(event: Event) -> str | None:
    """The event to know before this one can be read: what it edits, answers or reacts to."""
    content = object_of(event, "content")
    relation = object_of(content, "m.relates_to")
    if text_of(relation, "rel_type") in {"m.replace", "m.annotation"}:
        return text_of(relation, "event_id") or None
    return _replied(content) if event.get("type") == "m.room.message" else None


def original(event: Event) -> Original:
    """A message, as the one another is about."""
    content = object_of(event, "content")
    relation = object_of(content, "m.relates_to")
    if event.get("type") == "m.reaction":
        target = text_of(relation, "event_id")
        return Original(
            sender=text_of(event, "sender"),
            text=text_of(relation, "key"),
            topic=None,
            reacts_to=target,
        )
    bundled = object_of(object_of(event, "unsigned"), "m.relations")
    edit = object_of(object_of(bundled, "m.replace"), "content")
    newest = object_of(edit, "m.new_content") or content
    text, _ = _without_fallback(text_of(newest, "body"), content)
    return Original(text_of(event, "sender"), text, _topic(content))


def flaw(event: Event) -> str:
    """The key that keeps an event from being read; "" when nothing does, or when its type is none
    of ours."""
    kind = event.get("type")
    content = event.get("content")
    if not isinstance(kind, str):
        return "type"
    if kind not in SPOKEN:
        return ""
    missing = next((key for key in ("event_id", "sender") if not text_of(event, key)), "")
    if missing or not isinstance(content, dict):
        return missing or "content"
    fields = mapping(cast("object", content))
    # A redacted one has no content at all.
    wordless = kind == "m.room.message" and fields and not isinstance(fields.get("body"), str)
    return "content.body" if wordless else ""


def arrival_of(event: Event, view: View, related: Original | None) -> Arrival | None:
    """``related``: what ``about`` names, None when it cannot be had. Result None: nothing that
    concerns us."""
    sender = text_of(event, "sender")
    if not sender or sender == view.me or not text_of(event, "event_id") or "state_key" in event:
        return None
    content = object_of(event, "content")
    relation = object_of(content, "m.relates_to")
    result: Arrival | None = None
    match event.get("type"):
        case "m.room.message" if relation.get("rel_type") == "m.replace":
            result = _edited(event, content, view, related)
        case "m.room.message":
            result = _inbound(event, content, view, related)
        case "m.reaction":
            target = text_of(relation, "event_id")
            emoji = text_of(relation, "key")
            topic = related.topic if related is not None else None
            if target and emoji:
                result = _reaction(event, view, target, emoji, topic=topic, added=True)
        case "m.room.redaction":
            result = _deleted(event, view, related)
        case _:
            pass
    return cleaned(result) if result is not None else None


def redacts(event: Event) -> str:
    """The event a redaction takes away; room versions before 11 keep it outside of the content."""
    return text_of(object_of(event, "content"), "redacts") or text_of(event, "redacts")


def starts_here(event: Event, me: str) -> bool:
    """Whether our part in the room begins with this event: we were invited, or joined without an
    invitation."""
    if event.get("type") != "m.room.member" or event.get("state_key") != me:
        return False
    before = text_of(object_of(object_of(event, "unsigned"), "prev_content"), "membership")
    membership = text_of(object_of(event, "content"), "membership")
    return membership == "invite" or (membership == "join" and before not in {"join", "invite"})


def _inbound(event: Event, content: Object, view: View, related: Original | None) -> Inbound | None:
    kind = text_of(content, "msgtype")
    if kind not in SAID or not isinstance(content.get("body"), str):
        return None
    body, fallback = _without_fallback(text_of(content, "body"), content)
    attachments = _attachments(content, kind)
    if kind in FILES:  # the body is a caption only beside a file name of its own
        body = body if text_of(content, "filename") not in {"", body} else ""
    if kind == "m.emote":
        body = f"/me {body}"
    if not body.strip() and not attachments:
        return None
    reply = _replied(content)
    quoted = related.text if related is not None else fallback
    to_us = related is not None and related.sender == view.me
    mentioned = _mentions_us(content, body, view)
    topic = _topic(content)
    automated = content.get(AUTOMATED) is True or content.get("m.automated") is True
    person = view.person(text_of(event, "sender"), bot=automated)
    message = MessageId(text_of(event, "event_id"))
    return Inbound(
        key=message,
        address=view.address(topic),
        person=person,
        at=_at(event),
        order=view.order,
        message=message,
        text=clean(_without_our_name(body, view) if mentioned else body),
        private=view.room.private,
        addressed=view.room.private or mentioned or to_us,
        attachments=attachments,
        reply_to=MessageId(reply) if reply is not None else None,
        quoted=clean(quoted) if reply is not None and quoted else None,
    )


def _edited(event: Event, content: Object, view: View, related: Original | None) -> Edited | None:
    """Servers pass on edits by anybody; only the author's own count."""
    new = object_of(content, "m.new_content")
    target = about(event)
    if target is None or related is None or related.sender != text_of(event, "sender"):
        return None
    if not isinstance(new.get("body"), str):
        return None
    body = text_of(new, "body")
    text = clean(_without_our_name(body, view) if _mentions_us(new, body, view) else body)
    return Edited(
        key=text_of(event, "event_id"),
        address=view.address(related.topic),
        person=view.person(text_of(event, "sender")),
        at=_at(event),
        order=view.order,
        message=MessageId(target),
        text=text,
    )


def _deleted(event: Event, view: View, related: Original | None) -> Edited | Reacted | None:
    target = redacts(event)
    if not target:
        return None
    if related is not None and related.reacts_to:
        return _reaction(event, view, related.reacts_to, related.text, topic=None, added=False)
    return Edited(
        key=text_of(event, "event_id"),
        address=view.address(related.topic if related is not None else None),
        person=view.person(text_of(event, "sender")),
        at=_at(event),
        order=view.order,
        message=MessageId(target),
        text=None,
    )


def _reaction(
    event: Event, view: View, target: str, emoji: str, *, topic: str | None, added: bool
) -> Reacted:
    return Reacted(
        key=text_of(event, "event_id"),
        address=view.address(topic),
        person=view.person(text_of(event, "sender")),
        at=_at(event),
        order=view.order,
        message=MessageId(target),
        emoji=clean(emoji)[:64],
        added=added,
    )


def _attachments(content: Object, kind: str) -> tuple[Attachment, ...]:
    """Files of encrypted rooms carry ``file`` with its own key instead of ``url``."""
    reference = text_of(content, "url")
    file = object_of(content, "file")
    parts = {
        "url": text_of(file, "url"),
        "k": text_of(object_of(file, "key"), "k"),
        "iv": text_of(file, "iv"),
        "sha256": text_of(object_of(file, "hashes"), "sha256"),
    }
    if all(parts.values()) and parts["url"].startswith("mxc://"):
        reference = json.dumps(parts)
    if kind not in FILES or not reference.startswith(("mxc://", "{")):
        return ()
    info = object_of(content, "info")
    size = info.get("size")
    name = clean(text_of(content, "filename") or text_of(content, "body")) or "file"
    media_type = text_of(info, "mimetype") or "application/octet-stream"
    size = size if isinstance(size, int) and size >= 0 else None
    return (Attachment(ref=reference, name=name, media_type=media_type, size=size),)


def _mentions_us(content: Object, body: str, view: View) -> bool:
    """Intentional mentions first; pills, the full id, @name and the display name for clients
    without them."""
    users: object = object_of(content, "m.mentions").get("user_ids")
    if isinstance(users, list) and view.me in users:
        return True
    if any(unquote(pill) == view.me for pill in _PILL.findall(text_of(content, "formatted_body"))):
        return True
    return re.search(_our_name(view), body, re.IGNORECASE) is not None


def _our_name(view: View) -> str:
    """A pattern: the full id, @name or the display name as a whole word; @name of another
    homeserver is somebody else."""
    names = {view.me, f"@{localpart(view.me)}", view.room.members.get(view.me, "")}
    longest_first = sorted(names, key=len, reverse=True)
    words = "|".join(re.escape(name) for name in longest_first if len(name) > 2)
    return rf"(?<!\w)@?(?:{words})(?!\w|:[\w-]+\.\w)"


def _without_our_name(body: str, view: View) -> str:
    """``ohmo: /status`` means ``/status``; a name anywhere else stays."""
    match = re.match(rf"\s*{_our_name(view)}\s*[:,]?\s*", body, re.IGNORECASE)
    rest = body[match.end() :] if match is not None else ""
    return rest if rest.strip() else body


def _replied(content: Object) -> str | None:
    """The event this one answers. In a thread it is often only there for clients without
    threads."""
    relation = object_of(content, "m.relates_to")
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back") is True:
        return None
    return text_of(object_of(relation, "m.in_reply_to"), "event_id") or None


def _without_fallback(body: str, content: Object) -> tuple[str, str | None]:
    """The words themselves, and what the fallback of older clients quotes ("> <@user:server>
    words")."""
    relation = object_of(content, "m.relates_to")
    if not body.startswith("> ") or not object_of(relation, "m.in_reply_to"):
        return body, None
    lines = body.split("\n")
    quoted: list[str] = []
    while lines and lines[0].startswith(">"):
        quoted.append(lines.pop(0).removeprefix(">").removeprefix(" "))
    without_name = re.sub(r"^(\* )?<[^>]*> ?", "", "\n".join(quoted))
    return "\n".join(lines).removeprefix("\n"), without_name


def _topic(content: Object) -> str | None:
    relation = object_of(content, "m.relates_to")
    return (
        (text_of(relation, "event_id") or None) if relation.get("rel_type") == "m.thread" else None
    )


def _at(event: Event) -> datetime:
    milliseconds: object = event.get("origin_server_ts")
    if not isinstance(milliseconds, int | float) or not 0 <= milliseconds < _LATEST:
        milliseconds = 0
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
