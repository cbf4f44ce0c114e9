"""The adapter's connection through the real slack_sdk: every trap of the SDK that platforms know
of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.contract import Address, ChatId, Options, Outbound, Part
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected, Unavailable
from channels.slack import Settings
from channels.slack.adapter import Slack
from channels.slack.client import Pace
from ohmo_testing.channels import FakeContext
from tests.channels.listening import on_socket
from tests.platforms.slack.rig import SlackRig, rig
from tests.platforms.slack.server import Fault
from tests.platforms.slack.workspace import APP_TOKEN, BOT_TOKEN, Rules
from tests.programs import python

QUICK = Pace(call=5, connect=1, ping=0.1)
DM = Address("slack", "T0HOUSE", ChatId("D0ADA"))


@asynccontextmanager
async def receiving(
    slack: SlackRig, context: FakeContext, channel: Slack | None = None
) -> AsyncIterator[tuple[Slack, asyncio.Task[None]]]:
    """A channel that is connected and hears; its receive() may end by itself."""
    channel = channel or slack.channel()
    async with on_socket(slack, channel, context) as hearing:
        yield channel, hearing


def post(channel: Slack, text: str = "hello") -> Part:
    (part,) = channel.render(Outbound(DM, text))
    return part


@pytest.fixture
async def slack() -> AsyncIterator[SlackRig]:
    async with rig() as one:
        yield one


@pytest.mark.parametrize("token", ["bot_token", "app_token"])
async def test_a_wrong_token_fails_connect_at_once_and_names_where_to_look(
    slack: SlackRig, token: str
) -> None:
    wrong = {"bot_token": "xoxb-wrong", "app_token": "xapp-wrong"}[token]
    channel = Slack(Settings(**slack.settings() | {token: wrong}), Options(), QUICK)
    with pytest.raises(AuthFailed, match=r"invalid_auth.*channels\.slack"):
        async with channel.connect():
            pass


async def test_a_missing_scope_is_named_at_connect(slack: SlackRig) -> None:
    slack.server.scopes_missing["apps.connections.open"] = "connections:write"
    with pytest.raises(AuthFailed, match="connections:write"):
        async with slack.channel().connect():
            pass


async def test_an_unreachable_slack_is_not_ready(slack: SlackRig) -> None:
    slack.down(True)
    with pytest.raises(NotReady):
        async with slack.channel().connect():
            pass
    slack.down(False)
    async with slack.channel().connect():
        pass


async def test_connect_bounds_its_own_time(slack: SlackRig) -> None:
    slack.server.faults.append(Fault("hang", 60, frozenset({"auth.test"})))
    with pytest.raises(NotReady, match="within"):
        async with slack.channel(pace=Pace(call=30, connect=0.2)).connect():
            pass


@pytest.mark.fault(20)
async def test_a_refused_handshake_ends_within_the_deadline_and_the_next_try_takes_a_new_ticket(
    slack: SlackRig, context: FakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    channel = slack.channel(pace=QUICK)
    slack.server.refuse_sockets = True
    async with channel.connect():
        with pytest.raises(NotReady, match=r"hello.*HTTP 403"):
            await channel.receive(context)
        assert "ticket=" not in caplog.text, "a ticket opens a socket: it is no word for a log"
        assert slack.server.refused_handshakes >= 1
        slack.server.refuse_sockets = False
        async with asyncio.timeout(10):
            hearing = asyncio.create_task(channel.receive(context))
            await slack.says("are you back?")
            assert await context.texts(1) == ["are you back?"]
            hearing.cancel()


@pytest.mark.fault(20)
async def test_a_cut_connection_is_noticed_and_nothing_is_missed(
    slack: SlackRig, context: FakeContext
) -> None:
    async with receiving(slack, context) as (_, hearing):
        await slack.cut()
        with pytest.raises(NotReady, match="lost"):
            await asyncio.wait_for(hearing, 10)
    await slack.says("said in between")
    async with receiving(slack, context):
        assert await context.texts(1) == ["said in between"]


@pytest.mark.fault(22)
async def test_a_half_open_socket_is_noticed_after_a_few_silent_pings(
    slack: SlackRig, context: FakeContext
) -> None:
    async with receiving(slack, context, slack.channel(pace=QUICK)) as (_, hearing):
        slack.server.links[-1].deaf = True
        with pytest.raises(NotReady, match="lost"):
            await asyncio.wait_for(hearing, 15)


async def test_pongs_are_signs_of_life_in_a_silent_workspace(
    slack: SlackRig, context: FakeContext
) -> None:
    async with receiving(slack, context, slack.channel(pace=QUICK)):
        before = context.signs_of_life
        await context.until(lambda now: now.signs_of_life > before + 2)


@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
@pytest.mark.fault(20)
async def test_a_refresh_opens_the_new_socket_first_and_loses_nothing(
    slack: SlackRig, context: FakeContext, reason: str
) -> None:
    async with receiving(slack, context) as (_, hearing):
        slack.server.refresh(reason, close_after=reason == "refresh_requested")
        await slack.server.until(lambda server: server.opened == 2)
        assert slack.server.links  # there was no moment without a socket
        for number in range(3):
            await slack.says(f"after {number}")
        assert await context.texts(3) == ["after 0", "after 1", "after 2"]
        assert not hearing.done()


async def test_socket_mode_switched_off_is_told_to_the_owner(
    slack: SlackRig, context: FakeContext
) -> None:
    async with receiving(slack, context) as (_, hearing):
        slack.server.refresh("link_disabled", close_after=False)
        with pytest.raises(AuthFailed, match="Socket Mode is switched off"):
            await asyncio.wait_for(hearing, 10)


@pytest.mark.fault(26)
async def test_a_revoked_token_in_the_middle_is_auth_failed(
    slack: SlackRig, context: FakeContext
) -> None:
    async with receiving(slack, context) as (channel, _):
        slack.server.revoked = True
        with pytest.raises(AuthFailed, match="token_revoked"):
            await channel.send(post(channel), "k.0")


async def test_a_proxy_in_the_environment_does_not_divert_loopback(
    slack: SlackRig, context: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with receiving(slack, context):
        await slack.says("direct")
        assert await context.texts(1) == ["direct"]


async def test_one_tcp_connection_serves_call_after_call(slack: SlackRig) -> None:
    channel = slack.channel()
    async with channel.connect():
        for number in range(5):
            await channel.send(post(channel), f"k.{number}")
    assert len(slack.server.clients) == 1


# acknowledging


async def test_an_envelope_is_acknowledged_only_after_it_was_stored(
    slack: SlackRig, tmp_path: Path
) -> None:
    class Slow(FakeContext):
        def __init__(self) -> None:
            super().__init__(tmp_path)
            self.asked = asyncio.Event()
            self.go = asyncio.Event()

        async def publish(self, arrivals, cursor=None):  # type: ignore[no-untyped-def]
            self.asked.set()
            await self.go.wait()
            await super().publish(arrivals, cursor)

    slow = Slow()
    async with receiving(slack, slow):
        await slack.says("store me first")
        await asyncio.wait_for(slow.asked.wait(), 10)
        assert slack.server.acked == {}
        slow.go.set()
        await slack.server.until(lambda server: len(server.acked) == 1)


async def test_what_could_not_be_stored_is_not_acknowledged_and_comes_again() -> None:
    async with rig(Rules(ack_seconds=0.3, retry_after=(0.2, 0.2, 0.2))) as slack:
        context = FakeContext(Path("unused"))
        async with receiving(slack, context) as (_, hearing):
            await slack.says("first", chat="dm:bob")  # afterwards every catch-up is surely over
            await slack.server.until(lambda server: len(server.acked) == 1)
            context.refuse()
            await slack.says("once more, please")
            with pytest.raises(Unavailable):
                await asyncio.wait_for(hearing, 10)
            assert len(slack.server.acked) == 1
        async with receiving(slack, context):
            assert await context.texts(2) == ["first", "once more, please"]
            await slack.server.until(lambda server: len(server.acked) == 2)
        assert [message.text for message in context.messages] == ["first", "once more, please"]


@pytest.mark.fault(27)
async def test_an_envelope_nobody_acknowledged_in_three_seconds_comes_again_with_its_attempt() -> (
    None
):
    async with rig(Rules(ack_seconds=0.2, retry_after=(0.0, 0.1, 0.1))) as slack:
        context = FakeContext(Path("unused"))
        slack.server.links.clear()
        await slack.says("nobody is there")
        await slack.server.until(lambda server: len(server.sent) >= 1)
        async with receiving(slack, context):
            assert await context.texts(1) == ["nobody is there"]
        assert len(context.messages) == 1


@pytest.mark.parametrize(
    "kind", ["events_api", "interactive", "slash_commands", "block_suggestion", "something_new"]
)
async def test_every_kind_of_envelope_is_acknowledged(
    slack: SlackRig, context: FakeContext, kind: str
) -> None:
    async with receiving(slack, context) as (_, hearing):
        envelope = slack.server.envelope(
            kind, {"type": "view_submission", "event": {"type": "team_join"}}
        )
        await slack.server.until(lambda server: envelope in server.acked)
        assert not hearing.done()


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {"event": 5},
        {
            "event": {
                "type": "message",
                "channel": "C0GROUP",
                "user": "U0ADA",
                "ts": {"not": "a ts"},
                "text": "x",
            }
        },
        {
            "event": {
                "type": "message",
                "channel": "C0GROUP",
                "user": "U0ADA",
                "ts": "1e999",
                "text": "x",
            }
        },
        {
            "event": {
                "type": "message",
                "channel": "C0GROUP",
                "user": "U0ADA",
                "ts": "1700000000.000100",
                "text": 7,
            }
        },
        {"event": {"type": "message", "subtype": "message_changed", "channel": "D0ADA"}},
        {"event": {"type": "reaction_added", "user": "U0ADA", "item": "x"}},
    ],
)
@pytest.mark.fault(31)
async def test_a_malformed_envelope_is_acknowledged_counted_and_survived(
    slack: SlackRig, context: FakeContext, caplog: pytest.LogCaptureFixture, payload: object
) -> None:
    async with receiving(slack, context) as (_, hearing):
        envelope = slack.server.envelope("events_api", payload)
        await slack.server.until(lambda server: envelope in server.acked)
        await slack.says("still there?")
        assert await context.texts(1) == ["still there?"]
        assert not hearing.done()
    assert "1 so far" in caplog.text
    (kept,) = (context.state / "malformed").iterdir()
    assert kept.read_text() == json.dumps(payload if isinstance(payload, dict) else None)


@pytest.mark.parametrize(
    "frame", ["", "no json", "{", "[1]", "{}", '{"type": 5}', '{"envelope_id": "e"}', "[" * 100_000]
)
@pytest.mark.fault(31)
async def test_garbage_on_the_socket_is_survived(
    slack: SlackRig, context: FakeContext, frame: str
) -> None:
    async with receiving(slack, context) as (_, hearing):
        slack.server.say_raw(frame)
        await slack.says("still there?")
        assert await context.texts(1) == ["still there?"]
        assert not hearing.done()
    (kept,) = (context.state / "malformed").iterdir()
    assert kept.read_text() == frame[:4096]


@pytest.mark.fault(35)
async def test_a_burst_of_a_thousand_messages_is_stored_in_order_and_acknowledged(
    slack: SlackRig, context: FakeContext
) -> None:
    async with receiving(slack, context):
        await slack.says("ready?")
        await context.texts(1)
        for number in range(1000):
            await slack.says(f"m-{number}")
        texts = await context.texts(1001, within=60)
        assert texts[1:] == [f"m-{number}" for number in range(1000)]
        await slack.server.until(lambda server: len(server.acked) == 1001)
    assert slack.server.dropped == []


# sending


@pytest.mark.fault(24)
async def test_a_lost_answer_is_ambiguous_is_not_repeated_by_itself_and_can_be_found(
    slack: SlackRig, context: FakeContext
) -> None:
    channel = slack.channel()
    async with channel.connect():
        slack.lose_next_response()
        part, since = post(channel, "only once"), datetime.now(UTC)
        with pytest.raises(Ambiguous):
            await channel.send(part, "k.0")
        assert [row.text for row in await slack.visible()] == ["only once"]
        found = await channel.find(DM, part, "k.0", None, since)
        assert found is not None
        assert found.message == (await slack.visible())[0].id
        assert await channel.find(DM, part, "k.1", None, since) is None


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("status", 503), Ambiguous),
        (Fault("html", 502), Ambiguous),
        (Fault("html", 200), Ambiguous),
        (Fault("body", b"\xff\xfe{"), Ambiguous),
        (Fault("body", b"{cut off"), Ambiguous),
        (Fault("body", b"[]"), Ambiguous),
        (Fault("body", b'{"ok": true}'), Ambiguous),
        (Fault("reject", "internal_error"), Ambiguous),
        (Fault("reject", "service_unavailable"), NotReady),
        (Fault("reject", "msg_too_long"), Rejected),
        (Fault("reject", "invalid_blocks"), Rejected),
        (Fault("reject", "channel_not_found"), Rejected),
        (Fault("reject", "account_inactive"), AuthFailed),
        (Fault("limit", 7), RateLimited),
        (Fault("status", 404), Rejected),
    ],
)
@pytest.mark.fault(25)
async def test_each_refusal_of_a_post_has_its_class(
    slack: SlackRig, fault: Fault, expected: type[Exception]
) -> None:
    channel = slack.channel()
    async with channel.connect():
        slack.server.faults.append(fault)
        with pytest.raises(expected) as caught:
            await channel.send(post(channel), "k.0")
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_after == 7
    assert [method for method, _ in slack.server.calls].count("chat.postMessage") == 1


async def test_a_post_that_never_left_is_not_ready_and_one_without_answer_in_time_is_ambiguous(
    slack: SlackRig,
) -> None:
    channel = slack.channel(pace=Pace(call=0.5, connect=0.4))
    async with channel.connect():
        slack.server.faults.append(Fault("hang", 30))
        with pytest.raises(Ambiguous):
            await channel.send(post(channel), "k.0")
        slack.down(True)
        with pytest.raises(NotReady):
            await channel.send(post(channel), "k.1")


async def test_an_edit_whose_answer_was_lost_may_simply_be_repeated(slack: SlackRig) -> None:
    channel = slack.channel()
    async with channel.connect():
        receipt = await channel.send(post(channel), "k.0")
        (edit,) = channel.render(Outbound(DM, "better", replaces=(receipt,)))
        slack.lose_next_response()
        with pytest.raises(NotReady):
            await channel.send(edit, "k.1")
        await channel.send(edit, "k.1")
    (row,) = await slack.visible()
    assert row.text == "better"


async def test_a_channel_that_is_not_connected_says_so(slack: SlackRig) -> None:
    channel = slack.channel()
    with pytest.raises(NotReady, match="not connected"):
        await channel.send(post(channel), "k.0")


def test_importing_the_cover_imports_no_sdk() -> None:
    code = "import sys, channels.slack; print('slack_sdk' in sys.modules, 'aiohttp' in sys.modules)"
    printed = python(code)
    assert printed.split() == ["False", "False"]


def test_tokens_are_checked_in_one_clear_line() -> None:
    with pytest.raises(ValueError, match="it starts with xapp-"):
        Settings(bot_token=BOT_TOKEN, app_token=BOT_TOKEN)
    assert BOT_TOKEN not in repr(Settings(bot_token=BOT_TOKEN, app_token=APP_TOKEN))
