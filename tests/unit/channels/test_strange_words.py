"""What strangers type: nothing that deceives or breaks gets through any platform, in or out, and
legal text stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.contract import Address, Arrival, ChatId, Choice, Outbound, Part
from channels.discord import inbound as discord_inbound
from channels.discord import render as discord_render
from channels.feishu import inbound as feishu_inbound
from channels.feishu import render as feishu_render
from channels.matrix import inbound as matrix_inbound
from channels.matrix import render as matrix_render
from channels.slack import inbound as slack_inbound
from channels.slack import render as slack_render
from channels.telegram import inbound as telegram_inbound
from channels.telegram import render as telegram_render

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BAD = re.compile("[\x00\ud800-\udfff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# Everything that must go, what needs care at its edges, and ordinary letters.
STRANGE = "\x00\ud83d\udc00\u202e\u2066\U000e0041\u200d\u200c\u200bé\u0301שаم𝔄👩💻🏽🇩🇪a \n/@<>&*_`|"
words = st.text(st.sampled_from(STRANGE) | st.characters(), max_size=60)
keyed = st.sampled_from(["name", "id", "size", "url", "title"])


def telegram(text: str, name: str) -> tuple[Arrival, ...]:
    chat = {"id": -5, "type": "supergroup", "title": name}
    person = {"id": 7, "first_name": name, "last_name": text, "username": name}
    file = {
        "file_id": name,
        "file_unique_id": text,
        "file_name": name,
        "mime_type": text,
        "file_size": 5,
    }
    quoted = {"message_id": 1, "date": 1, "chat": chat, "from": person, "text": text}
    message = {
        "message_id": 2,
        "date": 1_700_000_000,
        "chat": chat,
        "from": person,
        "media_group_id": name,
        "reply_to_message": quoted,
    }
    updates: list[dict[str, Any]] = [
        {"update_id": 1, "message": {**message, "text": text}},
        {"update_id": 2, "message": {**message, "caption": text, "document": file}},
        {"update_id": 3, "edited_message": {**message, "text": text}},
        {
            "update_id": 4,
            "message": {
                **message,
                "poll": {"question": text, "options": [{"text": name}]},
                "contact": {"first_name": name},
            },
        },
        {
            "update_id": 5,
            "callback_query": {"id": name, "from": person, "message": message, "data": text},
        },
    ]
    return tuple(
        arrival
        for update in updates
        for arrival in telegram_inbound.arrivals(update, telegram_inbound.Me(9, "ohmo"), NOW)
    )


def slack(text: str, name: str) -> tuple[Arrival, ...]:
    place = slack_inbound.Place(
        "T0", "U0OHMO", lambda: NOW, {"U0ADA": name}, lambda *_: False, lambda *_: None
    )
    file = {
        "id": "F1",
        "name": name,
        "title": text,
        "mimetype": text,
        "url_private": f"https://files.slack.com/{name}",
        "size": 5,
    }
    row = {
        "type": "message",
        "channel": "D0ADA",
        "user": "U0ADA",
        "ts": "1700000000.000100",
        "text": text,
        "client_msg_id": name,
    }
    payloads: list[tuple[str, dict[str, Any]]] = [
        ("events_api", {"event": {**row, "files": [file], "subtype": "file_share"}}),
        (
            "events_api",
            {
                "event": {
                    **row,
                    "subtype": "message_changed",
                    "message": {**row, "text": f"{text}!"},
                    "previous_message": row,
                }
            },
        ),
        (
            "slash_commands",
            {
                "command": "/ohmo",
                "text": text,
                "channel_id": "D0ADA",
                "user_id": "U0ADA",
                "user_name": name,
                "trigger_id": "1",
            },
        ),
        (
            "interactive",
            {
                "type": "block_actions",
                "user": {"id": "U0ADA", "name": name},
                "channel": {"id": "D0ADA"},
                "message": row,
                "actions": [{"type": "button", "value": text, "action_ts": "1700000001.000100"}],
                "response_url": name,
            },
        ),
        (
            "events_api",
            {
                "event": {
                    "type": "reaction_added",
                    "user": "U0ADA",
                    "reaction": text,
                    "event_ts": row["ts"],
                    "item": {"type": "message", "channel": "D0ADA", "ts": row["ts"]},
                }
            },
        ),
    ]
    return tuple(
        arrival
        for kind, payload in payloads
        for arrival in slack_inbound.read(kind, payload, place)
    )


def discord(text: str, name: str) -> tuple[Arrival, ...]:
    spots = {"2": discord_inbound.Spot("1", name), "3": discord_inbound.Spot("1", text, "2")}
    place = discord_inbound.Place("9", lambda: NOW, spots, {"4": name})
    author = {"id": "7", "username": name, "global_name": text}
    file = {
        "id": "8",
        "filename": name,
        "content_type": text,
        "size": 5,
        "url": f"https://cdn.discordapp.com/{name}",
    }
    row = {
        "id": "175928847299117063",
        "channel_id": "2",
        "guild_id": "1",
        "author": author,
        "content": text,
        "member": {"nick": name},
    }
    reply = {
        **row,
        "type": 19,
        "referenced_message": {**row, "content": name},
        "attachments": [file],
        "mentions": [{**author, "id": "9"}],
    }
    user = {
        "id": "175928847299117064",
        "channel_id": "3",
        "guild_id": "1",
        "user_id": "7",
        "message_id": "8",
        "member": {"user": author, "nick": name},
    }
    events: list[tuple[str, dict[str, Any]]] = [
        ("MESSAGE_CREATE", row),
        (
            "MESSAGE_CREATE",
            {
                **reply,
                "sticker_items": [{"name": name}],
                "poll": {"question": {"text": name}, "answers": [{"poll_media": {"text": text}}]},
            },
        ),
        ("MESSAGE_UPDATE", {**row, "edited_timestamp": "2026-03-01T00:00:00+00:00"}),
        ("MESSAGE_REACTION_ADD", {**user, "emoji": {"name": text}}),
        (
            "INTERACTION_CREATE",
            {
                **user,
                "type": 2,
                "token": name,
                "data": {"name": name, "options": [{"name": "text", "value": text}]},
            },
        ),
        (
            "INTERACTION_CREATE",
            {
                **user,
                "type": 3,
                "token": name,
                "data": {"custom_id": text, "component_type": 2},
                "message": row,
            },
        ),
    ]
    return tuple(
        arrival
        for event, data in events
        for arrival in discord_inbound.read(event, data, place, name)
    )


def feishu(text: str, name: str) -> tuple[Arrival, ...]:
    place = feishu_inbound.EventContext("cli_1", "ou_ohmo", {"ou_ada": name}, quoted={"om_0": text})
    sender = {"sender_id": {"open_id": "ou_ada"}, "sender_type": "user"}
    mentions = [{"key": "@_user_1", "id": {"open_id": "ou_bob"}, "name": name}]
    contents = [
        ("text", {"text": text}),
        ("text", {"text": f"@_user_1 {text}"}),
        (
            "post",
            {
                "title": name,
                "content": [
                    [{"tag": "text", "text": text}, {"tag": "a", "text": name, "href": text}]
                ],
            },
        ),
        ("file", {"file_key": f"file_{text}", "file_name": name}),
        ("interactive", {"title": name, "elements": [[{"tag": "text", "text": text}]]}),
        ("vote", {"topic": text, "options": [name]}),
    ]
    events: list[tuple[str, dict[str, Any]]] = []
    for kind, content in contents:
        row = {
            "message_id": "om_1",
            "chat_id": "oc_1",
            "chat_type": "p2p",
            "message_type": kind,
            "content": json.dumps(content),
            "parent_id": "om_0",
        }
        events.append(
            (
                feishu_inbound.MESSAGE,
                {
                    "sender": sender,
                    "message": {**row, "create_time": "1700000000000", "mentions": mentions},
                },
            )
        )
    reaction = {
        "message_id": "om_1",
        "chat_id": "oc_1",
        "reaction_type": {"emoji_type": text},
        "operator_type": "user",
    }
    events.append(
        (
            feishu_inbound.REACTED,
            {**reaction, "user_id": {"open_id": "ou_ada"}, "action_time": "1700000000000"},
        )
    )
    where = {"open_message_id": "om_1", "open_chat_id": "oc_1"}
    events.append(
        (
            feishu_inbound.PRESSED,
            {
                "operator": {"open_id": "ou_ada"},
                "action": {"value": {"choice": text}},
                "context": where,
            },
        )
    )
    header = {"event_id": "e1", "create_time": "1700000000000"}
    payloads = [
        {"header": {**header, "event_type": kind}, "event": event} for kind, event in events
    ]
    return tuple(arrival for payload in payloads for arrival in feishu_inbound.read(payload, place))


def matrix(text: str, name: str) -> tuple[Arrival, ...]:
    room = matrix_inbound.Room("!r:h", {"@ada:h": name, "@ohmo:h": "ohmo", "@bob:h": text})
    lens = matrix_inbound.View("@ohmo:h", room, "0001")
    known = matrix_inbound.Original("@ada:h", text, None)
    base = {"event_id": "$1", "sender": "@ada:h", "origin_server_ts": 1_700_000_000_000}
    reply = {"m.in_reply_to": {"event_id": "$0"}}
    contents: list[tuple[str, dict[str, Any]]] = [
        ("m.room.message", {"msgtype": "m.text", "body": text, "m.relates_to": reply}),
        (
            "m.room.message",
            {
                "msgtype": "m.file",
                "body": text,
                "filename": name,
                "url": "mxc://h/x",
                "info": {"mimetype": text},
            },
        ),
        (
            "m.room.message",
            {
                "msgtype": "m.text",
                "body": "* x",
                "m.new_content": {"body": text},
                "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"},
            },
        ),
        (
            "m.reaction",
            {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": text}},
        ),
    ]
    found = (
        matrix_inbound.arrival_of({**base, "type": kind, "content": content}, lens, known)
        for kind, content in contents
    )
    return tuple(arrival for arrival in found if arrival is not None)


def strings(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Every text inside an arrival, with its place."""
    if isinstance(value, str):
        yield where, value
    elif is_dataclass(value):
        for one in fields(value):
            yield from strings(getattr(value, one.name), f"{where}.{one.name}")
    elif isinstance(value, tuple):
        for item in value:
            yield from strings(item, where)


@pytest.mark.parametrize("platform", [telegram, slack, discord, feishu, matrix])
@settings(deadline=None)  # a busy machine
@given(text=words, name=words)
def test_whatever_is_typed_can_be_stored_and_deceives_nobody(
    platform: Any, text: str, name: str
) -> None:
    for arrival in platform(text, name):
        for where, said in strings(arrival):
            assert not BAD.search(said), (where, said)


FAMILY = "👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 🏳️\u200d🌈"
LEGAL = f"שלום مرحبا नमस्ते क्\u200dष می\u200cخواهم {FAMILY} e\u0301 é \u200fעברית\u200e 𝔘𝔫𝔦 日本"


@pytest.mark.parametrize("platform", [telegram, slack, discord, feishu, matrix])
def test_legal_text_of_any_script_stays_as_it_is(platform: Any) -> None:
    assert platform(LEGAL, "Ada")[0].text == LEGAL


RENDERS = {
    "telegram": (telegram_render, "5"),
    "slack": (slack_render, "D0ADA"),
    "discord": (discord_render, "2"),
    "feishu": (feishu_render, "oc_1"),
    "matrix": (matrix_render, "!r:h"),
}


def rendered(platform: str, text: str, *, plain: bool) -> tuple[Part, ...]:
    room, chat = RENDERS[platform]
    choices = (Choice("0:abc", text), Choice("1:abc", "No"))
    address = Address(platform, "me", ChatId(chat))
    return (
        *room.render(Outbound(address, text, plain=plain)),
        *room.render(Outbound(address, text, choices=choices, plain=plain)),
    )


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("platform", RENDERS)
@settings(deadline=None)  # a busy machine
@given(text=words)
def test_whatever_the_model_says_can_be_sent_and_deceives_nobody(
    platform: str, plain: bool, text: str
) -> None:
    for part in rendered(platform, text, plain=plain):
        part.payload.encode()
        decoded = (
            part.payload.encode().decode("unicode_escape", "ignore")
            if "\\u" in part.payload
            else part.payload
        )
        assert not re.search("[\x00\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", decoded), (
            part.payload
        )


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("platform", RENDERS)
def test_an_emoji_of_several_is_never_torn_at_a_cut(platform: str, plain: bool) -> None:
    one = "👩🏽\u200d💻"
    room, chat = RENDERS[platform]
    parts = room.render(Outbound(Address(platform, "me", ChatId(chat)), one * 6000, plain=plain))
    assert len(parts) > 1
    for part in parts:
        body = json.loads(part.payload)
        text = _shown(platform, body)
        assert re.fullmatch(f"({one})+", text)


def _shown(platform: str, body: dict[str, Any]) -> str:
    match platform:
        case "matrix":
            return body["content"]["body"]
        case "discord":
            return body["body"]["content"]
        case "feishu":
            element = body["card"]["body"]["elements"][0]
            return (
                element["content"] if element["tag"] == "markdown" else element["text"]["content"]
            )
        case _:
            return body["text"]
