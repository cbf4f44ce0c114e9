"""One suite for every chat platform: what the house relies on, whatever stands behind the
contract."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.contract import Answer, Channel, Choice, Edited, Outbound, Part, Repeat
from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from ohmo_testing.channels import FakeContext
from tests.conformance.channels.stage import (
    PLATFORMS,
    SDKS,
    can,
    deliver,
    eventually,
    factory,
    has_rig,
    live,
    one,
    place,
    platform,
    shown,
    stored,
    texts,
)
from tests.conformance.rig import Rig
from tests.parts import skip_on
from tests.programs import python

ROOT = Path(__file__).parents[3]
KEY = "01k9y2p7q3r4s5t6v7w8xy"  # 22 characters, as the house makes them
NEEDS = {"matrix": (pytest.mark.needs("synapse"),)}
NASTY = "*_[`<b>&amp;</b>~|> # - 1. ![x](y) @room <@U1> <!channel> \\ {} ***unclosed `` ` _"


@pytest.fixture(
    params=[
        pytest.param(name, marks=NEEDS.get(name, ()))
        for name in ("fake", *filter(has_rig, PLATFORMS))
    ]
)
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with factory(request.param)() as made:
        yield made


@pytest.fixture
def channel(rig: Rig) -> Channel:
    return rig.channel()


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return FakeContext(state)


# What people say


async def test_a_message_that_could_not_be_stored_comes_again_and_arrives_once(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        await rig.says("first")
        await texts(context, 1, task)
        context.refuse()
        await rig.says("second")
        assert await texts(context, 2, task) == ["first", "second"]
    assert context.refused == 1


@pytest.mark.fault(27)
async def test_a_message_delivered_again_has_the_same_name(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        message = await rig.says("hello")
        await texts(context, 1, task)
        await can(rig, rig.redeliver, message)
        await rig.says("marker")
        assert await texts(context, 2, task) == ["hello", "marker"]
    again = [
        arrival.key
        for batch in context.batches
        for arrival in batch.arrivals
        if getattr(arrival, "message", None) == message
    ]
    assert len(set(again)) == 1


async def test_messages_of_a_chat_arrive_in_their_order(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    said = [f"number {number}" for number in range(8)]
    async with live(channel, context) as task:
        for text in said:
            await rig.says(text)
        await texts(context, len(said), task)
    ordered = sorted(context.messages, key=lambda message: message.order)
    assert [message.text for message in ordered] == said
    assert len({message.order for message in ordered}) == len(said)


async def test_what_was_said_while_away_is_fetched_once_and_before_what_follows(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        await rig.says("before")
        await texts(context, 1, task)
    await rig.says("while away 1")
    await rig.says("while away 2")
    async with live(rig.channel(), context) as task:
        await texts(context, 3, task)
        await rig.says("after")
        assert await texts(context, 4, task) == ["before", "while away 1", "while away 2", "after"]
    names = [
        arrival.key
        for batch in context.batches
        for arrival in batch.arrivals
        if getattr(arrival, "text", "").startswith("while")
    ]
    assert len(set(names)) == 2


@pytest.mark.fault(20)
async def test_a_cut_connection_loses_nothing(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        await rig.says("before")
        await texts(context, 1, task)
        await can(rig, rig.cut)
        await rig.says("just after")
        assert await texts(context, 2, task) == ["before", "just after"]


async def test_what_was_said_during_an_outage_arrives_after_it(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        await rig.says("before")
        await texts(context, 1, task)
        can(rig, rig.down, True)
        await rig.says("during")
        rig.down(False)
        assert await texts(context, 2, task) == ["before", "during"]


async def test_a_private_message_says_who_where_and_when(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        message = await rig.says("hello")
        await texts(context, 1, task)
        (heard,) = context.messages
        assert (heard.message, heard.private, heard.addressed, heard.address.channel) == (
            message,
            True,
            True,
            rig.name,
        )
        assert heard.address.account == channel.account
        assert heard.person.id
        assert not heard.person.bot
        assert abs(datetime.now(UTC) - heard.at) < timedelta(hours=1)


async def test_in_a_group_only_a_mention_addresses_the_bot(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        try:
            await rig.says("to everybody", chat="group", mention=False)
        except (NotImplementedError, KeyError):
            skip_on(platform(rig), "groups")
        await rig.says("to you", chat="group", person="bob")
        await texts(context, 2, task)
    everybody, you = context.messages
    assert (everybody.private, everybody.addressed) == (False, False)
    assert (you.private, you.addressed) == (False, True)
    assert everybody.person.id != you.person.id
    assert everybody.address.chat == you.address.chat


async def test_an_edit_by_its_person_names_the_message(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        message = await rig.says("helo")
        await texts(context, 1, task)
        try:
            await rig.edits(message, "hello")
        except NotImplementedError:
            skip_on(platform(rig), "edits")
        await context.until(
            lambda context: any(isinstance(arrival, Edited) for arrival in context.arrivals)
        )
    edited = next(arrival for arrival in context.arrivals if isinstance(arrival, Edited))
    assert (edited.message, edited.text) == (message, "hello")
    assert edited.key != context.messages[0].key


# What the bot says


async def test_a_post_is_visible_and_its_receipt_names_it(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (receipt,) = await deliver(channel, Outbound(address, "hello there"))
    (said,) = await shown(rig, lambda seen: len(seen) > 0)
    assert (said.id, said.text) == (receipt.message, "hello there")


async def test_a_repeat_under_the_same_key_does_what_the_capabilities_say(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "once"))
        since = datetime.now(UTC) - timedelta(minutes=1)
        first = await channel.send(part, f"{KEY}.0")
        if channel.capabilities.repeat is Repeat.SAFE:
            again = await channel.send(stored(part), f"{KEY}.0")
            assert again.message == first.message
            assert channel.capabilities.repeat_window > timedelta(0)
        elif channel.capabilities.repeat is Repeat.LOOK:
            found = await channel.find(address, part, f"{KEY}.0", None, since)
            assert found is not None
            assert found.message == first.message
            assert await channel.find(address, part, f"{KEY}.1", None, since) is None
        await deliver(channel, Outbound(address, "marker"), "01k9y2p7q3r4s5t6v7w8zz")
    said = await shown(rig, lambda seen: any(one.text == "marker" for one in seen))
    assert [one.text for one in said] == ["once", "marker"]


@pytest.mark.fault(24)
async def test_a_lost_answer_is_ambiguous_and_settles_without_a_double(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "once"))
        since = datetime.now(UTC) - timedelta(minutes=1)
        can(rig, rig.lose_next_response)
        with pytest.raises(Ambiguous):
            await channel.send(part, f"{KEY}.0")
        (said,) = await shown(rig, lambda seen: len(seen) > 0)
        if channel.capabilities.repeat is Repeat.SAFE:
            assert (await channel.send(part, f"{KEY}.0")).message == said.id
        elif channel.capabilities.repeat is Repeat.LOOK:
            found = await channel.find(address, part, f"{KEY}.0", None, since)
            assert found is not None
            assert found.message == said.id
    assert len(await shown(rig, lambda seen: len(seen) > 0)) == 1


@pytest.mark.fault(23)
async def test_a_rate_limit_says_how_long_to_wait_and_shows_nothing(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "later"))
        can(rig, rig.limit_next, 7.0)
        with pytest.raises(RateLimited) as limited:
            await channel.send(part, f"{KEY}.0")
        assert 1.0 <= limited.value.retry_after <= 10.0
        assert await shown(rig, lambda seen: True) == []
        await channel.send(part, f"{KEY}.0")
    assert len(await shown(rig, lambda seen: len(seen) > 0)) == 1


@pytest.mark.fault(25)
async def test_refused_content_is_rejected_and_shows_nothing(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "never"))
        can(rig, rig.reject_next)
        with pytest.raises(Rejected):
            await channel.send(part, f"{KEY}.0")
    assert await shown(rig, lambda seen: True) == []


@pytest.mark.fault(24)
async def test_a_send_during_an_outage_fails_as_a_channel_error_and_works_afterwards(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "hello"))
        can(rig, rig.down, True)
        with pytest.raises((NotReady, Ambiguous)):
            await channel.send(part, f"{KEY}.0")
        rig.down(False)
    async with channel.connect():
        await channel.send(part, f"{KEY}.0")
    (said,) = await shown(rig, lambda seen: len(seen) > 0)
    assert said.text == "hello"


@pytest.mark.fault(26)
async def test_revoked_credentials_fail_everything_until_they_are_accepted_again(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "hello"))
        can(rig, rig.revoke)
        with pytest.raises(AuthFailed):
            await _sent_over_a_new_connection(channel, part, f"{KEY}.0")
    with pytest.raises(AuthFailed):
        async with rig.channel().connect():
            pass
    rig.revoke(False)
    async with live(rig.channel(), context) as task:
        await rig.says("welcome back")
        assert (await texts(context, 2, task))[-1] == "welcome back"


@pytest.mark.fault(26)
async def test_a_receiving_channel_notices_that_its_credentials_were_revoked(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    async with live(channel, context) as task:
        await rig.says("hello")
        await texts(context, 1, task)
        can(rig, rig.revoke)
        await can(rig, rig.cut)
        with pytest.raises(AuthFailed):
            await asyncio.wait_for(task, 30)
    rig.revoke(False)


async def test_an_outage_makes_connect_fail_as_not_ready(rig: Rig, channel: Channel) -> None:
    can(rig, rig.down, True)
    with pytest.raises(NotReady):
        async with channel.connect():
            pass
    rig.down(False)


async def test_a_replacement_edits_posts_the_rest_and_deletes_the_surplus(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    if channel.capabilities.revise is None:
        skip_on(platform(rig), "revise")
    address = await place(rig, channel, context)
    async with channel.connect():
        draft = await deliver(channel, Outbound(address, "draft"), "01k9y2p7q3r4s5t6v7w8aa")
        long = "\n\n".join(
            f"paragraph {number} " + "word " * 40
            for number in range(channel.capabilities.max_text // 200 + 2)
        )
        grown = await deliver(
            channel, Outbound(address, long, replaces=tuple(draft)), "01k9y2p7q3r4s5t6v7w8bb"
        )
        seen = await shown(
            rig, lambda seen: len(seen) == len(grown) and "paragraph 0" in seen[0].text
        )
        assert len(grown) > 1
        assert seen[0].id == draft[0].message
        assert [one.id for one in seen] == [receipt.message for receipt in grown]
        await deliver(
            channel, Outbound(address, "short", replaces=tuple(grown)), "01k9y2p7q3r4s5t6v7w8cc"
        )
    (last,) = await shown(rig, lambda seen: len(seen) == 1 and seen[0].text == "short")
    assert last.id == draft[0].message


async def test_a_revision_changes_what_a_draft_says(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    if channel.capabilities.revise is None:
        skip_on(platform(rig), "revise")
    address = await place(rig, channel, context)
    async with channel.connect():
        (receipt,) = await deliver(channel, Outbound(address, "thinking"))
        await channel.revise(address, receipt, "thinking harder")
    (said,) = await shown(rig, lambda seen: bool(seen) and seen[0].text == "thinking harder")
    assert said.id == receipt.message


async def test_a_long_text_is_split_and_nothing_of_it_is_lost(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    words = [f"w{number:05d}" for number in range(channel.capabilities.max_text // 4)]
    lines = [" ".join(words[start : start + 20]) for start in range(0, len(words), 20)]
    text = "# Title\n\n" + "\n\n".join(
        f"- **{line[:6]}** {line[7:]}" if number % 3 else line for number, line in enumerate(lines)
    )
    async with channel.connect():
        parts = channel.render(Outbound(address, text))
        receipts = await deliver(channel, Outbound(address, text))
    assert len(parts) > 1
    seen = await shown(rig, lambda seen: len(seen) == len(receipts))
    everything = " ".join(one.text for one in seen)
    at = 0
    for word in words:  # all of them, in order
        assert (at := everything.find(word, at)) >= 0, f"{word} is missing, or comes too early"


async def test_a_long_code_block_is_split_and_nothing_of_it_is_lost(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    lines = [
        f"line_{number:05d} = {number} * 2 < 3 & 4"
        for number in range(channel.capabilities.max_text // 20)
    ]
    async with channel.connect():
        receipts = await deliver(
            channel, Outbound(address, "```python\n" + "\n".join(lines) + "\n```")
        )
    assert len(receipts) > 1
    seen = await shown(rig, lambda seen: len(seen) == len(receipts))
    everything = "\n".join(one.text for one in seen)
    assert [line.split()[0] for line in lines if line.split()[0] not in everything] == []


@pytest.mark.parametrize(
    "text",
    [
        NASTY,
        "<b>unclosed",
        "```\nopen fence",
        "a\u200db \U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u0631\u062d\u0628\u0627",
    ],
)
@pytest.mark.fault(34)
async def test_any_text_is_accepted(
    rig: Rig, channel: Channel, context: FakeContext, text: str
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        await deliver(channel, Outbound(address, text))
    assert len(await shown(rig, lambda seen: len(seen) > 0)) == 1


async def test_plain_says_the_text_as_it_is(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    text = "2 * 3 _is_ `six` **not** <b>bold</b> [x](y) & 5 < 6"
    async with channel.connect():
        await deliver(channel, Outbound(address, text, plain=True))
    (said,) = await shown(rig, lambda seen: len(seen) > 0)
    assert said.text == text


async def test_a_marked_part_says_what_it_said_and_that_it_may_be_a_duplicate(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "the figures"))
        marked = channel.mark(stored(part))
        assert marked != part
        await channel.send(marked, f"{KEY}.0")
    (said,) = await shown(rig, lambda seen: len(seen) > 0)
    assert "the figures" in said.text
    assert "duplicate" in said.text


async def test_a_pressed_choice_comes_back_as_an_answer(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    if not channel.capabilities.choices:
        skip_on(platform(rig), "choices")
    address = await place(rig, channel, context)
    value = "a" * 36 + ":yes"  # the longest the contract allows
    async with live(channel, context):
        choices = (Choice(value, "Yes", "good"), Choice("no", "No", "danger"))
        (receipt,) = await deliver(channel, Outbound(address, "Shall I?", choices=choices))
        (said,) = await shown(rig, lambda seen: len(seen) > 0)
        assert set(said.choices) == {value, "no"}
        await rig.presses(receipt.message, value)
        await context.until(
            lambda context: any(isinstance(arrival, Answer) for arrival in context.arrivals)
        )
        answer = next(arrival for arrival in context.arrivals if isinstance(arrival, Answer))
        assert (answer.choice, answer.message, answer.address.chat) == (
            value,
            receipt.message,
            address.chat,
        )
        assert answer.person.id == context.messages[0].person.id
        await channel.acknowledge(answer, "Thank you")


async def test_an_answer_in_a_topic_stays_in_it(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    if not channel.capabilities.topics:
        skip_on(platform(rig), "topics")
    opened = getattr(rig, "new_topic", None)  # where a topic is more than a message one answers to
    # Telegram: topic 1 is the General one, which nobody may name
    await rig.says("hello everybody", chat="group")
    topic = (
        await opened("group") if opened is not None else await rig.says("the root", chat="group")
    )
    async with live(channel, context) as task:
        await rig.says("in the topic", chat="group", topic=topic)
        await texts(context, 1, task)
        await context.until(
            lambda context: any(message.text == "in the topic" for message in context.messages)
        )
    address = next(
        message.address for message in context.messages if message.text == "in the topic"
    )
    assert address.topic == topic
    async with channel.connect():
        await deliver(channel, Outbound(address, "an answer"))
    (said,) = await shown(rig, lambda seen: len(seen) > 0, "group")
    assert said.topic == topic


async def test_files_arrive_with_the_words(
    rig: Rig, channel: Channel, context: FakeContext, tmp_path: Path
) -> None:
    file = tmp_path / "figures.csv"
    file.write_text("a,b\n1,2\n")
    address = await place(rig, channel, context)
    async with channel.connect():
        if channel.capabilities.max_file < 100:
            skip_on(platform(rig), "files")
        await deliver(channel, Outbound(address, "here they are", files=(file,)))
    seen = await shown(rig, lambda seen: any(one.files for one in seen))
    assert any("here they are" in one.text for one in seen)
    assert [name for one in seen for name in one.files] == ["figures.csv"]


async def test_typing_can_be_shown(rig: Rig, channel: Channel, context: FakeContext) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        await channel.typing(address, True)
        await channel.typing(address, False)
        await channel.menu([("stop", "Stop what is running")])


# Forms


async def test_parts_survive_storage_and_another_adapter_sends_them(
    rig: Rig, channel: Channel, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "stored"))
        assert part == stored(part)
        assert isinstance(json.loads(part.payload), dict)
    other = rig.channel()
    async with other.connect():
        assert other.render(Outbound(address, "stored")) == (part,)
        await one(other, stored(part), f"{KEY}.12")  # 25 characters
    (said,) = await shown(rig, lambda seen: len(seen) > 0)
    assert said.text == "stored"


async def test_rendering_gives_at_least_one_part_whatever_is_said(
    channel: Channel, rig: Rig, context: FakeContext
) -> None:
    address = await place(rig, channel, context)
    async with channel.connect():
        for text in ("", " ", "\n", "```\n```", "a"):
            assert len(channel.render(Outbound(address, text))) >= 1


async def test_the_account_is_the_same_for_every_connection(rig: Rig, channel: Channel) -> None:
    async with channel.connect():
        first = channel.account
    other = rig.channel()
    async with other.connect():
        assert other.account == first
        assert first


async def test_cancelling_leaves_no_task_behind(rig: Rig, context: FakeContext) -> None:
    # by channels, not by the platform's server in this process
    started: set[asyncio.Task[Any]] = set()
    loop = asyncio.get_running_loop()

    def remember(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename.startswith(str(ROOT / "channels")):
                started.add(task)
            frame = frame.f_back
        return task

    loop.set_task_factory(remember)
    channel = rig.channel()
    async with live(channel, context) as task:
        await rig.says("hello")
        await texts(context, 1, task)
    connecting = asyncio.create_task(_connected(rig.channel()))
    await asyncio.sleep(0)
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    loop.set_task_factory(None)

    async def alive() -> list[str]:
        return [repr(task) for task in started if not task.done()]

    await eventually(alive, lambda names: not names)


async def _sent_over_a_new_connection(channel: Channel, part: Part, key: str) -> None:
    """Revoking may have dropped the connection, too."""
    try:
        await channel.send(part, key)
    except (Ambiguous, NotReady):
        await channel.send(part, key)


async def _connected(channel: Channel) -> None:
    try:
        async with channel.connect():
            await asyncio.get_running_loop().create_future()
    except ChannelError:
        return


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_platform_has_a_rig(name: str) -> None:
    assert has_rig(name)


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_channel_package_is_imported_without_its_sdk(name: str) -> None:
    program = (
        f"import sys, channels.{name} as c; print(c.MANIFEST.name, *sorted(set(sys.modules) &"
        f" {set(SDKS)!r}))"
    )
    printed = python(program, cwd=ROOT)
    assert printed.split() == [name]
