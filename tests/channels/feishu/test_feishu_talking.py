"""Speaking on Feishu through the real SDK: cards, streams, files, and what a refusal means
(faults.md rows 10, 23 to 26)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from channels.contract import Address, Attachment, Options, Outbound, Part, Receipt
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected
from channels.feishu.adapter import Feishu
from ohmo_testing.channels import FakeContext
from tests.channels.listening import listening
from tests.platforms.feishu.rig import QUICK, FeishuRig, rig
from tests.platforms.feishu.rules import Rules
from tests.platforms.feishu.server import Fault

KEY = "01k9y2p7q3r4s5t6v7w8xy.0"


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuRig]:
    async with rig() as made:
        yield made


@pytest.fixture
async def channel(feishu: FeishuRig) -> AsyncIterator[Feishu]:
    made = feishu.channel()
    async with made.connect():
        yield made


def place(channel: Feishu, text: str = "oc_group") -> Address:
    return channel.parse_address(text)


async def drafted(channel: Feishu, text: str = "thinking") -> Receipt:
    (part,) = channel.render(Outbound(place(channel), text, draft=True))
    return await channel.send(part, KEY)


async def final(channel: Feishu, receipt: Receipt, text: str) -> Receipt:
    (part,) = channel.render(Outbound(place(channel), text, replaces=(receipt,)))
    return await channel.send(part, "01k9y2p7q3r4s5t6v7w8zz.0")


async def said(feishu: FeishuRig) -> list[str]:
    return [message.text for message in await feishu.visible("group") if message.by_bot]


async def test_a_draft_is_a_card_that_is_written_while_it_is_read(
    feishu: FeishuRig, channel: Feishu
) -> None:
    receipt = await drafted(channel)
    for text in ("thinking hard", "thinking harder", "thinking harder still"):
        await channel.revise(place(channel), receipt, text)
    assert [text for _, text in feishu.world.writes] == [
        "thinking hard",
        "thinking harder",
        "thinking harder still",
    ]
    assert (await final(channel, receipt, "the answer")).message == receipt.message
    assert await said(feishu) == ["the answer"]
    assert not next(iter(feishu.world.entities.values()))["streaming"]


async def test_a_stream_that_feishu_closed_after_ten_minutes_is_opened_again(
    feishu: FeishuRig, channel: Feishu
) -> None:
    receipt = await drafted(channel)
    next(iter(feishu.world.entities.values()))["streaming"] = False
    await channel.revise(place(channel), receipt, "still here")
    assert await said(feishu) == ["still here"]


@pytest.mark.parametrize("trouble", ["scope", "missing", "down"])
async def test_without_streaming_cards_a_draft_grows_by_edits(
    feishu: FeishuRig, channel: Feishu, trouble: str
) -> None:
    if trouble == "scope":
        feishu.server.scopes_missing.add("cardkit")
    else:
        on = lambda _, path: path == "cardkit/v1/cards"  # noqa: E731
        feishu.server.faults.append(
            Fault(
                "status" if trouble == "down" else "code",
                502 if trouble == "down" else 99991404,
                on,
            )
        )
    receipt = await drafted(channel)
    await channel.revise(place(channel), receipt, "thinking harder")
    assert await said(feishu) == ["thinking harder"]
    assert feishu.world.writes == []
    await final(channel, receipt, "the answer")
    assert await said(feishu) == ["the answer"]


async def test_edits_can_be_chosen_instead_of_streams(feishu: FeishuRig) -> None:
    channel = feishu.channel(options=Options(streaming="edits"))
    async with channel.connect():
        receipt = await drafted(channel)
        await channel.revise(place(channel), receipt, "thinking harder")
    assert feishu.world.writes == []
    assert await said(feishu) == ["thinking harder"]


async def test_a_repeated_draft_after_a_lost_answer_streams_into_the_card_that_is_seen(
    feishu: FeishuRig, channel: Feishu
) -> None:
    feishu.lose_next_response()
    with pytest.raises(Ambiguous):
        await drafted(channel)
    receipt = await drafted(channel)
    await channel.revise(place(channel), receipt, "seen")
    assert await said(feishu) == ["seen"]


async def test_the_next_life_finishes_a_stream_it_does_not_know(
    feishu: FeishuRig, channel: Feishu
) -> None:
    receipt = await drafted(channel)
    await channel.revise(place(channel), receipt, "half an ans")
    feishu.server.rules.streaming_locks = True  # the sternest reading: PATCH is refused meanwhile
    other = feishu.channel()
    async with other.connect():
        await final(other, receipt, "the answer")
    assert await said(feishu) == ["the answer"]


async def test_a_card_entity_that_takes_no_change_by_its_message_is_changed_as_an_entity(
    feishu: FeishuRig, channel: Feishu
) -> None:
    receipt = await drafted(channel)
    await channel.revise(place(channel), receipt, "half an ans")
    feishu.server.rules.entities_apart = True
    await final(channel, receipt, "the answer")
    assert await said(feishu) == ["the answer"]


async def test_revisions_rest_after_a_rate_limit_and_the_final_text_gets_through(
    feishu: FeishuRig, channel: Feishu
) -> None:
    receipt = await drafted(channel)
    feishu.server.faults.append(Fault("limit", 60, lambda _, path: path.endswith("/content")))
    await channel.revise(place(channel), receipt, "one")
    await channel.revise(place(channel), receipt, "two")
    assert feishu.world.writes == []
    await final(channel, receipt, "the answer")
    assert await said(feishu) == ["the answer"]


@pytest.mark.fault(23)
async def test_too_many_posts_in_one_second_are_a_rate_limit_of_that_chat_only(
    feishu: FeishuRig, channel: Feishu
) -> None:
    (part,) = channel.render(Outbound(place(channel), "x"))
    sent = await asyncio.gather(
        *(channel.send(part, f"k.{number}") for number in range(20)), return_exceptions=True
    )
    limits = [one for one in sent if isinstance(one, RateLimited)]
    assert limits
    assert all(0 < one.retry_after <= 1.0 for one in limits)
    (other,) = channel.render(Outbound(place(channel, "oc_dmada"), "x"))
    await channel.send(other, "other.0")


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (Fault("status", 502), Ambiguous),
        (Fault("status", 404), Rejected),
        (Fault("body", "<html>"), Ambiguous),
        (Fault("body", "[1]"), Ambiguous),
        (Fault("code", 230025), Rejected),
        (Fault("code", 230099), Rejected),
        (Fault("code", 2200), Ambiguous),
        (Fault("code", 99991662), AuthFailed),
        (Fault("code", 230049), RateLimited),
        (Fault("lose"), Ambiguous),
    ],
)
@pytest.mark.fault(24)
async def test_every_kind_of_failure_has_its_class(
    feishu: FeishuRig, channel: Feishu, fault: Fault, failure: type[Exception]
) -> None:
    feishu.server.faults.append(Fault(fault.kind, fault.value))
    (part,) = channel.render(Outbound(place(channel), "x"))
    with pytest.raises(failure):
        await channel.send(part, KEY)


@pytest.mark.fault(24)
async def test_a_slow_answer_is_ambiguous_and_its_repeat_shows_one_message(
    feishu: FeishuRig,
) -> None:
    channel = feishu.channel(pace=replace(QUICK, call=0.3))
    async with channel.connect():
        feishu.server.faults.append(Fault("hang", 1.0))
        (part,) = channel.render(Outbound(place(channel), "once"))
        with pytest.raises(Ambiguous):
            await channel.send(part, KEY)
        async with asyncio.timeout(20):
            while not feishu.world.rows["oc_group"]:
                await asyncio.sleep(0.05)  # until the platform is done with the first one
        await channel.send(part, KEY)
    assert await said(feishu) == ["once"]


async def test_after_the_hour_of_the_uuid_a_repeat_would_show_twice_so_the_window_is_shorter(
    feishu: FeishuRig, channel: Feishu
) -> None:
    assert channel.capabilities.repeat_window.total_seconds() < feishu.server.rules.uuid_seconds


async def test_an_answer_to_a_message_that_is_gone_is_said_in_the_chat(
    feishu: FeishuRig, channel: Feishu
) -> None:
    root = await feishu.says("a topic", chat="group")
    await feishu.deletes(root)
    (part,) = channel.render(Outbound(place(channel, f"oc_group/{root}"), "still said"))
    await channel.send(part, KEY)
    assert await said(feishu) == ["still said"]


async def test_a_person_is_written_to_by_their_id(feishu: FeishuRig, channel: Feishu) -> None:
    (part,) = channel.render(Outbound(place(channel, "ou_ada"), "hello Ada"))
    await channel.send(part, KEY)
    assert [message.text for message in await feishu.visible("dm:ada")] == ["hello Ada"]


async def test_pictures_are_shown_as_pictures_and_other_files_as_files(
    feishu: FeishuRig, channel: Feishu, tmp_path: Path
) -> None:
    picture, table, empty = tmp_path / "a.png", tmp_path / "b.csv", tmp_path / "empty.txt"
    picture.write_bytes(b"\x89PNG")
    table.write_bytes(b"a,b")
    empty.write_bytes(b"")
    parts = channel.render(Outbound(place(channel), "", files=(picture, table)))
    for number, part in enumerate(parts):
        await channel.send(part, f"k.{number}", await channel.upload(part))
    assert [row["msg_type"] for row in feishu.world.rows["oc_group"]] == ["image", "file"]
    assert [name for message in await feishu.visible("group") for name in message.files] == [
        "a.png",
        "b.csv",
    ]
    with pytest.raises(Rejected, match="has 0 bytes"):
        await channel.upload(channel.render(Outbound(place(channel), "", files=(empty,)))[0])


async def test_files_people_sent_are_fetched_within_a_limit(
    feishu: FeishuRig, channel: Feishu, tmp_path: Path
) -> None:
    key = feishu.world.keep("file", "notes.txt", b"x" * 1000)
    row = feishu.world.sends(
        "oc_dmada", "ou_ada", "file", {"file_key": key, "file_name": "notes.txt"}
    )
    wanted = Attachment(f"{row['message_id']} {key} file", "../notes.txt", "text/plain", None)
    path = await channel.fetch(wanted, tmp_path, 2000)
    assert path.parent == tmp_path
    assert path.read_bytes() == b"x" * 1000
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(Rejected, match="more than 10 bytes"):
        await channel.fetch(wanted, elsewhere, 10)
    with pytest.raises(Rejected, match="234003"):
        await channel.fetch(
            replace(wanted, ref=f"{row['message_id']} file_other file"), elsewhere, 2000
        )
    assert list(elsewhere.iterdir()) == []


@pytest.mark.fault(37)
async def test_typing_is_a_reaction_that_goes_away_also_after_a_crash(
    feishu: FeishuRig, tmp_path: Path
) -> None:
    context, channel = FakeContext(tmp_path), feishu.channel(options=Options(state=tmp_path))
    async with listening(channel, context):
        await feishu.says("hi", chat="group")
        await context.texts(1)
        await channel.typing(place(channel), True)
        await channel.typing(place(channel), True)
        assert [row["emoji_type"] for row in feishu.world.reactions.values()] == ["Typing"]
        await channel.typing(place(channel), False)
        assert feishu.world.reactions == {}
        await channel.typing(place(channel), True)
    # the first life ended with a reaction standing
    other = feishu.channel(options=Options(state=tmp_path))
    async with listening(other, context), asyncio.timeout(20):
        while feishu.world.reactions:
            await asyncio.sleep(0.02)  # between two looks
    assert len(context.arrivals) == 1, "our own reactions are nobody's"


async def test_a_typing_reaction_that_is_taken_back_before_it_is_there_does_not_stay(
    feishu: FeishuRig, channel: Feishu, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path)
    task = asyncio.create_task(channel.receive(context))
    await feishu.says("hi", chat="group")
    await context.texts(1)
    feishu.server.faults.append(
        Fault("hang", 2.0, on=lambda verb, path: verb == "POST" and path.endswith("/reactions"))
    )
    begun = asyncio.create_task(channel.typing(place(channel), True))
    async with asyncio.timeout(20):
        while not any(path.endswith("/reactions") for _, path, _ in feishu.server.kept.calls):
            await asyncio.sleep(0.02)  # between two looks
    await channel.typing(place(channel), False)
    await begun
    assert any(verb == "DELETE" for verb, _, _ in feishu.server.kept.calls)
    assert feishu.world.reactions == {}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("end", ["off", "death"])
async def test_a_typing_reaction_whose_answer_was_lost_goes_away_too(
    feishu: FeishuRig, tmp_path: Path, end: str
) -> None:
    context, channel = FakeContext(tmp_path), feishu.channel(options=Options(state=tmp_path))
    async with listening(channel, context):
        await feishu.says("hi", chat="group")
        await context.texts(1)
        feishu.server.faults.append(
            Fault("lose", on=lambda verb, path: verb == "POST" and path.endswith("/reactions"))
        )
        with pytest.raises(NotReady):
            await channel.typing(place(channel), True)
        assert len(feishu.world.reactions) == 1
        if end == "off":
            await channel.typing(place(channel), False)
            assert feishu.world.reactions == {}
    other = feishu.channel(options=Options(state=tmp_path))
    async with listening(other, context), asyncio.timeout(20):
        while feishu.world.reactions:
            await asyncio.sleep(0.02)  # between two looks


@pytest.mark.fault(26)
async def test_credentials_that_end_in_the_middle_stop_everything_with_one_word(
    feishu: FeishuRig, channel: Feishu
) -> None:
    feishu.server.revoked = True
    (part,) = channel.render(Outbound(place(channel), "x"))
    with pytest.raises(AuthFailed, match=r"channels\.feishu"):
        await channel.send(part, KEY)


async def test_nothing_is_sent_without_a_connection(feishu: FeishuRig) -> None:
    with pytest.raises(NotReady):
        await feishu.channel().send(Part("post", json.dumps({"chat": "oc_group", "card": {}})), KEY)


@pytest.mark.parametrize("text", ["", "C123", "oc_", "oc_1/", "oc_1/C2", "ou 1"])
async def test_an_address_that_is_none_is_refused_with_the_forms_there_are(
    feishu: FeishuRig, text: str
) -> None:
    with pytest.raises(ValueError, match=r"oc_….*ou_…"):
        feishu.channel().parse_address(text)


async def test_the_card_limit_is_the_platforms() -> None:
    async with rig(Rules()) as feishu:
        channel = feishu.channel()
        async with channel.connect():
            for number, part in enumerate(channel.render(Outbound(place(channel), "字" * 20_000))):
                await channel.send(part, f"k.{number}")
        assert "".join(await said(feishu)).count("字") == 20_000
