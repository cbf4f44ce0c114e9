"""What only Matrix has, against a real Synapse: invitations, gaps, strangers' edits, redactions,
media, encryption, logins."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from channels.contract import (
    Address,
    Attachment,
    ChatId,
    Edited,
    Inbound,
    Options,
    Outbound,
    PersonId,
    Reacted,
)
from channels.errors import AuthFailed, NotReady, Rejected
from channels.matrix import MatrixSettings
from channels.matrix.adapter import Matrix
from channels.matrix.client import Pace
from ohmo_testing.channels import FakeContext
from tests.channels.listening import listening
from tests.conformance.channels.stage import deliver, eventually, live, place, texts
from tests.platforms.matrix.proxy import SYNC
from tests.platforms.matrix.rig import MatrixRig
from tests.platforms.matrix.rig import rig as matrix_rig

pytestmark = [pytest.mark.needs("synapse"), pytest.mark.needs("synapse")]


@pytest.fixture
async def rig() -> AsyncIterator[MatrixRig]:
    async with matrix_rig() as made:
        yield made


async def arrivals(context: FakeContext, kind: type, count: int = 1) -> list:
    await context.until(
        lambda context: sum(isinstance(arrival, kind) for arrival in context.arrivals) >= count
    )
    return [arrival for arrival in context.arrivals if isinstance(arrival, kind)]


async def test_an_invitation_is_accepted_and_what_was_said_since_is_heard(
    rig: MatrixRig, context: FakeContext
) -> None:
    async with live(rig.channel(), context) as task:
        await rig.creates("new", "ada", join=False)
        await rig.post({"msgtype": "m.text", "body": "are you there?"}, chat="new")
        assert await texts(context, 1, task) == ["are you there?"]
    assert context.messages[0].private


async def test_an_invitation_from_before_the_first_start_is_accepted_without_the_history_before_it(
    rig: MatrixRig, context: FakeContext
) -> None:
    await rig.creates("old", "ada", "bob", join=False, invite=[rig._account("bob").user])
    await rig.post({"msgtype": "m.text", "body": "before the invitation"}, chat="old")
    await rig.call("ada", "POST", f"/rooms/{rig.rooms['old']}/invite", {"user_id": rig.bot.user})
    await rig.post(
        {"msgtype": "m.text", "body": "ohmo, welcome", "m.mentions": {"user_ids": [rig.bot.user]}},
        chat="old",
    )
    async with live(rig.channel(), context) as task:
        assert await texts(context, 1, task) == ["ohmo, welcome"]
        assert rig.bot.user in await rig.members("old")


async def test_an_invitation_to_an_encrypted_room_is_declined_with_a_reason(
    rig: MatrixRig, context: FakeContext
) -> None:
    encryption = {
        "type": "m.room.encryption",
        "state_key": "",
        "content": {"algorithm": "m.megolm.v1.aes-sha2"},
    }
    async with live(rig.channel(), context):
        room = await rig.creates("secret", "ada", join=False, initial_state=[encryption])

        async def declined() -> dict:
            return await rig.call("ada", "GET", f"/rooms/{room}/state/m.room.member/{rig.bot.user}")

        left = await eventually(declined, lambda member: member["membership"] == "leave")
    assert "encrypted" in left["reason"]


async def test_nothing_is_ever_sent_into_a_room_that_became_encrypted(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel()
    address = await place(rig, channel, context)
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "secret words"))
        await channel.send(part, "before.0")
        await rig.call(
            "ada",
            "PUT",
            f"/rooms/{address.chat}/state/m.room.encryption",
            {"algorithm": "m.megolm.v1.aes-sha2"},
        )
        with pytest.raises(Rejected, match="encrypted"):
            await channel.send(part, "after.0")
    assert len([shown for shown in await rig.visible() if shown.by_bot]) == 1


async def test_encryption_switched_on_while_we_listen_is_heard_of(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel()
    async with live(channel, context) as task:
        await rig.says("hello")
        await texts(context, 1, task)
        address = context.messages[0].address
        await deliver(channel, Outbound(address, "hello"))
        await rig.call(
            "ada",
            "PUT",
            f"/rooms/{address.chat}/state/m.room.encryption",
            {"algorithm": "m.megolm.v1.aes-sha2"},
        )
        await rig.says("marker", chat="dm:bob", person="bob")
        await texts(context, 2, task)
        with pytest.raises(Rejected, match="encrypted"):
            await deliver(channel, Outbound(address, "again"), "01k9y2p7q3r4s5t6v7w8zz")


@pytest.mark.fault(29)
async def test_a_gap_longer_than_a_sync_and_a_page_is_filled_in_order(
    rig: MatrixRig, context: FakeContext
) -> None:
    context.catch_up = (timedelta(hours=1), 1000)
    async with live(rig.channel(), context) as task:
        await rig.says("before")
        await texts(context, 1, task)
    for number in range(170):
        await rig.says(f"missed {number}")
    async with live(rig.channel(), context) as task:
        heard = await texts(context, 171, task)
    assert heard == ["before", *(f"missed {number}" for number in range(170))]
    assert [message.order for message in context.messages] == sorted(
        message.order for message in context.messages
    )


async def test_the_fence_keeps_the_newest_of_what_was_missed(
    rig: MatrixRig, context: FakeContext
) -> None:
    context.catch_up = (timedelta(hours=1), 60)
    async with live(rig.channel(), context) as task:
        await rig.says("before")
        await texts(context, 1, task)
    for number in range(80):
        await rig.says(f"missed {number}")
    async with live(rig.channel(), context) as task:
        heard = await texts(context, 61, task)
    assert heard == ["before", *(f"missed {number}" for number in range(20, 80))]
    await context.until(lambda now: bool(now.gaps))
    ((text, address),) = context.gaps
    assert text.startswith("Not read: 20 messages said here between ")
    assert "takes the newest 60 of a conversation (channels.matrix.catch_up)" in text
    assert address == Address("matrix", rig.bot.user, ChatId(rig.rooms["dm:ada"]))


async def test_what_is_older_than_the_fence_is_left_out(
    rig: MatrixRig, context: FakeContext
) -> None:
    async with live(rig.channel(), context) as task:
        await rig.says("before")
        await texts(context, 1, task)
    await rig.says("too old")
    context.catch_up = (timedelta(0), 100)
    async with live(rig.channel(), context) as task:
        await context.until(lambda context: bool(context.gaps))
        await rig.says("new")
        assert await texts(context, 2, task) == ["before", "new"]
    assert [text[:35] for text, _ in context.gaps] == ["Not read: 1 message said here betwe"]


async def test_a_stranger_cannot_edit_what_somebody_said(
    rig: MatrixRig, context: FakeContext
) -> None:
    async with live(rig.channel(), context) as task:
        message = await rig.says("pay nothing", chat="group")
        await texts(context, 1, task)
        await rig.edits(message, "pay everything", chat="group", person="bob")
        await rig.edits(message, "pay a little", chat="group", person="ada")
        (edited,) = await arrivals(context, Edited)
    assert (edited.text, edited.message) == ("pay a little", message)


async def test_an_author_is_checked_after_a_restart_too(
    rig: MatrixRig, context: FakeContext
) -> None:
    async with live(rig.channel(), context) as task:
        message = await rig.says("pay nothing", chat="group")
        await texts(context, 1, task)
    async with live(rig.channel(), context):
        await rig.edits(message, "pay everything", chat="group", person="bob")
        await rig.edits(message, "pay a little", chat="group", person="ada")
        (edited,) = await arrivals(context, Edited)
    assert edited.text == "pay a little"


async def test_a_redaction_is_a_deletion_and_of_a_reaction_its_withdrawal(
    rig: MatrixRig, context: FakeContext
) -> None:
    async with live(rig.channel(), context) as task:
        message = await rig.says("hello")
        await texts(context, 1, task)
        relation = {"rel_type": "m.annotation", "event_id": message, "key": "👍"}
        reaction = await rig.post({"m.relates_to": relation}, kind="m.reaction")
        await rig.redacts(reaction)
        await rig.redacts(message)
        (deleted,) = await arrivals(context, Edited)
        given, taken = await arrivals(context, Reacted, 2)
    assert (deleted.message, deleted.text) == (message, None)
    assert (given.emoji, given.message, given.added) == ("👍", message, True)
    assert (taken.emoji, taken.message, taken.added) == ("👍", message, False)


async def test_a_reply_to_the_bot_in_a_group_addresses_it_and_quotes_it(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel()
    address = await place(rig, channel, context, "group")
    async with live(channel, context) as task:
        (receipt,) = await deliver(channel, Outbound(address, "the **figures**"))
        content = {
            "msgtype": "m.text",
            "body": "why?",
            "m.relates_to": {"m.in_reply_to": {"event_id": receipt.message}},
        }
        await rig.post(content, chat="group", person="bob")
        await texts(context, 2, task)
    reply = context.messages[-1]
    assert (reply.addressed, reply.reply_to, reply.quoted, reply.text) == (
        True,
        receipt.message,
        "the figures",
        "why?",
    )


@pytest.mark.fault(69)
async def test_what_the_bot_itself_and_other_bots_say_is_not_heard(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel()
    address = await place(rig, channel, context)
    async with live(channel, context) as task:
        await deliver(channel, Outbound(address, "my own words"))
        await rig.post({"msgtype": "m.notice", "body": "a bot's words"})
        await rig.says("marker")
        assert (await texts(context, 2, task))[1:] == ["marker"]


@pytest.mark.fault(69)
async def test_two_of_us_in_one_room_know_each_other_for_programs(
    rig: MatrixRig, context: FakeContext, tmp_path: Path
) -> None:
    """So that the house ignores the other one, or pauses after ten turns (``bots: answer``); a
    person is none."""
    one, hers = rig.channel(), rig._account("ada")
    other = Matrix(
        MatrixSettings(homeserver=rig.proxy.url, user=hers.user, access_token=hers.token), Options()
    )
    address = await place(rig, one, context)
    heard = FakeContext(tmp_path / "other")
    (tmp_path / "file.txt").write_text("x")
    async with live(other, heard) as task:
        async with live(one, context):
            (receipt,) = await deliver(one, Outbound(address, "from the one"))
            await deliver(one, Outbound(address, "changed", replaces=(receipt,)), "b" * 22)
            await deliver(one, Outbound(address, "as it is", plain=True), "c" * 22)
            await deliver(one, Outbound(address, "", files=(tmp_path / "file.txt",)), "d" * 22)
        await rig.says("from a person", person="bob", chat="group")
        await texts(heard, 4, task)
    said = {
        arrival.text or "file": arrival.person.bot
        for arrival in heard.arrivals
        if isinstance(arrival, Inbound)
    }
    assert said == {"from the one": True, "as it is": True, "file": True, "from a person": False}


@pytest.mark.fault(31)
async def test_malformed_events_are_survived(rig: MatrixRig, context: FakeContext) -> None:
    ada, sound = (
        rig._account("ada").user,
        {"type": "m.room.message", "event_id": "$x", "sender": rig._account("ada").user},
    )
    broken = [
        {},
        {"type": 7},
        {"type": "m.room.message", "sender": [], "content": 5},
        {"type": "m.room.member", "state_key": {}, "content": []},
        {**sound, "content": {"msgtype": 5, "body": []}, "origin_server_ts": "yesterday"},
        {
            **sound,
            "content": {
                "msgtype": "m.text",
                "body": "x",
                "m.relates_to": {"rel_type": "m.replace", "event_id": 7},
            },
        },
        {**sound, "content": {"msgtype": "m.text", "body": "", "m.relates_to": {"rel_type": []}}},
        {
            "type": "m.reaction",
            "event_id": "$y",
            "sender": ada,
            "content": {"m.relates_to": {"rel_type": "m.annotation"}},
        },
        {"type": "m.room.redaction", "event_id": "$z", "sender": ada, "content": None},
    ]
    room = await rig.room("dm:ada")
    async with live(rig.channel(), context) as task:
        await rig.says("before")
        await texts(context, 1, task)
        for event in broken:
            rig.proxy.repeat(room, event)
        await eventually(_nothing_of(rig.proxy.repeats), bool)
        await rig.says("after")
        assert await texts(context, 2, task) == ["before", "after"]
    # the others can be read and say nothing
    assert len(list((context.state / "malformed").iterdir())) == 5


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>502</html>",
        b"\xff\xfe{}",
        b"[1]",
        b'{"next_batch": "s',
        b"[" * 100_000,
        b"x" * 10_000_000,
    ],
)
@pytest.mark.fault(31)
async def test_a_garbled_sync_is_kept_aside_and_the_next_good_one_is_heard(
    rig: MatrixRig, context: FakeContext, answer: bytes
) -> None:
    async with live(rig.channel(), context) as task:
        await rig.says("before")
        await texts(context, 1, task)
        rig.proxy.babble(answer)
        await rig.says("after")
        assert await texts(context, 2, task) == ["before", "after"]
    (kept,) = (context.state / "malformed").iterdir()
    assert kept.read_bytes() == answer[:4096]


@pytest.mark.parametrize(
    ("kind", "value"), [("limit", 0.2), ("status", 502), ("reset", None), ("mute", None)]
)
@pytest.mark.fault(20, 23)
async def test_one_sync_that_fails_does_not_cost_the_connection(
    rig: MatrixRig, context: FakeContext, kind: str, value: object
) -> None:
    channel = rig.channel(pace=Pace(poll=5, slack=0.5))
    async with listening(channel, context) as task:
        await rig.says("before")
        await texts(context, 1, task)
        rig.proxy.trouble(kind, value)
        await rig.says("after")
        assert await texts(context, 2, task) == ["before", "after"]
        assert not task.done()
    assert sum(path.endswith("/whoami") for _, path in rig.proxy.requests) == 1, (
        "it was connected once"
    )


@pytest.mark.fault(23)
async def test_a_sync_waits_as_long_as_it_was_asked_to(
    rig: MatrixRig, context: FakeContext
) -> None:
    async with live(rig.channel(), context) as task:
        await rig.says("before")
        await texts(context, 1, task)
        rig.proxy.trouble("limit", 1.0)
        await eventually(_nothing_of(rig.proxy.troubles), bool)
        limited, asked = time.monotonic(), len(rig.proxy.requests)
        await rig.says("after")
        assert await texts(context, 2, task) == ["before", "after"]
        assert time.monotonic() - limited > 0.9, rig.proxy.requests[asked:]


@pytest.mark.fault(22)
async def test_a_mute_homeserver_is_noticed_and_nothing_is_missed(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel(pace=Pace(poll=0.2, slack=0.3, soon=0.05))
    async with channel.connect():
        await rig.says("before")
        task = asyncio.create_task(channel.receive(context))
        await texts(context, 1, task)
        rig.proxy.mute = True
        asked = len(rig.proxy.requests)
        await rig.says("meanwhile")
        with pytest.raises(NotReady, match="did not answer"):
            await asyncio.wait_for(task, 20)
        assert sum(path == SYNC for _, path in rig.proxy.requests[asked:]) == 2, (
            "given up after one poll and twice the slack"
        )
    rig.proxy.mute = False
    async with live(channel, context) as again:
        assert await texts(context, 2, again) == ["before", "meanwhile"]


async def test_the_first_sync_after_an_absence_may_take_longer_than_the_next(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel(pace=Pace(slack=0.5, catch_up=20))
    async with live(channel, context) as task:
        await rig.says("before")
        await texts(context, 1, task)
    await rig.says("meanwhile")
    rig.proxy.trouble("slow", 1.5)
    async with live(channel, context) as task:
        assert await texts(context, 2, task) == ["before", "meanwhile"]


def _nothing_of(kept: Collection[object]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return not kept

    return look


async def test_a_file_somebody_sent_is_fetched_and_one_too_large_leaves_nothing(
    rig: MatrixRig, context: FakeContext, tmp_path: Path
) -> None:
    channel = rig.channel()
    mxc = await rig.uploads(b"x" * 5000)
    content = {
        "msgtype": "m.file",
        "body": "look",
        "filename": "a/../b.txt",
        "url": mxc,
        "info": {"mimetype": "text/plain", "size": 5000},
    }
    async with live(channel, context) as task:
        await rig.post(content)
        await texts(context, 1, task)
    (heard,) = context.messages
    assert (heard.text, heard.attachments[0].media_type, heard.attachments[0].size) == (
        "look",
        "text/plain",
        5000,
    )
    async with channel.connect():
        path = await channel.fetch(heard.attachments[0], tmp_path, 5000)
        assert (path.parent, path.name, path.read_bytes()) == (tmp_path, "b.txt", b"x" * 5000)
        small = tmp_path / "small"
        small.mkdir()
        with pytest.raises(Rejected, match="has 5000 bytes, at most 4999"):
            await channel.fetch(heard.attachments[0], small, 4999)
        with pytest.raises(Rejected, match="larger than 4999"):
            await channel.fetch(replace(heard.attachments[0], size=5), small, 4999)
        with pytest.raises(Rejected):
            await channel.fetch(
                Attachment("mxc://ohmo.test/nothing", "x", "text/plain", None), small, 10
            )
        assert list(small.iterdir()) == []


async def test_a_picture_is_shown_as_a_picture_in_its_thread(
    rig: MatrixRig, context: FakeContext, tmp_path: Path
) -> None:
    channel = rig.channel()
    root = await rig.says("root", chat="group")
    address = await place(rig, channel, context, "group", root)
    picture = tmp_path / "plot.png"
    picture.write_bytes(b"\x89PNG")
    async with channel.connect():
        (receipt,) = await deliver(channel, Outbound(address, "", files=(picture,)))
    event = await rig.call("ada", "GET", f"/rooms/{address.chat}/event/{receipt.message}")
    content = event["content"]
    assert (content["msgtype"], content["info"]) == (
        "m.image",
        {"mimetype": "image/png", "size": 4},
    )
    assert (content["m.relates_to"]["rel_type"], content["m.relates_to"]["event_id"]) == (
        "m.thread",
        root,
    )


async def test_a_mention_is_real_and_an_accidental_room_mention_is_not(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel()
    address = await place(rig, channel, context, "group")
    bob = rig._account("bob").user
    async with channel.connect():
        (receipt,) = await deliver(
            channel, Outbound(address, f"@room {bob} look", mentions=(PersonId(bob),))
        )
        (plain,) = await deliver(
            channel, Outbound(address, "@room look", plain=True), "01k9y2p7q3r4s5t6v7w8zz"
        )
    content = (await rig.call("ada", "GET", f"/rooms/{address.chat}/event/{receipt.message}"))[
        "content"
    ]
    assert content["m.mentions"] == {"user_ids": [bob]}
    assert f'href="https://matrix.to/#/{bob}"' in content["formatted_body"]
    assert (await rig.call("ada", "GET", f"/rooms/{address.chat}/event/{plain.message}"))[
        "content"
    ]["m.mentions"] == {}


@pytest.mark.fault(26)
async def test_a_token_that_was_really_logged_out_is_reported_at_once(
    rig: MatrixRig, context: FakeContext
) -> None:
    async with live(rig.channel(), context) as task:
        await rig.says("hello")
        await texts(context, 1, task)
        await rig.call("bot", "POST", "/logout", {})
        with pytest.raises(AuthFailed):
            await asyncio.wait_for(task, 30)


async def test_a_password_logs_in_under_one_device_so_that_repeats_stay_recognisable(
    rig: MatrixRig, tmp_path: Path
) -> None:
    settings = MatrixSettings(
        homeserver=rig.proxy.url, user=rig.bot.user, access_token=None, password=rig.bot.password
    )
    room = await rig.room("dm:ada")
    said = set()
    for _ in range(2):
        channel = Matrix(settings, Options(state=tmp_path))
        async with channel.connect():
            assert channel.account == rig.bot.user
            (receipt,) = await deliver(
                channel, Outbound(Address("matrix", channel.account, ChatId(room)), "once")
            )
            said.add(receipt.message)
    assert len(said) == 1
    # a look without a folder, as `ohmo channels test` takes it, leaves no device behind
    async with Matrix(settings, Options()).connect():
        pass
    devices = (await rig.call("bot", "GET", "/devices"))["devices"]
    assert [
        device["device_id"] for device in devices if device["device_id"].startswith("OHMO")
    ] == ["OHMO"]
    wrong = Matrix(settings.model_copy(update={"password": "wrong"}), Options())
    with pytest.raises(AuthFailed):
        async with wrong.connect():
            pass


async def test_settings_that_cannot_work_say_which_key(rig: MatrixRig) -> None:
    good = MatrixSettings(homeserver=rig.proxy.url, user=rig.bot.user, access_token=rig.bot.token)
    for change, error, words in (
        ({"user": "@somebody:else.org"}, AuthFailed, "channels.matrix.user"),
        ({"access_token": None}, AuthFailed, "channels.matrix.access_token"),
        ({"access_token": "wrong"}, AuthFailed, "M_UNKNOWN_TOKEN"),
        ({"homeserver": "http://127.0.0.1:9"}, NotReady, "cannot be reached"),
        ({"homeserver": f"{rig.proxy.url}/nowhere"}, NotReady, "channels.matrix.homeserver"),
    ):
        with pytest.raises(error, match=words):
            async with Matrix(good.model_copy(update=change), Options()).connect():
                pass


@pytest.mark.fault(29)
async def test_an_unknown_saved_position_goes_on_from_now(
    rig: MatrixRig, context: FakeContext
) -> None:
    context.cursors["sync"] = json.dumps({"since": "s999_nonsense", "order": 5, "invites": []})
    async with live(rig.channel(), context) as task:
        await rig.says("hello")
        assert await texts(context, 1, task) == ["hello"]
    ((text, address),) = context.gaps
    assert "Messages said before may be missing." in text
    assert address is None


async def test_a_room_that_cannot_be_written_to_is_rejected(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel()
    async with channel.connect():
        nowhere = Address("matrix", channel.account, ChatId("!nowhere:ohmo.test"))
        with pytest.raises(Rejected):
            await deliver(channel, Outbound(nowhere, "hello"))


async def test_the_largest_text_of_any_alphabet_passes_the_homeserver(
    rig: MatrixRig, context: FakeContext
) -> None:
    channel = rig.channel()
    address = await place(rig, channel, context)
    async with channel.connect():
        for number, text in enumerate(
            (
                "漢" * 30_000,
                '&<"' * 9_000,
                "[a](https://example.org/?q=1&r=2) " * 900,
                "| a | b |\n|-|-|\n" + "| 1 | **2** |\n" * 2000,
            )
        ):
            draft = await deliver(
                channel, Outbound(address, "draft"), f"01k9y2p7q3r4s5t6v7w8d{number}"
            )
            await deliver(
                channel,
                Outbound(address, text, replaces=tuple(draft)),
                f"01k9y2p7q3r4s5t6v7w8e{number}",
            )
            await deliver(
                channel,
                replace(Outbound(address, text), plain=True),
                f"01k9y2p7q3r4s5t6v7w8f{number}",
            )
