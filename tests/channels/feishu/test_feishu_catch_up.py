"""What was said on Feishu while nobody listened: fetched once, fenced, counted aloud (faults.md
rows 27 to 30)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from channels.contract import Arrival, Cursor, Edited, Inbound, Outbound
from channels.feishu.listening import SETTLES, STRANGERS
from ohmo_testing.channels import FakeContext
from tests.channels.listening import listening, receiving
from tests.platforms.feishu.rig import FeishuRig, rig
from tests.platforms.feishu.rules import Rules
from tests.platforms.feishu.server import Fault


@pytest.fixture
async def feishu() -> AsyncIterator[FeishuRig]:
    async with rig(Rules(retry_after=())) as made:  # no repetition helps: the history alone has to
        yield made


async def test_direct_chats_and_groups_are_read_from_where_they_were_left(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with listening(feishu.channel(), context):
        await feishu.says("hi")
        await feishu.says("hello", chat="group")
        await context.texts(2)
    await feishu.says("while away, directly")
    await feishu.says("while away, in the group", chat="group")
    async with listening(feishu.channel(), context):
        await context.texts(4)
        await feishu.says("and now")
        assert sorted(await context.texts(5)) == [
            "and now",
            "hello",
            "hi",
            "while away, directly",
            "while away, in the group",
        ]
    away = {said.text: said for said in context.messages}
    assert (away["while away, directly"].private, away["while away, in the group"].addressed) == (
        True,
        True,
    )


async def test_threads_are_containers_of_their_own_and_are_read_too(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with listening(feishu.channel(), context):
        root = await feishu.says("a topic", chat="group")
        await feishu.says("in it", chat="group", topic=root)
        await context.texts(2)
    await feishu.says("later in it", chat="group", topic=root, mention=False)
    async with listening(feishu.channel(), context):
        await context.texts(3)
    said = context.messages[-1]
    assert (said.text, said.address.topic, said.addressed) == ("later in it", root, True), (
        "a thread we were called in is followed"
    )


@pytest.mark.fault(29)
async def test_an_event_that_was_lost_although_a_newer_one_was_stored_is_still_fetched(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with listening(feishu.channel(), context):
        await feishu.says("one")
        await context.texts(1)
        # Feishu has given up to deliver it
        emit, feishu.world.emit = (feishu.world.emit, lambda *_, **__: "")
        await feishu.says("lost")
        feishu.world.emit = emit
        await feishu.says("three")
        assert await context.texts(2) == ["one", "three"]
    async with listening(feishu.channel(), context):
        assert await context.texts(3) == ["one", "three", "lost"]


@pytest.mark.fault(28)
async def test_edits_and_recalls_of_the_time_away_are_found(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with listening(feishu.channel(), context):
        edited, recalled = await feishu.says("helo"), await feishu.says("never mind")
        await context.texts(2)
    feishu.world.changes(edited, "hello")
    await feishu.deletes(recalled)
    async with listening(feishu.channel(), context):
        await context.until(lambda now: sum(isinstance(one, Edited) for one in now.arrivals) == 2)
    changes = {
        arrival.message: arrival.text for arrival in context.arrivals if isinstance(arrival, Edited)
    }
    assert changes == {edited: "hello", recalled: None}


async def test_the_fence_leaves_out_the_older_ones_and_says_how_many(
    feishu: FeishuRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, most=3)
    async with listening(feishu.channel(), context):
        await feishu.says("before")
        await context.texts(1)
    for number in range(8):
        await feishu.says(f"n{number}")
    async with listening(feishu.channel(), context):
        assert await context.texts(4) == ["before", "n5", "n6", "n7"]
        await context.until(lambda now: bool(now.gaps))
    ((text, address),) = context.gaps
    assert "5 messages" in text
    assert "channels.feishu.catch_up" in text
    assert address is not None
    assert address.chat == "oc_dmada"


async def test_what_feishu_brings_itself_beyond_the_fence_is_told_in_its_place(
    feishu: FeishuRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, most=3)
    async with listening(feishu.channel(), context):
        await feishu.says("before")
        await context.texts(1)
    missed = [await feishu.says(f"n{number}") for number in range(6)]
    hidden = Fault("limit", 2, lambda verb, path: verb == "GET" and path == "im/v1/messages")
    feishu.server.faults.append(hidden)
    async with listening(feishu.channel(), context):
        await feishu.server.until(lambda server: not server.faults)  # its history has to wait
        for message in missed[1:3]:
            await feishu.redeliver(message)
        assert await context.texts(6) == ["before", "n1", "n2", "n3", "n4", "n5"]
        await context.until(lambda now: bool(now.gaps))
    ((text, _),) = context.gaps
    assert "1 message " in text


async def test_messages_older_than_the_fence_are_counted_not_heard(
    feishu: FeishuRig, tmp_path: Path
) -> None:
    context = FakeContext(tmp_path, oldest=timedelta(hours=1))
    async with listening(feishu.channel(), context):
        await feishu.says("before")
        await context.texts(1)
    row = feishu.world.says("oc_dmada", "ou_ada", "long ago")
    since = int(feishu.world.rows["oc_dmada"][0]["create_time"])
    row["create_time"] = row["update_time"] = str(since - 7_200_000 + 1)
    feishu.world.rows["oc_dmada"].sort(key=lambda one: int(one["create_time"]))
    await feishu.says("just now")
    async with listening(feishu.channel(), context):
        assert await context.texts(2) == ["before", "just now"]


async def test_many_pages_of_history_are_all_read(feishu: FeishuRig, tmp_path: Path) -> None:
    context = FakeContext(tmp_path, most=500)
    async with listening(feishu.channel(), context):
        await feishu.says("before")
        await context.texts(1)
    for number in range(120):
        await feishu.says(f"n{number}")
    async with listening(feishu.channel(), context):
        assert (await context.texts(121))[1:] == [f"n{number}" for number in range(120)]


async def test_a_history_that_is_refused_is_told_to_the_owner_with_the_scope(
    feishu: FeishuRig, context: FakeContext
) -> None:
    feishu.server.scopes_missing.add("im/v1/chats")
    async with listening(feishu.channel(), context):
        await context.until(lambda now: bool(now.gaps))
        await feishu.says("still heard")
        assert await context.texts(1) == ["still heard"]
    assert "scope:im/v1/chats" in context.gaps[0][0]


async def test_live_events_of_a_chat_wait_behind_its_catch_up(
    feishu: FeishuRig, context: FakeContext
) -> None:
    async with listening(feishu.channel(), context):
        await feishu.says("before")
        await context.texts(1)
    await feishu.says("missed")
    channel = feishu.channel()
    async with channel.connect():
        await feishu.says("live")  # it waits in the open line while the history is not read yet
        async with receiving(channel, context):
            assert await context.texts(3) == ["before", "missed", "live"]


async def test_what_was_said_before_a_first_contact_comes_before_it(
    feishu: FeishuRig, context: FakeContext
) -> None:
    """Nobody lists one-to-one chats: what Ada said while nobody listened is found when she speaks
    again."""
    async with listening(feishu.channel(), context):
        await feishu.says("from Bob", chat="dm:bob", person="bob")
        await context.texts(1)
    await feishu.says("missed")
    async with listening(feishu.channel(), context):
        await feishu.says("heard")
        assert await context.texts(3) == ["from Bob", "missed", "heard"]
    assert all(said.settles == 0 for said in context.messages), (
        "what is in order is answered at once"
    )


async def test_in_a_crowd_of_first_contacts_all_come_in_order_or_wait_until_they_do(
    feishu: FeishuRig, context: FakeContext
) -> None:
    people = [f"p{number}" for number in range(3 * STRANGERS)]
    for person in people:
        await feishu.says(f"{person} missed", chat=f"dm:{person}", person=person)
    async with listening(feishu.channel(), context):
        await asyncio.gather(
            *(
                feishu.says(f"{person} heard", chat=f"dm:{person}", person=person)
                for person in people
            )
        )
        await context.texts(2 * len(people))
    for person in people:
        told = [said for said in context.messages if said.text.startswith(f"{person} ")]
        assert sorted(told, key=lambda one: one.order)[0].text == f"{person} missed"
        assert told[0].text == f"{person} missed" or told[0].settles == SETTLES


async def test_what_a_killed_life_did_not_look_for_is_found_by_the_next(
    feishu: FeishuRig, context: FakeContext
) -> None:
    """The event is stored and answered while its chat's history hangs, and even our own answer to
    it is no sign that all before it was read."""
    await feishu.says("missed")
    channel = feishu.channel()
    async with listening(channel, context):
        await feishu.says("from Bob", chat="dm:bob", person="bob")
        await context.until(lambda now: '"heard"' not in now.cursors.get("oc_dmbob", '"heard"'))
        feishu.server.faults.append(
            Fault("hang", 30.0, lambda verb, path: verb == "GET" and path == "im/v1/messages")
        )
        answered = len(feishu.server.kept.answers)
        await feishu.says("heard")
        await feishu.server.until(
            lambda server: len(server.kept.answers) > answered and not server.faults
        )
        assert await context.texts(2) == ["from Bob", "heard"]
        assert context.messages[-1].settles == SETTLES, (
            "nobody answers it before its chat could be read"
        )
        (part,) = channel.render(Outbound(context.messages[-1].address, "an answer"))
        await channel.send(part, "k1")
    async with listening(feishu.channel(), context):
        assert await context.texts(3) == ["from Bob", "heard", "missed"]


class Slow(FakeContext):
    """What was said earlier takes longer to store, at first, than anybody waits for it, and is
    dropped then."""

    dropped = 0

    async def publish(self, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> None:
        if not self.dropped and any(
            isinstance(said, Inbound) and said.text == "missed" for said in arrivals
        ):
            self.dropped += 1
            await asyncio.Event().wait()
        await super().publish(arrivals, cursor)


async def test_what_was_found_before_a_first_contact_but_not_stored_in_time_is_found_again(
    feishu: FeishuRig, tmp_path: Path
) -> None:
    context = Slow(tmp_path)
    await feishu.says("missed")
    async with listening(feishu.channel(), context):
        await feishu.says("from Bob", chat="dm:bob", person="bob")
        await context.texts(1)
        await feishu.says("heard")
        assert await context.texts(3) == ["from Bob", "heard", "missed"]
    assert context.dropped == 1
    assert [said.settles for said in context.messages] == [0, SETTLES, 0]


async def test_a_first_contact_is_heard_although_its_history_is_refused(
    feishu: FeishuRig, context: FakeContext
) -> None:
    feishu.server.scopes_missing.add("im/v1/messages")
    async with listening(feishu.channel(), context):
        await context.until(lambda now: bool(now.gaps))  # the group's
        await feishu.says("hello")
        assert await context.texts(1) == ["hello"]
    assert len(context.gaps) == 1, "nothing of a first contact need be missing"
