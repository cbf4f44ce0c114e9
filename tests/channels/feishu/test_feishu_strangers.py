"""What no person said on Feishu: frames and events of any shape, ohmo's own words, other bots
(faults.md rows 31 and 69)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from channels.contract import ChatId, Outbound
from channels.feishu.adapter import Feishu
from ohmo_testing.channels import FakeContext
from tests.channels.listening import listening
from tests.platforms.feishu.frames import Frame
from tests.platforms.feishu.rig import FeishuRig, rig
from tests.platforms.feishu.world import APP, BOT
from tests.platforms.mutated import mutated

HEAD = [("type", "event"), ("message_id", "strange"), ("sum", "1"), ("seq", "0")]
SENDER = {"sender_id": {"open_id": "ou_ada", "union_id": "", "user_id": ""}, "sender_type": "user"}
MESSAGE = {
    "message_id": "om_strange",
    "chat_id": "oc_group",
    "chat_type": "group",
    "message_type": "text",
    "create_time": "1",
    "content": '{"text": "x"}',
}


def event(message: Any, sender: Any = SENDER, kind: str = "im.message.receive_v1") -> bytes:
    body = {
        "schema": "2.0",
        "header": {"event_id": "strange", "event_type": kind},
        "event": {"sender": sender, "message": message},
    }
    return Frame(1, HEAD, json.dumps(body).encode()).bytes()


STRANGE = {
    "no frame": (b"\xff\xfe garbage", False),
    "nothing": (b"", False),
    "cut": (Frame(1, HEAD, b'{"schema": "2.0"}').bytes()[:-9], False),
    "a method nobody knows": (Frame(7, HEAD).bytes(), False),
    "bad JSON": (Frame(1, HEAD, b'{"schema": "2.0", "hea').bytes(), True),
    "bad UTF-8": (Frame(1, HEAD, b'{"event": "\xff\xfe\x80"}').bytes(), True),
    "a list": (Frame(1, HEAD, b"[1]").bytes(), True),
    "nested": (Frame(1, HEAD, b"[" * 100_000).bytes(), True),
    "wrong types": (event({**MESSAGE, "message_id": 5}), True),
    "no message": (event(None), True),
    "content that is no JSON": (event({**MESSAGE, "content": "{not"}), True),
    "a time that is none": (event({**MESSAGE, "create_time": "yesterday"}), True),
    "no chat": (event({**MESSAGE, "chat_id": ""}), True),
    "header is a text": (
        Frame(1, HEAD, b'{"schema": "2.0", "header": "x", "event": []}').bytes(),
        True,
    ),
    "an event nobody asked for": (event(MESSAGE, kind="im.chat.disbanded_v1"), True),
    "parts without end": (
        Frame(1, [*HEAD[:2], ("sum", "9999999"), ("seq", "4")], b"x").bytes(),
        False,
    ),
    "10 MB": (
        event(
            {**MESSAGE, "message_type": "new_kind", "content": json.dumps({"x": "y" * (10 << 20)})}
        ),
        True,
    ),
}


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuRig]:
    async with rig() as made:
        yield made


@asynccontextmanager
async def receiving(feishu: FeishuRig, context: FakeContext) -> AsyncIterator[Feishu]:
    channel = feishu.channel()
    async with listening(channel, context):
        yield channel


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.fault(31)
async def test_whatever_comes_is_answered_where_it_can_be_and_the_next_message_is_heard(
    feishu: FeishuRig, tmp_path: Path, name: str
) -> None:
    data, answered = STRANGE[name]
    context = FakeContext(tmp_path)
    async with receiving(feishu, context):
        feishu.server.raw(data)
        await feishu.says("and this is fine")
        await context.until(lambda now: "and this is fine" in [said.text for said in now.messages])
        await feishu.server.until(lambda server: len(server.kept.answers) == 1 + answered)
    assert feishu.server.kept.opened == 1
    assert {code for _, code, _ in feishu.server.kept.answers} == {200}


def says(feishu: FeishuRig, text: str, kind: str, sender: str) -> None:
    """A message in the group that calls ohmo, by something that is no person."""
    mention = [
        {"key": "@_user_1", "id": BOT, "id_type": "open_id", "name": "ohmo", "tenant_key": "t"}
    ]
    row = feishu.world.add(
        "oc_group",
        {"id": sender, "id_type": "app_id", "sender_type": kind},
        "text",
        {"text": f"@_user_1 {text}"},
        None,
        mentions=mention,
    )
    called = [
        {
            "key": "@_user_1",
            "id": {"open_id": BOT, "union_id": "", "user_id": ""},
            "name": "ohmo",
            "tenant_key": "t",
        }
    ]
    message = {
        **MESSAGE,
        "message_id": row["message_id"],
        "create_time": row["create_time"],
        "mentions": called,
        "content": row["body"]["content"],
    }
    feishu.server.event(
        "im.message.receive_v1",
        {"sender": {"sender_id": {"open_id": ""}, "sender_type": kind}, "message": message},
    )


@pytest.mark.fault(69)
async def test_its_own_words_and_those_of_other_bots_are_answered_to_the_platform_and_to_nobody_else(
    feishu: FeishuRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path)
    async with receiving(feishu, context) as channel:
        await feishu.says("hello", chat="group")
        await context.texts(1)
        (part,) = channel.render(
            Outbound(channel.parse_address(str(ChatId("oc_group"))), "my own words")
        )
        await channel.send(part, "k.1")
        for kind, sender in (
            ("app", APP),
            ("app", "cli_another"),
            ("anonymous", ""),
            ("unknown", ""),
        ):
            says(feishu, f"by {kind} {sender}", kind, sender)
        await feishu.server.until(lambda server: len(server.kept.answers) == 5)
    says(feishu, "while it was away", "app", "cli_another")
    async with receiving(feishu, context):
        await feishu.says("and now", chat="group")
        assert await context.texts(2) == ["hello", "and now"]
    assert {code for _, code, _ in feishu.server.kept.answers} == {200}


WORDS: list[tuple[str, dict[str, Any]]] = [
    (
        "im.message.receive_v1",
        {
            "sender": SENDER,
            "message": {
                **MESSAGE,
                "root_id": "om_r",
                "parent_id": "om_p",
                "thread_id": "omt_1",
                "mentions": [{"key": "@_user_1", "id": {"open_id": BOT}, "name": "ohmo"}],
            },
        },
    ),
    (
        "im.message.receive_v1",
        {
            "sender": SENDER,
            "message": {
                **MESSAGE,
                "chat_type": "p2p",
                "chat_id": "oc_dmada",
                "message_type": "post",
                "content": json.dumps(
                    {
                        "title": "t",
                        "content": [
                            [
                                {"tag": "text", "text": "x"},
                                {"tag": "at", "user_id": "@_user_1"},
                                {"tag": "img", "image_key": "k"},
                            ]
                        ],
                    }
                ),
            },
        },
    ),
    (
        "im.message.recalled_v1",
        {"message_id": "om_x", "chat_id": "oc_group", "recall_time": "1700000000000"},
    ),
    (
        "im.message.reaction.created_v1",
        {
            "message_id": "om_x",
            "reaction_type": {"emoji_type": "OK"},
            "operator_type": "user",
            "user_id": {"open_id": "ou_ada"},
            "action_time": "1700000000000",
        },
    ),
    (
        "card.action.trigger",
        {
            "operator": {"open_id": "ou_ada"},
            "action": {"value": {"choice": "0:x", "topic": "om_1"}, "tag": "button"},
            "context": {"open_message_id": "om_1", "open_chat_id": "oc_group"},
        },
    ),
]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.fault(31)
async def test_events_of_any_shape_are_answered_and_end_no_connection(
    feishu: FeishuRig, tmp_path: Path, seed: int
) -> None:
    chance, context, count = random.Random(seed), FakeContext(tmp_path), 250
    async with receiving(feishu, context):
        for number in range(count):
            kind, body = chance.choice(WORDS)
            header = {"event_id": f"e{number}", "event_type": kind, "create_time": "1700000000000"}
            odd = mutated(chance, {"schema": "2.0", "header": header, "event": body})
            head = [("type", "event"), ("message_id", f"e{number}"), ("sum", "1"), ("seq", "0")]
            feishu.server.raw(Frame(1, head, json.dumps(odd).encode()).bytes())
            await asyncio.sleep(0)
        await feishu.says("and this is fine")
        await context.until(
            lambda now: "and this is fine" in [said.text for said in now.messages], within=60
        )
        await feishu.server.until(
            lambda server: len({name for name, _, _ in server.kept.answers}) == count + 1, within=60
        )
    assert feishu.server.kept.opened == 1
