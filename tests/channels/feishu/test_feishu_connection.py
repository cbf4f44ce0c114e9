"""The long connection through the real lark_oapi: what dies silently, blocks or never answers in
the SDK does not here (faults.md rows 20 to 31)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from channels.contract import Answer, Edited, Options, Outbound, Reacted
from channels.errors import AuthFailed, NotReady, RateLimited, Unavailable
from channels.feishu import Settings
from channels.feishu.adapter import Feishu
from ohmo_testing.channels import FakeContext
from tests.channels.listening import listening
from tests.platforms.feishu.frames import Frame
from tests.platforms.feishu.rig import QUICK, FeishuRig, rig
from tests.platforms.feishu.rules import Rules
from tests.platforms.feishu.server import Fault

SOON = Rules(retry_after=(0.1, 0.1, 0.1, 0.1))


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuRig]:
    async with rig(SOON) as made:
        yield made


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return FakeContext(state)


@asynccontextmanager
async def receiving(
    feishu: FeishuRig, context: FakeContext, channel: Feishu | None = None
) -> AsyncIterator[tuple[Feishu, asyncio.Task[None]]]:
    channel = channel or feishu.channel()
    async with listening(channel, context) as task:
        yield channel, task


async def test_wrong_credentials_fail_connect_at_once_and_name_the_console_page(
    feishu: FeishuRig,
) -> None:
    channel = Feishu(Settings(**feishu.settings() | {"app_secret": "wrong"}), Options(), QUICK)
    with pytest.raises(
        AuthFailed, match=r"10014.*channels\.feishu.*/app/cli_loopback.*Credentials & Basic Info"
    ):
        async with channel.connect():
            pass


async def test_a_missing_scope_is_named_with_its_page(feishu: FeishuRig) -> None:
    feishu.server.scopes_missing.add("bot/v3/info")
    with pytest.raises(AuthFailed, match=r"scope:bot/v3/info.*Permissions & Scopes"):
        async with feishu.channel().connect():
            pass


@pytest.mark.parametrize(
    ("code", "failure", "words"),
    [
        (1, NotReady, "1 "),
        (1000040343, NotReady, "1000040343"),
        (1000040350, NotReady, "50 connections"),
        (514, AuthFailed, "514"),
        (403, AuthFailed, "403"),
    ],
)
@pytest.mark.fault(20)
async def test_every_refusal_of_the_endpoint_has_its_word(
    feishu: FeishuRig, code: int, failure: type[Exception], words: str
) -> None:
    feishu.server.endpoint_code = code
    with pytest.raises(failure, match=words):
        async with feishu.channel().connect():
            pass


@pytest.mark.parametrize(
    ("headers", "failure"),
    [
        ({"Handshake-Status": "403", "Handshake-Msg": "forbidden"}, AuthFailed),
        (
            {
                "Handshake-Status": "514",
                "Handshake-Msg": "many",
                "Handshake-Autherrcode": "1000040350",
            },
            NotReady,
        ),
        (
            {
                "Handshake-Status": "514",
                "Handshake-Msg": "ticket",
                "Handshake-Autherrcode": "1000040346",
            },
            NotReady,
        ),
        ({"Handshake-Status": "1", "Handshake-Msg": "busy"}, NotReady),
        ({}, NotReady),
    ],
)
@pytest.mark.fault(20)
async def test_a_refused_handshake_is_told_not_swallowed(
    feishu: FeishuRig, headers: dict[str, str], failure: type[Exception]
) -> None:
    feishu.server.handshake = headers
    with pytest.raises(failure):
        async with feishu.channel().connect():
            pass


async def test_a_hanging_endpoint_neither_stops_the_loop_nor_hangs_for_ever(
    feishu: FeishuRig,
) -> None:
    feishu.server.mute_endpoint = 30.0
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    with pytest.raises(NotReady):
        async with feishu.channel(pace=replace(QUICK, call=0.5)).connect():
            pass
    ticking.cancel()
    assert ticks > 5  # the SDK's own client would have stood still


@pytest.mark.fault(20)
async def test_a_cut_connection_is_noticed_and_nothing_is_missed(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context) as (_, hearing):
        await feishu.says("before")
        await context.texts(1)
        await feishu.cut()
        with pytest.raises(NotReady, match="lost"):
            await asyncio.wait_for(hearing, 10)
    await feishu.says("said in between")
    async with receiving(feishu, context):
        assert await context.texts(2) == ["before", "said in between"]


@pytest.mark.fault(22)
async def test_a_mute_connection_is_noticed_after_two_silent_pings(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context, feishu.channel(pace=replace(QUICK, ping=0.3))) as (
        _,
        hearing,
    ):
        feishu.server.links[-1].deaf = True
        with pytest.raises(NotReady, match="lost"):
            await asyncio.wait_for(hearing, 15)


@pytest.mark.fault(22)
async def test_a_line_that_is_open_but_passes_nothing_on_is_noticed(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context, feishu.channel(pace=replace(QUICK, frames=0.3))) as (
        _,
        hearing,
    ):
        await feishu.server.until(lambda server: server.links[-1].pings >= 2)
        feishu.server.links[-1].stalled = True
        with pytest.raises(NotReady, match="lost"):
            await asyncio.wait_for(hearing, 15)


async def test_a_line_that_never_answered_a_ping_of_the_protocol_is_not_given_up_for_it(
    feishu: FeishuRig, context: FakeContext
) -> None:
    feishu.server.answers_pings = False
    async with receiving(feishu, context, feishu.channel(pace=replace(QUICK, frames=0.05))) as (
        _,
        hearing,
    ):
        await feishu.server.until(lambda server: server.links[-1].pings >= 6)
        await feishu.says("still here")
        assert await context.texts(1) == ["still here"]
        assert not hearing.done()


async def test_pongs_are_signs_of_life_and_the_protocols_pings_are_sent(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context, feishu.channel(pace=replace(QUICK, ping=0.2))):
        await context.until(lambda now: now.signs_of_life > 1)
        await feishu.server.until(lambda server: server.links[-1].pings >= 1)
    assert feishu.server.kept.odd == []


async def test_an_event_is_answered_only_after_it_was_stored(
    feishu: FeishuRig, context: FakeContext
) -> None:
    order: list[str] = []
    publish = context.publish

    async def slowly(arrivals: Any, cursor: Any = None) -> None:
        await asyncio.sleep(0.05)
        order.append(f"stored, {len(feishu.server.kept.answers)} answered")
        await publish(arrivals, cursor)

    context.publish = slowly  # pyright: ignore[reportAttributeAccessIssue]
    async with receiving(feishu, context):
        await feishu.says("first")
        await feishu.server.until(lambda server: bool(server.kept.answers))
    assert order[-1] == "stored, 0 answered"
    assert [(code, data) for _, code, data in feishu.server.kept.answers] == [(200, None)]


@pytest.mark.fault(27)
async def test_what_could_not_be_stored_is_answered_500_and_delivered_again(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context) as (channel, hearing):
        context.refuse()
        await feishu.says("precious")
        with pytest.raises(Unavailable):
            await asyncio.wait_for(hearing, 10)
        again = asyncio.create_task(channel.receive(context))
        assert await context.texts(1) == ["precious"]
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
    assert feishu.server.kept.answers[0][1] == 500
    assert len(feishu.server.kept.sent) >= 1


async def test_events_of_other_types_are_answered_and_not_delivered_again(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context):
        feishu.server.event("im.message.message_read_v1", {"reader": {}})
        feishu.server.event("im.chat.member.bot.added_v1", {"chat_id": "oc_group"})
        await feishu.server.until(lambda server: len(server.kept.answers) == 2)
    assert [code for _, code, _ in feishu.server.kept.answers] == [200, 200]
    assert len(feishu.server.kept.sent) == 2


@pytest.mark.fault(31)
async def test_malformed_frames_and_events_are_kept_aside_and_the_connection_goes_on(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context):
        head = [("type", "event"), ("message_id", "x"), ("sum", "1"), ("seq", "0")]
        for data in (
            b"\xff\xfe garbage",
            b"",
            Frame(7, head).bytes(),
            Frame(1, head, b"{not json").bytes(),
            Frame(1, head, b"[1]").bytes(),
        ):
            feishu.server.raw(data)
        feishu.server.event("im.message.receive_v1", {"sender": {}, "message": {"message_id": 5}})
        await feishu.says("and this is fine")
        assert await context.texts(1) == ["and this is fine"]
        await feishu.server.until(lambda server: len(server.kept.answers) >= 4)
    kept = [path.read_text(errors="replace") for path in (context.state / "malformed").iterdir()]
    assert any("garbage" in text for text in kept)
    assert any("not json" in text for text in kept)
    assert {code for _, code, _ in feishu.server.kept.answers} == {200}


async def test_a_message_that_came_in_several_frames_is_joined_whatever_their_order(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context):
        await feishu.says("x" * 150_000)
        assert [len(text) for text in await context.texts(1)] == [150_000]
        header = {"event_id": "e9", "event_type": "im.message.receive_v1", "create_time": "1"}
        row = {
            "message_id": "om_9",
            "chat_id": "oc_dmada",
            "chat_type": "p2p",
            "message_type": "text",
            "create_time": "1",
            "content": '{"text": "split"}',
        }
        whole = {
            "schema": "2.0",
            "header": header,
            "event": {
                "sender": {"sender_id": {"open_id": "ou_ada"}, "sender_type": "user"},
                "message": row,
            },
        }
        payload = json.dumps(whole).encode()
        for number in (2, 0, 1):
            head = [
                ("type", "event"),
                ("message_id", "e9"),
                ("trace_id", "t"),
                ("sum", "3"),
                ("seq", str(number)),
            ]
            feishu.server.raw(
                Frame(
                    1, head, payload[number * 100 : (number + 1) * 100 if number < 2 else None]
                ).bytes()
            )
        assert (await context.texts(2))[1] == "split"
        await feishu.server.until(lambda server: len(server.kept.answers) == 2)


async def test_a_frame_of_the_old_card_type_is_answered_too(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context):
        feishu.server.raw(
            Frame(
                1, [("type", "card"), ("message_id", "c1"), ("sum", "1"), ("seq", "0")], b"{}"
            ).bytes()
        )
        await feishu.server.until(lambda server: len(server.kept.answers) == 1)
    assert feishu.server.kept.answers[0][:2] == ("c1", 200)


async def test_a_press_is_answered_with_the_houses_words_and_the_thread_it_was_in(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context) as (channel, _):
        value = {"choice": "yes", "topic": "om_root"}
        feishu.server.event(
            "card.action.trigger",
            {
                "operator": {"open_id": "ou_ada"},
                "action": {"value": value, "tag": "button"},
                "context": {"open_message_id": "om_1", "open_chat_id": "oc_group"},
            },
            callback=True,
        )
        await context.until(lambda now: any(isinstance(one, Answer) for one in now.arrivals))
        (answer,) = [arrival for arrival in context.arrivals if isinstance(arrival, Answer)]
        await channel.acknowledge(answer, "Allowed")
        await feishu.server.until(lambda server: bool(server.kept.answers))
    assert feishu.server.kept.answers[0][1:] == (
        200,
        {"toast": {"type": "info", "content": "Allowed"}},
    )
    assert answer.address.topic == "om_root"


async def test_a_press_without_the_houses_words_is_answered_in_time_and_one_that_was_not_stored_says_so(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context, feishu.channel(pace=replace(QUICK, answer=0.1))) as (
        _,
        hearing,
    ):
        press = {
            "operator": {"open_id": "ou_ada"},
            "action": {"value": {"choice": "yes"}, "tag": "button"},
            "context": {"open_message_id": "om_1", "open_chat_id": "oc_group"},
        }
        feishu.server.event("card.action.trigger", press, callback=True)
        await feishu.server.until(lambda server: len(server.kept.answers) == 1)
        context.refuse()
        feishu.server.event("card.action.trigger", press, callback=True)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(hearing, 10)
        await feishu.server.until(lambda server: len(server.kept.answers) == 2)
    first, second = feishu.server.kept.answers
    assert first[1:] == (200, {})
    assert second[1] == 200
    assert "press again" in second[2]["toast"]["content"]


async def test_recalls_reactions_and_replies_arrive_with_their_place(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context):
        message = await feishu.says("hello", chat="group")
        await context.texts(1)
        feishu.world.reacts(message, "ou_bob", "THUMBSUP")
        await feishu.deletes(message)
        await context.until(lambda now: len(now.arrivals) == 3)
    reacted, recalled = context.arrivals[1:]
    assert isinstance(reacted, Reacted)
    assert isinstance(recalled, Edited)
    assert (reacted.emoji, reacted.address, reacted.person.name) == (
        "THUMBSUP",
        context.messages[0].address,
        "ou_bob",
    )
    assert (recalled.message, recalled.text) == (message, None)


async def test_a_reply_brings_the_words_it_answers_and_an_answer_to_us_is_for_us(
    feishu: FeishuRig, context: FakeContext
) -> None:
    ours = feishu.world.post("oc_group", "text", '{"text": "the plan"}', "u1")
    async with receiving(feishu, context):
        feishu.world.says(
            "oc_group", "ou_bob", "why?", parent_id=ours["message_id"], root_id=ours["message_id"]
        )
        await context.texts(1)
    (said,) = context.messages
    assert (said.addressed, said.quoted, said.reply_to, said.person.name) == (
        True,
        "the plan",
        ours["message_id"],
        "Bob",
    )


async def test_forwarded_messages_are_read(feishu: FeishuRig, context: FakeContext) -> None:
    inside = {
        "msg_type": "text",
        "create_time": "1",
        "sender": {"id": "ou_bob", "sender_type": "user"},
        "body": {"content": '{"text": "look at this"}'},
    }
    async with receiving(feishu, context):
        feishu.world.sends(
            "oc_dmada",
            "ou_ada",
            "merge_forward",
            {"content": "Merged"},
            forwarded=[{"message_id": "om_x", **inside}],
        )
        (text,) = await context.texts(1)
    assert text == "[forwarded messages]\nou_bob: look at this"


@pytest.mark.fault(26)
async def test_a_revoked_token_is_replaced_and_the_call_carried_out_once(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context) as (channel, _):
        feishu.server.forget_tokens()
        (part,) = channel.render(Outbound(channel.parse_address("oc_dmada"), "hi"))
        await channel.send(part, "k.0")
    assert feishu.server.kept.tokens == 2
    assert (
        len([row for row in feishu.world.rows["oc_dmada"] if row["sender"]["sender_type"] == "app"])
        == 1
    )


async def test_one_token_serves_many_calls_at_once_and_one_connection_each_of_a_few(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context) as (channel, _):
        await asyncio.gather(
            *(channel.typing(channel.parse_address("oc_group"), True) for _ in range(5))
        )
        for number in range(10):
            await feishu.says(f"n{number}")
        await context.texts(10)
    assert feishu.server.kept.tokens == 1
    assert len(feishu.server.kept.clients) <= 4


@pytest.mark.fault(23)
async def test_a_rate_limit_while_connecting_says_how_long(feishu: FeishuRig) -> None:
    feishu.server.faults.append(Fault("limit", 3, lambda _, path: path == "bot/v3/info"))
    with pytest.raises(RateLimited) as limited:
        async with feishu.channel().connect():
            pass
    assert limited.value.retry_after == 3.0


async def test_proxies_of_the_environment_do_not_divert_loopback(
    feishu: FeishuRig, context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy".split():
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with receiving(feishu, context):
        await feishu.says("straight")
        assert await context.texts(1) == ["straight"]


@pytest.mark.fault(35)
async def test_a_burst_is_answered_well_within_feishus_three_seconds(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with receiving(feishu, context):
        began = time.monotonic()
        for number in range(300):
            await feishu.says(f"n{number}", chat=f"dm:{number % 50}")
        await context.texts(300)
        await feishu.server.until(lambda server: len(server.kept.answers) >= 300)
    assert feishu.server.kept.dropped == []
    assert time.monotonic() - began < 60
