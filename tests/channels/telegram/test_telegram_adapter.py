"""The adapter against the loopback Bot API, through the real SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from channels.contract import (
    Address,
    Answer,
    Attachment,
    Channel,
    ChatId,
    Choice,
    Edited,
    Options,
    Outbound,
    Reacted,
    Receipt,
)
from channels.errors import (
    Ambiguous,
    AuthFailed,
    ChannelError,
    InUse,
    NotReady,
    RateLimited,
    Rejected,
    Unavailable,
)
from channels.telegram import Settings
from channels.telegram.adapter import Telegram
from ohmo_testing.channels import FakeContext
from tests.channels.listening import listening
from tests.channels.second import stopped
from tests.platforms.telegram.rig import QUICK, TelegramRig, rig
from tests.platforms.telegram.rules import Refusal, Rules
from tests.platforms.telegram.world import BOT, GROUP
from tests.programs import server

ADA = Address("telegram", "7000001", ChatId("1001"))
ROOT = Path(__file__).parents[3]
KEY = "0123456789abcdefghijkl.0"


@pytest.fixture
async def telegram() -> AsyncGenerator[TelegramRig]:
    async with rig() as made:
        yield made


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path / "state")


async def condition(holds: Callable[[], bool], within: float = 20.0) -> None:
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.01)


async def say(channel: Channel, outbound: Outbound) -> list[Receipt]:
    return [
        await channel.send(part, KEY, await channel.upload(part) if part.kind == "file" else None)
        for part in channel.render(outbound)
    ]


async def until_known(channel: Channel, outbound: Outbound) -> list[Receipt]:
    """A send on a connection that has just died may have arrived; on a new one it is known."""
    for _ in range(40):
        try:
            return await say(channel, outbound)
        except Ambiguous:
            continue
    raise AssertionError("ambiguous for ever")


# Hearing


async def test_what_was_said_while_the_bot_was_away_arrives_in_order_before_what_is_said_now(
    telegram: TelegramRig, context: FakeContext
) -> None:
    for number in range(120):  # more than one poll holds
        await telegram.says(f"early {number}")
    async with listening(telegram.channel(), context):
        await context.texts(120)
        await telegram.says("now")
        assert await context.texts(121) == [*(f"early {number}" for number in range(120)), "now"]


async def test_nothing_is_confirmed_before_it_is_stored(
    telegram: TelegramRig, context: FakeContext
) -> None:
    await telegram.says("keep me")
    context.refuse(1)
    async with telegram.channel().connect() as _:
        pass
    channel = telegram.channel()
    async with channel.connect():
        with pytest.raises(Unavailable):
            await channel.receive(context)
    assert len(telegram.server.world.queue) == 1
    async with listening(telegram.channel(), context):
        assert await context.texts(1) == ["keep me"]


async def test_a_crash_between_commit_and_confirmation_brings_the_same_key_again(
    telegram: TelegramRig, context: FakeContext
) -> None:
    await telegram.says("once")

    class Dies(FakeContext):
        async def publish(self, arrivals, cursor=None):
            await context.publish(arrivals, cursor)
            raise Unavailable("killed right after the commit")

    channel = telegram.channel()
    async with channel.connect():
        with pytest.raises(Unavailable):
            await channel.receive(Dies(context.state))
    async with listening(telegram.channel(), context):
        await context.until(lambda it: len(it.batches) == 2)
    assert [batch.arrivals[0].key for batch in context.batches] == ["1001/1", "1001/1"]
    assert [message.text for message in context.messages] == ["once"]


async def test_the_poll_after_the_commit_confirms(
    telegram: TelegramRig, context: FakeContext
) -> None:
    await telegram.says("one")
    async with listening(telegram.channel(), context):
        await context.texts(1)
        await condition(lambda: not telegram.server.world.queue)


@pytest.mark.fault(22)
async def test_a_mute_connection_is_noticed_and_nothing_is_missed(
    telegram: TelegramRig, context: FakeContext
) -> None:
    telegram.pace = replace(telegram.pace, connect=0.3, poll=1)
    async with listening(telegram.channel(), context) as task:
        await telegram.says("before")
        await context.texts(1)
        telegram.server.faults.mute = True
        await telegram.says("meanwhile")
        with pytest.raises(NotReady, match="no answer"):
            await asyncio.wait_for(task, 20)
    telegram.server.faults.mute = False
    async with listening(telegram.channel(), context):
        assert await context.texts(2) == ["before", "meanwhile"]


@pytest.mark.fault(29)
async def test_lower_update_numbers_after_a_quiet_week_are_not_thrown_away(
    telegram: TelegramRig, context: FakeContext
) -> None:
    await telegram.says("before the quiet week")
    async with listening(telegram.channel(), context):
        await context.texts(1)
        life = context.signs_of_life
        await context.until(lambda it: it.signs_of_life >= life + 2)  # an empty poll has gone by
        telegram.server.world.next_update = 17
        await telegram.says("after it")
        assert (await context.texts(2))[-1] == "after it"


async def test_an_edit_a_reaction_and_a_press_arrive_as_what_they_are(
    telegram: TelegramRig, context: FakeContext
) -> None:
    channel = telegram.channel()
    async with listening(channel, context):
        message = await telegram.says("teh")
        await context.texts(1)
        await telegram.edits(message, "the")
        telegram.server.world.react(int(message), "👍", "dm:ada", "ada")
        (receipt,) = await say(
            channel, Outbound(ADA, "Sure?", choices=(Choice("yes:1", "Yes"), Choice("no:1", "No")))
        )
        await telegram.presses(receipt.message, "no:1")
        await context.until(lambda it: len(it.arrivals) == 4)
        edited, reacted, answer = context.arrivals[1:]
        assert isinstance(edited, Edited)
        assert (edited.message, edited.text) == (message, "the")
        assert isinstance(reacted, Reacted)
        assert (reacted.emoji, reacted.added) == ("👍", True)
        assert isinstance(answer, Answer)
        assert (answer.message, answer.choice) == (receipt.message, "no:1")
        await channel.acknowledge(answer, "Noted")
        assert telegram.server.world.presses[answer.token] == "Noted"
        await channel.acknowledge(answer, "Noted again: too late, and no failure")


@pytest.mark.fault(31)
async def test_malformed_updates_are_kept_aside_and_the_next_good_one_is_heard(
    telegram: TelegramRig, context: FakeContext
) -> None:
    world = telegram.server.world
    for bad in (
        {"message": {"message_id": "x", "date": 1, "chat": {"id": 5}}},
        {"message": 7},
        {
            "message": {
                "message_id": 1,
                "date": 1 << 39,
                "chat": {"id": 1},
                "from": {"id": 2},
                "text": "no calendar has this day",
            }
        },
        {"callback_query": {"id": 5}},
        {"something_new": {"a": 1}},
        {
            "message": {
                "message_id": 9,
                "date": 1700000000,
                "chat": {"id": 5},
                "new_chat_title": "a service message",
            }
        },
    ):
        world.enqueue_raw(bad)
    await telegram.says("good")
    async with listening(telegram.channel(), context):
        assert await context.texts(1) == ["good"]
        await condition(lambda: not world.queue)
    assert len(list((context.state / "malformed").iterdir())) == 4


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>502</html>",
        b"\xff\xfe{}",
        b"[1]",
        b'{"ok": true, "result": {}}',
        b"[" * 100_000,
        b"x" * 10_000_000,
    ],
)
@pytest.mark.fault(31)
async def test_an_answer_that_cannot_be_read_is_kept_aside_and_nothing_of_the_queue_is_lost(
    telegram: TelegramRig, context: FakeContext, answer: bytes
) -> None:
    telegram.server.faults.babble = answer.decode("latin-1")
    await telegram.says("good")
    async with listening(telegram.channel(), context):
        assert await context.texts(1) == ["good"]
    (kept,) = (context.state / "malformed").iterdir()
    assert kept.read_bytes() == answer[:4096]


@pytest.mark.fault(27)
async def test_a_known_message_delivered_again_has_the_same_key(
    telegram: TelegramRig, context: FakeContext
) -> None:
    message = await telegram.says("twice")
    await telegram.redeliver(message)
    await telegram.says("end")
    async with listening(telegram.channel(), context):
        assert await context.texts(2) == ["twice", "end"]


async def test_messages_older_than_the_fence_come_as_one_that_says_so(
    telegram: TelegramRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, oldest=timedelta(hours=1))
    now = telegram.server.clock()
    telegram.server.world.clock = lambda: now - 7200
    for number in range(3):
        await telegram.says(f"old {number}")
    telegram.server.world.clock = lambda: now
    await telegram.says("new")
    async with listening(telegram.channel(), context):
        old, new = await context.texts(2)
        assert "3 messages" in old
        assert old.endswith("old 2")
        assert new == "new"
        assert context.arrivals[0].aliases == ("1001/1", "1001/2")


@pytest.mark.fault(30)
async def test_after_more_than_a_day_of_absence_the_gap_is_told_to_the_owner_once(
    telegram: TelegramRig, context: FakeContext
) -> None:
    before = datetime.now(UTC) - timedelta(hours=30)
    context.cursors["seen"] = before.isoformat()
    async with listening(telegram.channel(), context):
        await context.until(lambda it: bool(it.batches))
    async with listening(telegram.channel(), context):  # the second time nothing was missed
        await context.until(lambda it: it.signs_of_life > 1)
    ((text, address),) = context.gaps
    assert address is None
    assert f"messages between {before:%Y-%m-%d %H:%M} and " in text
    assert text.endswith("UTC may be missing.")


async def test_an_absence_of_less_than_a_day_leaves_no_gap(
    telegram: TelegramRig, context: FakeContext
) -> None:
    context.cursors["seen"] = (datetime.now(UTC) - timedelta(hours=23)).isoformat()
    async with listening(telegram.channel(), context):
        await context.until(lambda it: it.signs_of_life > 0)
    assert context.gaps == []


async def test_updates_older_than_a_day_are_gone_at_telegram(
    telegram: TelegramRig, context: FakeContext
) -> None:
    now = telegram.server.clock()
    telegram.server.world.clock = lambda: now - 90_000
    await telegram.says("lost for ever")
    telegram.server.world.clock = lambda: now
    await telegram.says("kept")
    async with listening(telegram.channel(), context):
        assert await context.texts(1) == ["kept"]


@pytest.mark.parametrize("code", [0, 502, 429])
@pytest.mark.fault(20, 23)
async def test_one_poll_that_fails_costs_neither_the_connection_nor_a_message(
    telegram: TelegramRig, context: FakeContext, code: int
) -> None:
    telegram.server.faults.polls = [code, code]
    await telegram.says("one")
    async with listening(telegram.channel(), context) as task:
        assert await context.texts(1) == ["one"]
        await telegram.cut()  # in the middle of a poll that waits
        await telegram.says("two")
        assert await context.texts(2) == ["one", "two"]
        assert not task.done()
    polls = [call for call in telegram.server.calls if call.method == "getUpdates"]
    assert [call.code for call in polls] == [code, code]
    assert code != 429 or polls[1].at - polls[0].at >= 1.0, "retry_after is waited for"


@pytest.mark.fault(20)
async def test_a_connection_that_stays_broken_ends_receiving_with_not_ready_and_loses_nothing(
    telegram: TelegramRig, context: FakeContext
) -> None:
    channel = telegram.channel()
    async with listening(channel, context) as task:
        await telegram.says("one")
        await context.texts(1)
        telegram.server.faults.polls = [0, 500, 0]
        await telegram.cut()
        with pytest.raises(NotReady):
            await asyncio.wait_for(task, 20)
        telegram.server.faults.polls.clear()
    await telegram.says("two")
    async with listening(telegram.channel(), context):
        assert await context.texts(2) == ["one", "two"]


async def test_a_second_poller_stops_the_bot_after_three_conflicts(
    telegram: TelegramRig, context: FakeContext
) -> None:
    telegram.server.faults.conflicts = 3
    async with listening(telegram.channel(), context) as task:
        with pytest.raises(AuthFailed, match="somebody else polls"):
            await asyncio.wait_for(task, 20)
    assert [call.code for call in telegram.server.calls if call.method == "getUpdates"] == [
        409,
        409,
        409,
    ]


async def test_two_conflicts_are_survived(telegram: TelegramRig, context: FakeContext) -> None:
    telegram.server.faults.conflicts = 2
    await telegram.says("heard all the same")
    async with listening(telegram.channel(), context):
        assert await context.texts(1) == ["heard all the same"]


async def test_a_poll_of_somebody_else_ends_ours_at_once(
    telegram: TelegramRig, context: FakeContext
) -> None:
    async with listening(telegram.channel(), context):
        await condition(lambda: telegram.server.methods.polling)
        telegram.server.methods.interrupt()
        await condition(lambda: any(call.code == 409 for call in telegram.server.calls))
        await telegram.says("still there")
        assert await context.texts(1) == ["still there"]


@pytest.mark.parametrize("established", [True, False])
async def test_a_connection_that_has_not_heard_yet_waits_longer_after_a_conflict(
    telegram: TelegramRig, context: FakeContext, established: bool
) -> None:
    """The platform may hold the poll of a life that was killed; once it gave us one of our own
    there is none."""
    telegram.pace = replace(QUICK, **({"former": 1000.0} if established else {"conflict": 1000.0}))
    telegram.server.faults.conflicts = 0 if established else 1
    async with listening(telegram.channel(), context):
        await telegram.says("one")
        assert await context.texts(1) == ["one"]
        if established:
            await condition(lambda: telegram.server.methods.polling)
            telegram.server.methods.interrupt()
            await telegram.says("two")
            assert await context.texts(2) == ["one", "two"]


async def test_a_poll_that_was_taken_and_then_ended_was_ended_by_somebody_who_lives(
    telegram: TelegramRig, context: FakeContext
) -> None:
    """So whoever came later leaves at the second one, and who was there before, which saw no more,
    stays."""
    telegram.pace = replace(QUICK, held=0.0)
    telegram.server.faults.conflicts = 3
    async with listening(telegram.channel(), context) as task:
        with pytest.raises(InUse, match=r"somebody else polls .* \(2 times in a row\)"):
            await asyncio.wait_for(task, 20)
    assert [call.code for call in telegram.server.calls if call.method == "getUpdates"] == [
        409,
        409,
    ]


def returned(telegram: TelegramRig, context: FakeContext) -> Channel:
    """Of a house that stopped for somebody ten minutes ago."""
    stopped(context.state)
    return telegram.channel(Options(state=context.state))


async def test_one_conflict_after_a_stop_may_be_the_poll_of_a_killed_life(
    telegram: TelegramRig, context: FakeContext
) -> None:
    telegram.server.faults.conflicts = 1
    await telegram.says("heard all the same")
    async with listening(returned(telegram, context), context):
        assert await context.texts(1) == ["heard all the same"]


async def test_a_second_conflict_after_a_stop_ends_the_try(
    telegram: TelegramRig, context: FakeContext
) -> None:
    telegram.server.faults.conflicts = 2
    async with listening(returned(telegram, context), context) as task:
        with pytest.raises(InUse, match=r"somebody else polls .* \(still\)"):
            await asyncio.wait_for(task, 20)
    assert [call.code for call in telegram.server.calls if call.method == "getUpdates"] == [
        409,
        409,
    ]


async def test_a_try_takes_nothing_from_the_other_one(
    telegram: TelegramRig, context: FakeContext
) -> None:
    await telegram.says("whose is it?")
    telegram.pace = replace(QUICK, former=1.0)
    async with listening(returned(telegram, context), context) as task:
        await condition(lambda: telegram.server.acks.waiting == 1)
        assert len(telegram.server.world.pending(None, 100)) == 1, "it saw it, and left it there"
        telegram.server.world.pending(10**12, 100)  # the other one confirms it
        with pytest.raises(InUse, match=r"takes what is said to this bot \(still\)"):
            await asyncio.wait_for(task, 20)
    assert context.arrivals == []


# Credentials


@pytest.mark.fault(26)
async def test_a_revoked_token_is_auth_failed_everywhere(
    telegram: TelegramRig, context: FakeContext
) -> None:
    channel = telegram.channel()
    async with listening(channel, context) as task:
        await context.until(lambda it: it.signs_of_life > 0)
        telegram.revoke()
        with pytest.raises(AuthFailed):
            await say(channel, Outbound(ADA, "hello"))
        with pytest.raises(ChannelError):
            await asyncio.wait_for(task, 20)
    with pytest.raises(AuthFailed) as caught:
        async with telegram.channel().connect():
            pass
    assert telegram.server.token not in str(caught.value)
    telegram.revoke(False)
    async with telegram.channel().connect():
        pass


async def test_an_unreachable_server_is_not_ready_and_the_error_holds_no_token(
    telegram: TelegramRig,
) -> None:
    telegram.down(True)
    with pytest.raises(NotReady) as caught:
        async with telegram.channel().connect():
            pass
    assert telegram.server.token not in str(caught.value)
    telegram.down(False)
    async with telegram.channel().connect():
        pass


async def test_a_server_that_is_no_bot_api_is_not_ready(telegram: TelegramRig) -> None:
    telegram.server.faults.garbage = 1
    with pytest.raises(NotReady):
        async with telegram.channel().connect():
            pass


# Speaking


@pytest.mark.fault(24, 25)
async def test_each_failure_of_a_send_says_what_to_do_next(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    async with channel.connect():
        telegram.lose_next_response()
        with pytest.raises(Ambiguous):
            await say(channel, Outbound(ADA, "carried out, answer lost"))
        telegram.server.faults.garbage = 1
        with pytest.raises(Ambiguous):
            await say(channel, Outbound(ADA, "carried out, answer unreadable"))
        telegram.server.faults.fail = 1
        with pytest.raises(Ambiguous):
            await say(channel, Outbound(ADA, "who knows"))
        telegram.limit_next(7)
        with pytest.raises(RateLimited) as limited:
            await say(channel, Outbound(ADA, "too fast"))
        assert limited.value.retry_after == 7
        telegram.reject_next()
        with pytest.raises(Rejected, match="parse entities"):
            await say(channel, Outbound(ADA, "refused"))
        telegram.server.world.chat("dm:bob").blocked = True
        with pytest.raises(Rejected, match="blocked"):
            await say(channel, Outbound(channel.parse_address("1002"), "hello?"))
        telegram.down(True)
        with pytest.raises(NotReady):
            await until_known(channel, Outbound(ADA, "nobody there"))
    assert [message.text for message in await telegram.visible()] == [
        "carried out, answer lost",
        "carried out, answer unreadable",
    ]


async def test_a_send_is_one_call(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    async with channel.connect():
        telegram.server.faults.fail = 1
        with pytest.raises(Ambiguous):
            await say(channel, Outbound(ADA, "x"))
    assert [call.method for call in telegram.server.calls] == ["getMe", "sendMessage"]


async def test_everything_commonmark_knows_is_accepted_and_readable(telegram: TelegramRig) -> None:
    source = (
        '# Title with `code`\n\n**bold _both_ `c`** ~~gone~~ [site](https://x.org?a=1&b="2")'
        " <b>raw</b> & 1 < 2\n\n- one\n- two\n  1. inner\n\n     ```py\n     if a < b:\n        "
        " pass\n     ```\n\n> quote `c`\n>> deeper\n\n| left | right |\n|:--|--:|\n| 漢字 | 1 |\n|"
        " b | 22 |\n\n---\n\n![pic](https://x.org/p.png) [rel](../x) [`c`](https://y.org)"
    )
    channel = telegram.channel()
    async with channel.connect():
        await say(channel, Outbound(ADA, source))
    (message,) = await telegram.visible()
    assert (
        message.text
        == "Title with code\n\nbold both c gone site <b>raw</b> & 1 < 2\n\n• one\n• two\n   1."
        " inner\nif a < b:\n    pass\n\nquote c\n\ndeeper\n\nleft | right\n-----+------\n漢字 | "
        "    1\nb    |    22\n\n———\n\npic rel (../x) c"
    )
    kinds = {
        (entity["type"], entity.get("language") or entity.get("url"))
        for entity in telegram.server.world.chat("dm:ada").messages[1]["entities"]
    }
    assert {
        ("bold", None),
        ("italic", None),
        ("strikethrough", None),
        ("pre", None),
        ("code", "py"),
        ("blockquote", None),
    } <= kinds
    assert ("text_link", 'https://x.org?a=1&b="2"') in {
        (kind, url and url.replace("%22", '"')) for kind, url in kinds
    }


async def test_long_answers_go_out_whole_within_the_limit(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    text = "\n\n".join(f"Paragraph {number}: " + "<&😀 " * 60 for number in range(60))
    async with channel.connect():
        await say(channel, Outbound(ADA, text))
    shown = await telegram.visible()
    assert len(shown) > 4
    assert "".join("".join(one.text.split()) for one in shown) == "".join(text.split())


async def test_marked_parts_of_full_size_are_still_accepted(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    async with channel.connect():
        for part in channel.render(Outbound(ADA, "😀" * 6000)):
            await channel.send(channel.mark(part), KEY)
        for part in channel.render(Outbound(ADA, "*x*" * 3000, plain=True)):
            await channel.send(channel.mark(part), KEY)
    assert all(
        message.text.endswith("(may be a duplicate)") for message in await telegram.visible()
    )


async def test_a_message_replaces_others_by_edit_post_and_delete(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    async with channel.connect():
        first = [(await say(channel, Outbound(ADA, f"draft {number}")))[0] for number in range(3)]
        await say(channel, Outbound(ADA, "final", replaces=tuple(first)))
        assert [(one.text, one.edits) for one in await telegram.visible()] == [("final", 1)]
        await say(channel, Outbound(ADA, "x" * 5000, replaces=(first[0],)))
        lengths = [len(message.text) for message in await telegram.visible()]
        assert len(lengths) == 2
        assert sum(lengths) == 5000
        again = channel.render(Outbound(ADA, "same", replaces=(first[0],)))
        assert (
            await channel.send(again[0], KEY)
            == await channel.send(again[0], KEY)
            == Receipt(first[0].message)
        )
        gone = [
            part
            for part in channel.render(Outbound(ADA, "a", replaces=(first[0], first[1])))
            if part.kind == "delete"
        ]
        assert (await channel.send(gone[0], KEY)).message == first[1].message


async def test_choices_vanish_when_their_message_is_replaced(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    async with channel.connect():
        (receipt,) = await say(
            channel, Outbound(ADA, "May I?", choices=(Choice("a" * 40, "Yes", "good"),))
        )
        assert (await telegram.visible())[0].choices == ("a" * 40,)
        await say(channel, Outbound(ADA, "You said yes.", replaces=(receipt,)))
        assert (await telegram.visible())[0].choices == ()


async def test_files_arrive_with_their_names_and_pictures_as_pictures(
    telegram: TelegramRig, tmp_path: Path
) -> None:
    (tmp_path / "report (1).txt").write_bytes(b"x" * 300_000)
    (tmp_path / "p.png").write_bytes(b"png")
    channel = telegram.channel()
    async with channel.connect():
        await say(
            channel, Outbound(ADA, "here", files=(tmp_path / "report (1).txt", tmp_path / "p.png"))
        )
        parts = channel.render(Outbound(ADA, "", files=(tmp_path / "p.png",), plain=True))
        assert await channel.upload(parts[0]) == ""
        await channel.send(channel.mark(parts[0]), KEY)
        with pytest.raises(Rejected, match="cannot be read"):
            await say(channel, Outbound(ADA, "", files=(tmp_path / "gone",)))
    assert [one.files for one in await telegram.visible()] == [
        (),
        ("report (1).txt",),
        ("p.png",),
        ("p.png",),
    ]
    kinds = [
        "photo" if "photo" in message else "document" if "document" in message else "text"
        for message in telegram.server.world.chat("dm:ada").messages.values()
    ]
    assert kinds == ["text", "document", "photo", "document"]
    assert telegram.server.world.files["file-1"][1] == b"x" * 300_000


async def test_several_pictures_are_one_album_and_one_refused_goes_picture_by_picture(
    telegram: TelegramRig, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.png" for name in "abc"]
    for path in paths:
        path.write_bytes(b"\x89PNG" + path.name.encode())
    server, channel = telegram.server, telegram.channel()
    async with channel.connect():
        (album,) = channel.render(Outbound(ADA, "", files=tuple(paths)))
        receipt = await channel.send(album, "k.0")
        shown = [
            message
            for message in server.world.chat("dm:ada").messages.values()
            if "photo" in message
        ]
        assert receipt.message == str(shown[0]["message_id"])
        assert len({one["media_group_id"] for one in shown}) == 1
        assert len(shown) == 3
        await channel.send(channel.mark(album), "k.0")
        marked = [one for one in server.world.chat("dm:ada").messages.values() if "photo" in one][
            3:
        ]
        assert [one.get("caption") for one in marked] == ["(may be a duplicate)", None, None]
        server.faults.reject = 1
        with pytest.raises(Rejected):
            await channel.send(album, "k.0")
        for part in channel.render(Outbound(ADA, "", files=tuple(paths), plain=True)):
            await channel.send(part, "k.1")
    assert sum("document" in one for one in server.world.chat("dm:ada").messages.values()) == 3


async def test_an_album_whose_answer_is_lost_is_in_doubt_as_a_whole(
    telegram: TelegramRig, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    server, channel = telegram.server, telegram.channel()
    async with channel.connect():
        (album,) = channel.render(Outbound(ADA, "", files=(tmp_path / "a.txt", tmp_path / "b.txt")))
        server.faults.lose = 1
        with pytest.raises(Ambiguous):
            await channel.send(album, "k.0")
    assert (
        sum("document" in message for message in server.world.chat("dm:ada").messages.values()) == 2
    )


async def test_a_topic_hears_its_own_answers_and_the_general_topic_needs_no_number(
    telegram: TelegramRig, context: FakeContext
) -> None:
    channel = telegram.channel()
    async with listening(channel, context):
        await telegram.says("in a topic", chat="group", topic="77")
        await telegram.says("in General", chat="group")
        await context.texts(2)
        for arrival in context.messages:
            await say(channel, Outbound(arrival.address, "answer", reply_to=arrival.message))
        await say(channel, Outbound(channel.parse_address(f"{GROUP}/1"), "General by number"))
    assert [message.topic for message in await telegram.visible("group") if message.by_bot] == [
        "77",
        None,
        None,
    ]


async def test_an_album_that_calls_the_bot_under_one_picture_calls_it_with_all_of_them(
    telegram: TelegramRig, context: FakeContext
) -> None:
    world = telegram.server.world
    place, ada = world.chat("group"), world.person("ada")

    def part(number: int, album: str, caption: str = "") -> None:
        words = f"@{BOT['username']} {caption}"
        entities = [{"type": "mention", "offset": 0, "length": len(BOT["username"]) + 1}]
        said = {"caption": words, "caption_entities": entities} if caption else {}
        photo = [{"file_id": f"f{number}", "file_unique_id": f"u{number}", "width": 1, "height": 1}]
        world.enqueue(
            "message", world.add(place, ada, {"media_group_id": album, "photo": photo, **said})
        )

    async with listening(telegram.channel(), context):
        part(1, "called")
        part(2, "called", "compare these")
        part(3, "talk")
        await context.until(lambda it: len(it.messages) >= 3)
        part(4, "called")  # a later batch
        await context.until(lambda it: len(it.messages) == 4)
    assert [(message.attachments[0].ref, message.addressed) for message in context.messages] == [
        ("f1", True),
        ("f2", True),
        ("f3", False),
        ("f4", True),
    ]


async def test_a_reply_to_a_message_that_is_gone_is_sent_all_the_same(
    telegram: TelegramRig,
) -> None:
    channel = telegram.channel()
    async with channel.connect():
        await say(channel, Outbound(ADA, "answer", reply_to=Receipt("999").message))  # type: ignore[arg-type]
    assert [message.text for message in await telegram.visible()] == ["answer"]


async def test_drafts_stream_in_private_chats_and_nothing_in_groups(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    async with channel.connect():
        for text in ("**a", "**ab**", "x" * 9000):
            await channel.revise(ADA, None, text)
        await channel.revise(channel.parse_address(str(GROUP)), None, "nothing")
        (receipt,) = await say(channel, Outbound(ADA, "start"))
        await channel.revise(ADA, receipt, "more")
        await channel.revise(ADA, receipt, "more")
    drafts = telegram.server.world.chat("dm:ada").drafts
    assert [draft["text"][:4] for draft in drafts] == ["**a", "ab", "xxxx"]
    assert len({draft["draft_id"] for draft in drafts}) == 1
    assert [message.text for message in await telegram.visible()] == ["more"]
    assert await telegram.visible("group") == []


async def test_a_group_that_became_a_supergroup_is_followed(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    world = telegram.server.world
    world.chat(-55).moved_to = -100555
    world.chat(-100555)
    part = channel.render(Outbound(channel.parse_address("-55"), "hello"))[0]
    async with channel.connect():
        with pytest.raises(RateLimited) as limited:
            await channel.send(part, KEY)
        assert limited.value.retry_after == 0
        await channel.send(part, KEY)
    assert [body["text"] for body in world.chat(-100555).messages.values()] == ["hello"]


async def test_a_group_that_becomes_a_supergroup_is_told_to_the_owner_and_what_is_meant_for_it_goes_there_at_once(
    telegram: TelegramRig, context: FakeContext
) -> None:
    world = telegram.server.world
    channel = telegram.channel()
    part = channel.render(Outbound(channel.parse_address("-55"), "hello"))[0]
    async with listening(channel, context):
        world.upgrade(-55, -100555)
        await context.until(lambda it: bool(it.gaps))
        await channel.send(part, KEY)
        await channel.typing(channel.parse_address("-55"), on=True)
    ((told, where),) = context.gaps
    assert where is None, "the owner's to mend"
    assert "-55 is a supergroup now, under the number -100555" in told
    assert [body["text"] for body in world.chat(-100555).messages.values() if "text" in body] == [
        "hello"
    ]
    assert [
        call.code
        for call in telegram.server.calls
        if call.method in ("sendMessage", "sendChatAction")
    ] == [200, 200]


async def test_attachments_are_fetched_whole_or_not_at_all(
    telegram: TelegramRig, context: FakeContext, tmp_path: Path
) -> None:
    world = telegram.server.world
    world.says(
        "look",
        "dm:ada",
        document={
            **world.store("a.bin", b"abc" * 1000),
            "file_name": "../a.bin",
            "mime_type": "application/x",
        },
    )
    channel = telegram.channel()
    async with listening(channel, context):
        await context.texts(1)
        (attachment,) = context.messages[0].attachments
        assert (attachment.media_type, attachment.size) == ("application/x", 3000)
        path = await channel.fetch(attachment, tmp_path, 3000)
        assert path.read_bytes() == b"abc" * 1000
        assert path.parent == tmp_path
        with pytest.raises(Rejected):
            await channel.fetch(attachment, tmp_path, 2999)
        with pytest.raises(Rejected):
            await channel.fetch(Attachment("file-99", "x", "y/z", None), tmp_path, 10)
        world.files[attachment.ref] = ("big", b"0" * (21 << 20))
        with pytest.raises(Rejected, match="too big"):
            await channel.fetch(attachment, tmp_path, 1 << 30)
    assert list(tmp_path.glob("*-x")) == []


async def test_a_bot_api_server_of_ones_own_hands_over_files_by_their_path(
    tmp_path: Path, context: FakeContext
) -> None:
    stored, into = tmp_path / "server", tmp_path / "media"
    stored.mkdir()
    into.mkdir()
    (stored / "big.bin").write_bytes(b"b" * (21 << 20))
    async with rig(Rules(local=True)) as telegram:
        world, channel = telegram.server.world, telegram.channel()
        world.files["kept"] = (str(stored / "big.bin"), b"b" * (21 << 20))
        world.files["elsewhere"] = ("/nowhere/at/all/a.bin", b"abc")
        async with channel.connect():
            path = await channel.fetch(
                Attachment("kept", "big.bin", "x/y", 21 << 20), into, 32 << 20
            )
            assert path.parent == into
            assert path.stat().st_size == 21 << 20
            path.unlink()
            with pytest.raises(Rejected, match="allowed"):
                await channel.fetch(Attachment("kept", "big.bin", "x/y", None), into, 100)
            with pytest.raises(Rejected, match="mount that folder"):
                await channel.fetch(Attachment("elsewhere", "a.bin", "x/y", 3), into, 100)
    assert list(into.iterdir()) == []


async def test_typing_and_the_command_menu_reach_telegram(telegram: TelegramRig) -> None:
    channel = telegram.channel()
    async with channel.connect():
        await channel.typing(ADA, True)
        await channel.typing(ADA, False)
        await channel.menu([("help", "What I can do"), ("Not-Fit", "x"), ("stop", "s" * 300)])
    assert len(telegram.server.world.chat("dm:ada").typing) == 1
    assert [command["command"] for command in telegram.server.world.commands] == ["help", "stop"]


@pytest.mark.parametrize(
    ("streaming", "preview"),
    [(None, True), ("preview", True), ("native", True), ("edits", False), ("off", False)],
)
def test_streaming_is_chosen_by_the_options(streaming, preview: bool) -> None:
    settings = Settings(token="1:abcdefghijkl")
    assert Telegram(settings, Options(streaming=streaming), QUICK).capabilities.preview is preview


# The server's own rules: what fails when one is switched off


@pytest.mark.parametrize(
    ("rule", "method", "call", "description"),
    [
        ("entities", "sendMessage", {"text": "<b>x", "parse_mode": "HTML"}, "end tag"),
        (
            "entities",
            "sendMessage",
            {"text": "<p>x</p>", "parse_mode": "HTML"},
            "Unsupported start tag",
        ),
        ("length", "sendMessage", {"text": "😀" * 2049}, "message is too long"),
        (
            "callback",
            "sendMessage",
            {
                "text": "x",
                "reply_markup": {"inline_keyboard": [[{"text": "b", "callback_data": "c" * 65}]]},
            },
            "BUTTON_DATA_INVALID",
        ),
        (
            "topics",
            "sendMessage",
            {"text": "x", "message_thread_id": 1},
            "message thread not found",
        ),
        ("drafts", "sendMessageDraft", {"text": "x", "draft_id": 0}, "draft_id"),
        (
            "commands",
            "setMyCommands",
            {"commands": [{"command": "Bad!", "description": "x"}]},
            "BOT_COMMAND_INVALID",
        ),
        ("token", "getMe", {}, "Unauthorized"),
    ],
)
async def test_the_server_refuses_what_telegram_refuses_unless_the_rule_is_off(
    rule: str, method: str, call: dict, description: str
) -> None:
    for kept in (True, False):
        rules = Rules(**{rule: kept})
        async with rig(rules) as made, aiohttp.ClientSession() as session:
            token = "9:wrong-token-entirely" if rule == "token" else made.server.token
            async with session.post(
                f"{made.server.url}/bot{token}/{method}", json={"chat_id": 1001, **call}
            ) as response:
                body = json.loads(await response.text())
        assert body["ok"] is not kept
        if kept:
            assert description in body["description"]


@pytest.mark.parametrize(
    ("rule", "kinds", "description"),
    [
        ("album_size", ["photo"], "Group send failed"),
        ("album_size", ["photo"] * 11, "Group send failed"),
        ("album_kinds", ["photo", "document"], "can't be mixed"),
    ],
)
async def test_each_rule_of_albums_is_kept_and_can_be_switched_off(
    rule: str, kinds: list[str], description: str
) -> None:
    for kept in (True, False):
        async with rig(Rules(**{rule: kept})) as made, aiohttp.ClientSession() as session:
            form = aiohttp.FormData({"chat_id": "1001"})
            form.add_field(
                "media",
                json.dumps(
                    [
                        {"type": kind, "media": f"attach://f{number}"}
                        for number, kind in enumerate(kinds)
                    ]
                ),
            )
            for number in range(len(kinds)):
                form.add_field(f"f{number}", b"content", filename=f"{number}.bin")
            async with session.post(
                f"{made.server.url}/bot{made.server.token}/sendMediaGroup", data=form
            ) as response:
                body = json.loads(await response.text())
            assert len(await made.visible()) == (0 if kept else len(kinds))
        assert body["ok"] is not kept
        if kept:
            assert description in body["description"]


async def test_without_confirmation_the_same_updates_come_for_ever(context: FakeContext) -> None:
    async with rig(Rules(confirmation=False)) as made:
        await made.says("again and again")
        async with listening(made.channel(), context):
            await context.until(lambda it: len(it.batches) >= 3)
    assert [message.text for message in context.messages] == ["again and again"]


async def test_the_rate_rule_bites_after_a_burst() -> None:
    async with rig(Rules(pace=True)) as made:
        channel = made.channel()
        async with channel.connect():
            for number in range(5):
                await say(channel, Outbound(ADA, f"message {number}"))
            with pytest.raises(RateLimited) as limited:
                await say(channel, Outbound(ADA, "one too many"))
        assert limited.value.retry_after >= 1
        assert len(await made.visible()) == 5


@pytest.mark.parametrize("rule", ["not_modified", "one_poller", "retention", "files"])
async def test_rules_about_what_was_before_can_be_switched_off_too(
    rule: str, tmp_path: Path
) -> None:
    async def keeps(rules: Rules) -> bool:
        async with rig(rules) as made:
            world, methods = made.server.world, made.server.methods
            if rule == "retention":
                now = made.server.clock()
                world.clock = lambda: now - 90_000
                await made.says("old")
                world.clock = lambda: now
                return world.pending(None, 10) == []
            if rule == "files":
                file = world.store("big", b"0" * (21 << 20))
                return await refuses(methods.getFile({"file_id": file["file_id"]}))
            if rule == "not_modified":
                sent = await methods.sendMessage({"chat_id": 1001, "text": "same"})
                return await refuses(
                    methods.editMessageText(
                        {"chat_id": 1001, "message_id": sent["message_id"], "text": "same"}
                    )
                )
            first = asyncio.create_task(methods.getUpdates({"timeout": 1}))
            await condition(lambda: methods.polling)
            second = asyncio.create_task(methods.getUpdates({"timeout": 1}))
            found = await asyncio.gather(first, second, return_exceptions=True)
            return isinstance(found[0], Refusal)

    assert await keeps(Rules())
    assert not await keeps(Rules(**{rule: False}))


async def refuses(call: Awaitable[object]) -> bool:
    try:
        await call
    except Refusal:
        return True
    return False


async def test_the_server_runs_as_a_process_and_is_driven_over_its_control_endpoint(
    context: FakeContext,
) -> None:
    async with server("tests.platforms.telegram", "--port", "0") as line:
        hello = json.loads(line)
        async with aiohttp.ClientSession() as session:

            async def control(name: str, **body: object) -> dict:
                async with session.post(f"{hello['control']}/{name}", json=body) as response:
                    return await response.json()

            await control("says", text="message {n}", chat="dm:5001", count=3)
            channel = Telegram(
                Settings(token=hello["settings"]["token"], api_url=hello["settings"]["api_url"]),
                Options(),
                QUICK,
            )
            async with listening(channel, context):
                assert await context.texts(3) == ["message 0", "message 1", "message 2"]
                await say(channel, Outbound(context.messages[0].address, "answer"))
                await control("reject")
                with pytest.raises(Rejected):
                    await say(channel, Outbound(ADA, "refused"))
            async with session.get(f"{hello['control']}/visible?chat=dm:5001") as response:
                assert [one["text"] for one in await response.json() if one["by_bot"]] == ["answer"]
            async with session.get(f"{hello['control']}/log") as response:
                assert [
                    (call["method"], call["code"]) for call in (await response.json())["calls"]
                ] == [("getMe", 200), ("sendMessage", 200), ("sendMessage", 400)]
