"""Events of the gateway that are not what Discord's documentation says (faults.md row 31)."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from ohmo_testing.channels import FakeContext
from tests.conformance.channels.stage import live, texts
from tests.platforms.discord.rig import rig
from tests.platforms.discord.world import BOT, FORUM, GROUP, GUILD, PEOPLE
from tests.platforms.mutated import mutated

USER = {"id": PEOPLE["ada"], "username": "ada", "global_name": "Ada", "bot": False}
MEMBER = {"user": USER, "nick": "A", "roles": ["1"]}
MESSAGE = {
    "id": "NUMBER",
    "channel_id": GROUP,
    "guild_id": GUILD,
    "author": USER,
    "member": MEMBER,
    "content": f"<@{BOT['id']}> <#1> <t:1:R> hi",
    "edited_timestamp": "2024-01-01T00:00:00+00:00",
    "mentions": [BOT],
    "mention_roles": ["1"],
    "type": 0,
    "attachments": [
        {"id": "1", "filename": "a", "size": 1, "url": "http://x", "content_type": "text/plain"}
    ],
    "sticker_items": [{"name": "s"}],
    "poll": {"question": {"text": "q"}, "answers": [{"poll_media": {"text": "a"}}]},
    "message_snapshots": [{"message": {"content": "f", "attachments": []}}],
}
PLACE = {"channel_id": GROUP, "guild_id": GUILD}
PRESS = {
    "id": "NUMBER",
    "application_id": "1",
    "channel": {"id": GROUP, "type": 0},
    "member": MEMBER,
    "token": "t",
    **PLACE,
}
EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("MESSAGE_CREATE", MESSAGE),
    (
        "MESSAGE_CREATE",
        {
            **MESSAGE,
            "type": 19,
            "message_reference": {"message_id": "1", **PLACE},
            "referenced_message": {**MESSAGE, "author": BOT},
        },
    ),
    ("MESSAGE_CREATE", {**MESSAGE, "type": 19, "message_reference": {"message_id": "1", **PLACE}}),
    ("MESSAGE_UPDATE", MESSAGE),
    ("MESSAGE_DELETE", {"id": "1", **PLACE}),
    ("MESSAGE_DELETE_BULK", {"ids": ["1", "2"], **PLACE}),
    (
        "MESSAGE_REACTION_ADD",
        {
            "user_id": USER["id"],
            "message_id": "1",
            "member": MEMBER,
            "emoji": {"id": None, "name": "x"},
            **PLACE,
        },
    ),
    (
        "INTERACTION_CREATE",
        {**PRESS, "type": 3, "data": {"component_type": 2, "custom_id": "0:a"}, "message": MESSAGE},
    ),
    (
        "INTERACTION_CREATE",
        {
            **PRESS,
            "type": 2,
            "data": {"name": "status", "options": [{"name": "text", "type": 3, "value": "x"}]},
        },
    ),
    ("THREAD_CREATE", {"id": "55", "guild_id": GUILD, "parent_id": GROUP, "type": 11, "name": "t"}),
    (
        "THREAD_LIST_SYNC",
        {
            "guild_id": GUILD,
            "threads": [
                {"id": "56", "type": 11, "parent_id": FORUM, "guild_id": GUILD, "name": "q"}
            ],
        },
    ),
    ("GUILD_MEMBER_UPDATE", {"guild_id": GUILD, "roles": ["1"], "user": BOT}),
    ("GUILD_DELETE", {"id": "77", "unavailable": True}),
    (
        "GUILD_CREATE",
        {
            "id": "78",
            "name": "g",
            "roles": [{"id": "1", "name": "r", "tags": {"bot_id": "1"}}],
            "members": [{"user": BOT, "roles": ["1"]}],
            "channels": [
                {"id": "79", "type": 0, "last_message_id": "1"},
                {"id": "80", "type": 15, "last_message_id": "5"},
            ],
            "threads": [{"id": "81", "type": 11, "parent_id": "79", "name": "x"}],
            "joined_at": "2024-01-01T00:00:00+00:00",
        },
    ),
]


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.fault(31)
async def test_events_of_any_shape_end_no_connection_and_the_next_message_is_heard(
    tmp_path: Path, seed: int
) -> None:
    chance, context = random.Random(seed), FakeContext(tmp_path)
    async with rig() as discord, live(discord.channel(), context) as task:
        await discord.says("hello")
        await texts(context, 1, task)
        (session,) = discord.server.world.sessions.values()
        for number in range(300):
            event, body = chance.choice(EVENTS)
            body = json.loads(
                json.dumps(body).replace('"NUMBER"', f'"{1_300_000_000_000_000_000 + number}"')
            )
            session.number += 1
            discord.server.gateway.say(
                json.dumps({"op": 0, "t": event, "s": session.number, "d": mutated(chance, body)})
            )
            await asyncio.sleep(0)
        await discord.says("and this is fine")
        await context.until(
            lambda now: "and this is fine" in [said.text for said in now.messages], within=60
        )
        assert discord.server.gateway.identified == 1
        assert discord.server.gateway.resumed == 0
