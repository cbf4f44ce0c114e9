"""The shipped fakes keep the contract's promises, so that a house tested with them learns the
truth."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.contract import Choice, Outbound, Receipt, Repeat
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected, Unavailable
from ohmo_testing.channels import EVERYTHING, FakeChannel, FakeContext, FakePlatform
from tests.channels.listening import listening


def outbound(channel: FakeChannel, text: str, **more: object) -> Outbound:
    return replace(Outbound(channel.parse_address("dm:ada"), text), **more)


async def test_what_people_say_is_published_with_its_cursor(tmp_path: Path) -> None:
    platform, context = FakePlatform(), FakeContext(tmp_path)
    channel = FakeChannel(platform)
    await platform.says("before")
    async with listening(channel, context):
        await context.texts(1)
        await platform.says("after")
        assert await context.texts(2) == ["before", "after"]
    assert context.cursors == {"events": "2"}
    assert platform.connections == 0


async def test_a_refused_batch_is_published_again_by_the_next_connection(tmp_path: Path) -> None:
    platform, context = FakePlatform(), FakeContext(tmp_path)
    channel = FakeChannel(platform)
    await platform.says("hello")
    context.refuse()
    async with channel.connect():
        with pytest.raises(Unavailable):
            await channel.receive(context)
    assert context.arrivals == []
    async with listening(channel, context):
        assert await context.texts(1) == ["hello"]


async def test_catch_up_is_fenced_by_age_and_number(tmp_path: Path) -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    platform, context = (
        FakePlatform(clock=lambda: now[0]),
        FakeContext(tmp_path, oldest=timedelta(hours=1), most=2),
    )
    await platform.says("old")
    now[0] += timedelta(hours=2)
    for text in ("one", "two", "three"):
        await platform.says(text)
    channel = FakeChannel(platform)
    async with listening(channel, context):
        assert await context.texts(2) == ["two", "three"]


@pytest.mark.parametrize(
    ("repeat", "shown"), [(Repeat.SAFE, 1), (Repeat.LOOK, 2), (Repeat.RISK, 2)]
)
async def test_a_lost_answer_is_ambiguous_and_a_repeat_does_what_the_capability_says(
    repeat: Repeat, shown: int
) -> None:
    platform = FakePlatform()
    channel = FakeChannel(platform, replace(EVERYTHING, repeat=repeat))
    (part,) = channel.render(outbound(channel, "hello"))
    platform.lose_next_response()
    async with channel.connect():
        with pytest.raises(Ambiguous):
            await channel.send(part, "k.0")
        found = await channel.find(
            channel.parse_address("dm:ada"), part, "k.0", None, datetime.now(UTC)
        )
        assert found is not None
        await channel.send(part, "k.0")
    assert len(await platform.visible()) == shown


async def test_ordered_failures_come_one_by_one_and_carry_nothing_out() -> None:
    platform = FakePlatform()
    channel = FakeChannel(platform)
    (part,) = channel.render(outbound(channel, "hello"))
    platform.limit_next(3.5)
    platform.reject_next()
    async with channel.connect():
        with pytest.raises(RateLimited) as limited:
            await channel.send(part, "k.0")
        assert limited.value.retry_after == 3.5
        with pytest.raises(Rejected):
            await channel.send(part, "k.0")
        assert await platform.visible() == ()
        await channel.send(part, "k.0")
        platform.revoke()
        with pytest.raises(AuthFailed):
            await channel.send(part, "k.1")
        platform.revoke(False)
        platform.down(True)
        with pytest.raises(NotReady):
            await channel.send(part, "k.1")
    assert [shown.text for shown in await platform.visible()] == ["hello"]


async def test_a_longer_text_edits_the_old_parts_posts_the_rest_and_a_shorter_one_deletes_the_surplus() -> (
    None
):
    platform = FakePlatform()
    channel = FakeChannel(platform, replace(EVERYTHING, max_text=10))
    async with channel.connect():
        receipts: list[Receipt] = []
        for number, part in enumerate(channel.render(outbound(channel, "one two three four"))):
            receipts.append(await channel.send(part, f"a.{number}"))
        for number, part in enumerate(
            channel.render(outbound(channel, "short", replaces=tuple(receipts)))
        ):
            await channel.send(part, f"b.{number}")
    assert [(shown.text, shown.edits) for shown in await platform.visible()] == [("short", 1)]


async def test_files_are_uploaded_first_and_choices_are_pressed(tmp_path: Path) -> None:
    platform, context = FakePlatform(), FakeContext(tmp_path)
    channel = FakeChannel(platform)
    file = tmp_path / "report.txt"
    file.write_text("figures")
    async with listening(channel, context):
        post, shown = channel.render(
            outbound(channel, "pick", files=(file,), choices=(Choice("yes", "Yes"),))
        )
        asked = await channel.send(post, "k.0")
        await channel.send(shown, "k.1", await channel.upload(shown))
        await platform.presses(asked.message, "yes")
        await context.until(lambda context: bool(context.arrivals))
    pick, sent = await platform.visible()
    assert (pick.choices, sent.files) == (("yes",), ("report.txt",))
    assert context.arrivals[0].choice == "yes"
