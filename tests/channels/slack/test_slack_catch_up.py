"""What was missed: fetched within the fence, in order, once, before the live events of its chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.contract import Address, ChatId, Edited, Outbound, TopicId
from channels.errors import AuthFailed
from channels.slack.adapter import Slack
from ohmo_testing.channels import FakeContext
from tests.channels.listening import on_socket
from tests.platforms.slack.rig import SlackRig, rig
from tests.platforms.slack.server import Fault
from tests.platforms.slack.workspace import BOT, Rules

HISTORY = frozenset({"conversations.history"})


@asynccontextmanager
async def hearing(slack: SlackRig, context: FakeContext) -> AsyncIterator[Slack]:
    channel = slack.channel()
    async with on_socket(slack, channel, context):
        yield channel


async def caught_up(slack: SlackRig, context: FakeContext) -> None:
    """Every chat's catch-up is over as soon as a live message of each chat was published."""
    count = len(context.messages)
    for chat in ("dm:ada", "dm:bob", "group"):
        await slack.says(
            f"probe {chat}", chat=chat, person="bob" if chat == "dm:bob" else "ada", mention=False
        )
    await context.until(
        lambda now: sum(message.text.startswith("probe ") for message in now.messages[count:]) == 3
    )


def heard(context: FakeContext) -> list[str]:
    return [message.text for message in context.messages if not message.text.startswith("probe ")]


@pytest.fixture
async def slack() -> AsyncIterator[SlackRig]:
    # nothing comes again by itself: only catch-up can bring what was missed
    async with rig(Rules(retries=False)) as one:
        yield one


async def test_direct_messages_calls_and_replies_said_meanwhile_are_fetched_once_and_in_order(
    slack: SlackRig, context: FakeContext
) -> None:
    async with hearing(slack, context):
        root = await slack.says("let us talk", chat="group")
        await caught_up(slack, context)
    await slack.says("one")
    await slack.says("two")
    await slack.says("in the thread", chat="group", topic=root, mention=False)
    await slack.says("called", chat="group")
    await slack.says("not called", chat="group", mention=False)
    async with hearing(slack, context):
        await caught_up(slack, context)
    direct = [
        message
        for message in context.messages
        if message.address.chat == "D0ADA" and "probe" not in message.text
    ]
    group = [
        message
        for message in context.messages
        if message.address.chat == "C0GROUP" and "probe" not in message.text
    ]
    assert [message.text for message in direct] == ["one", "two"]
    assert [(message.text, message.addressed) for message in group] == [
        ("let us talk", True),
        ("in the thread", True),
        ("called", True),
        ("not called", False),
    ]
    assert group[1].address.topic == root
    assert group[2].address.topic == group[2].message
    assert group[3].address.topic is None


async def test_a_thread_that_is_older_than_the_window_of_history_is_still_followed(
    slack: SlackRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, oldest=timedelta(hours=1))
    start = slack.server.workspace.clock()
    now = [start - 7200]
    slack.server.workspace.clock = lambda: now[0]
    root = await slack.says("an old thread", chat="group")
    async with hearing(slack, context):
        # a call inside the thread: from now on it is followed
        await slack.says("we go on here", chat="group", topic=root)
        await context.texts(1)
    now[0] = start
    await slack.says("and on", chat="group", topic=root, mention=False)
    async with hearing(slack, context):
        await context.until(
            lambda so_far: "and on" in [message.text for message in so_far.messages]
        )
    assert [message.addressed for message in context.messages if message.text == "and on"] == [True]


@pytest.mark.fault(28)
async def test_an_edit_made_meanwhile_arrives_and_equals_the_live_one(
    slack: SlackRig, context: FakeContext
) -> None:
    async with hearing(slack, context):
        message = await slack.says("teh question")
        await context.texts(1)
    await slack.edits(message, "the question")
    async with hearing(slack, context):
        await context.until(
            lambda now: any(isinstance(arrival, Edited) for arrival in now.arrivals)
        )
    edits = [arrival for arrival in context.arrivals if isinstance(arrival, Edited)]
    assert [(edit.message, edit.text) for edit in edits] == [(message, "the question")]


async def test_the_101st_missed_message_is_counted_aloud_where_it_was_said(
    slack: SlackRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, most=100)
    for number in range(101):
        await slack.says(f"m-{number}")
    async with hearing(slack, context):
        assert await context.texts(100) == [f"m-{number}" for number in range(1, 101)]
    async with hearing(slack, context):  # what was counted once is read
        await caught_up(slack, context)
    ((text, address),) = context.gaps
    assert text.startswith("Not read: 1 message said here between ")
    assert "takes the newest 100 of a conversation (channels.slack.catch_up)" in text
    assert address == Address("slack", "T0HOUSE", ChatId("D0ADA"))
    assert len(heard(context)) == 100


async def test_talk_of_a_channel_that_called_nobody_is_counted_to_the_owner_only(
    slack: SlackRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, most=2)
    for number in range(6):
        await slack.says(f"chatter {number}", chat="group", mention=False)
    async with hearing(slack, context):
        await context.until(lambda now: bool(now.gaps))
    ((text, address),) = context.gaps
    assert text.startswith("Not read: 4 messages said on Slack in C0GROUP between ")
    assert address is None


async def test_a_call_among_the_left_out_is_counted_in_its_channel(
    slack: SlackRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, most=2)
    await slack.says("please help", chat="group")
    for number in range(4):
        await slack.says(f"chatter {number}", chat="group", mention=False)
    async with hearing(slack, context):
        await context.until(lambda now: bool(now.gaps))
    assert [(text[:21], address.chat if address else None) for text, address in context.gaps] == [
        ("Not read: 3 messages ", "C0GROUP")
    ]


async def test_a_quiet_conversation_is_no_gap_however_old_its_last_message_is(
    slack: SlackRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, oldest=timedelta(hours=1))
    start = datetime.now(UTC).timestamp()
    now = [start - 90_000]
    slack.server.workspace.clock = lambda: now[0]
    async with hearing(slack, context):
        await slack.says("read long ago")
        await context.texts(1)
    now[0] = start
    async with hearing(slack, context):
        await caught_up(slack, context)
    assert context.gaps == []


async def test_the_age_fence_leaves_out_the_old_and_counts_them_aloud(
    slack: SlackRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, oldest=timedelta(hours=1))
    now = [datetime.now(UTC).timestamp() - 9000]
    slack.server.workspace.clock = lambda: now[0]
    async with hearing(slack, context):
        await slack.says("read long ago")
        await context.texts(1)
    now[0] += 1800
    await slack.says("too old")
    now[0] += 7200
    await slack.says("fresh")
    async with hearing(slack, context):
        await caught_up(slack, context)
    assert heard(context) == ["read long ago", "fresh"]
    assert [(text[:31], address.chat if address else None) for text, address in context.gaps] == [
        ("Not read: 1 message said here b", "D0ADA")
    ]


async def test_live_events_of_a_chat_wait_behind_its_catch_up_and_other_chats_do_not(
    slack: SlackRig, context: FakeContext
) -> None:
    async with hearing(slack, context):
        await caught_up(slack, context)
    await slack.says("missed")
    # direct messages are read first: one of the two has to wait
    slack.server.faults.append(Fault("limit", 2, HISTORY))
    slack.server.faults.append(Fault("limit", 2, HISTORY))
    async with hearing(slack, context):
        await slack.server.until(lambda server: not server.faults)
        await slack.says("live")
        await slack.says("elsewhere", chat="group")
        await context.until(lambda now: "elsewhere" in heard(now))
        await context.until(lambda now: "live" in heard(now))
    direct = [text for text in heard(context) if text != "elsewhere"]
    assert direct == ["missed", "live"]


@pytest.mark.fault(23)
async def test_a_rate_limit_of_history_is_waited_for_and_nothing_is_skipped(
    slack: SlackRig, context: FakeContext
) -> None:
    await slack.says("patience")
    for _ in range(3):
        slack.server.faults.append(Fault("limit", 1, HISTORY))
    async with hearing(slack, context):
        assert await context.texts(1) == ["patience"]


async def test_without_a_cursor_nothing_that_was_answered_is_read_again(
    slack: SlackRig, tmp_path: Path
) -> None:
    first = FakeContext(tmp_path)
    async with hearing(slack, first) as channel:
        await slack.says("answered")
        call = await slack.says("answered too", chat="group")
        await first.texts(2)
        direct, group = (
            Address("slack", "T0HOUSE", ChatId("D0ADA")),
            Address("slack", "T0HOUSE", ChatId("C0GROUP"), TopicId(call)),
        )
        for address in (direct, group):
            (part,) = channel.render(Outbound(address, "the answer"))
            await channel.send(part, "k.0")
    await slack.says("open", chat="dm:ada")
    await slack.says("open in the thread", chat="group", topic=call, mention=False)
    lost = FakeContext(tmp_path)  # the store is new: no cursors
    async with hearing(slack, lost):
        await caught_up(slack, lost)
    assert sorted(heard(lost)) == ["open", "open in the thread"]


async def test_small_pages_and_many_conversations_are_all_read(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    async with rig(Rules(retries=False, page=15)) as slack:
        for number in range(40):
            await slack.says(f"m-{number}")
        async with hearing(slack, context):
            await caught_up(slack, context)
        assert heard(context) == [f"m-{number}" for number in range(40)]


async def test_a_conversation_that_may_not_be_read_does_not_stop_the_others(
    slack: SlackRig, context: FakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    slack.server.scopes_missing["conversations.replies"] = "channels:history"
    root = await slack.says("a root", chat="group")
    await slack.says("a reply", chat="group", topic=root)
    await slack.says("hello")
    async with hearing(slack, context):
        await caught_up(slack, context)
    assert "hello" in heard(context)
    assert "channels:history" in caplog.text
    ((text, address),) = context.gaps
    assert "channels:history" in text
    assert address is None


async def test_a_new_conversation_is_heard_although_it_was_never_listed(
    slack: SlackRig, context: FakeContext
) -> None:
    async with hearing(slack, context):
        await caught_up(slack, context)
        slack.server.workspace.add_chat("C0NEW", "new")
        slack.server.workspace.says("C0NEW", "U0BOB", f"<@{BOT}> welcome")
        await context.until(lambda now: "welcome" in heard(now))
    assert "C0NEW" in context.cursors


async def test_own_posts_and_slacks_own_lines_of_history_are_no_arrivals_and_other_bots_say_that_they_are_bots(
    slack: SlackRig, context: FakeContext
) -> None:
    workspace = slack.server.workspace
    workspace.says("C0GROUP", BOT, "mine", bot_id="B0OHMO")
    workspace.says("C0GROUP", "U0OTHER", "I am a bot", bot_id="B0OTHER")
    workspace.says("C0GROUP", "U0ADA", "has joined", subtype="channel_join")
    await slack.says("hello")
    async with hearing(slack, context):
        await caught_up(slack, context)
    said = {message.text: message.person.bot for message in context.messages}
    assert {text: said[text] for text in heard(context)} == {"I am a bot": True, "hello": False}


@pytest.mark.fault(29)
async def test_an_event_that_was_lost_although_a_newer_one_was_stored_is_still_fetched(
    slack: SlackRig, context: FakeContext
) -> None:
    async with hearing(slack, context):
        await caught_up(slack, context)
        emit, slack.server.workspace.emit = slack.server.workspace.emit, lambda _: None
        await slack.says("Slack never delivered this")
        slack.server.workspace.emit = emit
        await slack.says("but this")
        await context.until(lambda now: "but this" in heard(now))
    async with hearing(slack, context):
        await context.until(lambda now: "Slack never delivered this" in heard(now))
    assert len(heard(context)) == 2


async def test_a_person_whose_name_cannot_be_had_is_heard_by_id(
    slack: SlackRig, context: FakeContext
) -> None:
    slack.server.scopes_missing["users.info"] = "users:read"
    await slack.says("who am I?")
    async with hearing(slack, context):
        await context.texts(1)
    assert context.messages[0].person.name == "U0ADA"


@pytest.mark.fault(26)
async def test_a_revoked_app_is_told_from_a_lost_connection(
    slack: SlackRig, context: FakeContext
) -> None:
    channel = slack.channel()
    async with channel.connect():
        task = asyncio.create_task(channel.receive(context))
        await caught_up(slack, context)  # only the socket can notice from here on
        slack.revoke()
        with pytest.raises(AuthFailed, match="token_revoked"):
            await asyncio.wait_for(task, 15)
