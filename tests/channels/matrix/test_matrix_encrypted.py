"""Encrypted rooms on a real Synapse: ohmo's device against mautrix's own, over restarts, lost keys
and wrong files."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.contract import Address, ChatId, Edited, Options, Outbound, PersonId, Reacted, TopicId
from channels.errors import AuthFailed, NotReady, Rejected
from channels.matrix import MatrixSettings
from channels.matrix.adapter import Matrix
from ohmo_testing.channels import FakeContext
from tests.conformance.channels.stage import deliver, eventually, live, texts
from tests.platforms.matrix.rig import ENCRYPTION, MatrixRig
from tests.platforms.matrix.rig import rig as matrix_rig

pytestmark = [
    pytest.mark.needs("synapse"),
    pytest.mark.xdist_group("synapse"),
    pytest.mark.needs("synapse"),
]
KEY = "01k9y2p7q3r4s5t6v7w8"


@pytest.fixture
async def rig() -> AsyncIterator[MatrixRig]:
    async with matrix_rig(encrypted=True) as made:
        yield made


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path / "context")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(state=tmp_path / "state")


async def here(rig: MatrixRig, chat: str = "dm:ada") -> Address:
    return Address("matrix", rig.bot.user, ChatId(await rig.room(chat)))


async def raw(rig: MatrixRig, event: str, chat: str = "dm:ada") -> dict[str, Any]:
    return await rig.call("ada", "GET", f"/rooms/{rig.rooms[chat]}/event/{event}")


async def test_two_devices_of_two_makers_understand_each_other_and_the_homeserver_understands_neither(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    channel, ada = rig.channel(options), await rig.client("ada")
    async with live(channel, context) as task:
        root = await rig.says("the secret question")
        assert await texts(context, 1, task) == ["the secret question"]
        (said,) = await deliver(channel, Outbound(await here(rig), "the **secret** answer"))
        heard = await ada.hears(rig.rooms["dm:ada"], said.message)
        assert (heard["content"]["body"], heard["content"]["formatted_body"]) == (
            "the secret answer",
            "<p>the <strong>secret</strong> answer</p>",
        )
        thread = Address("matrix", rig.bot.user, ChatId(rig.rooms["dm:ada"]), TopicId(root))
        (threaded,) = await deliver(
            channel,
            Outbound(thread, "in the thread", mentions=(PersonId(ada.account.user),)),
            f"{KEY}ab",
        )
        inner = await ada.hears(rig.rooms["dm:ada"], threaded.message)
        await deliver(
            channel, Outbound(await here(rig), "a better answer", replaces=(said,)), f"{KEY}ac"
        )
        await rig.edits(root, "the secret question, better said")
        await context.until(lambda now: any(isinstance(one, Edited) for one in now.arrivals))
    assert inner["content"]["m.mentions"] == {"user_ids": [ada.account.user]}
    assert (await raw(rig, threaded.message))["content"]["m.relates_to"]["rel_type"] == "m.thread"
    assert [shown.text for shown in await rig.visible() if shown.by_bot] == [
        "a better answer",
        "in the thread",
    ]
    (edited,) = [arrival for arrival in context.arrivals if isinstance(arrival, Edited)]
    assert (edited.text, edited.message) == ("the secret question, better said", root)
    page = await rig.call(
        "ada", "GET", f"/rooms/{rig.rooms['dm:ada']}/messages", dir="b", limit=100
    )
    assert "secret" not in json.dumps(page)


async def test_after_a_restart_it_is_the_same_device_with_the_same_keys(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    ada = await rig.client("ada")
    identities = []
    for number in range(2):
        channel = rig.channel(options)
        async with live(channel, context) as task:
            await rig.says(f"hello {number}")
            await texts(context, number + 1, task)
            (said,) = await deliver(
                channel, Outbound(await here(rig), f"answer {number}"), f"{KEY}b{number}"
            )
            assert (await ada.hears(rig.rooms["dm:ada"], said.message))["content"][
                "body"
            ] == f"answer {number}"
        devices = (
            await rig.call("ada", "POST", "/keys/query", {"device_keys": {rig.bot.user: []}})
        )["device_keys"][rig.bot.user]
        identities.append({name: one["keys"] for name, one in devices.items()})
    assert identities[0] == identities[1]
    assert list(identities[0]) == [rig.bot.device]


async def test_what_was_said_and_shared_while_it_was_away_is_read_afterwards(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    async with live(rig.channel(options), context) as task:
        await rig.says("before")
        await texts(context, 1, task)
    await rig.creates("new", "ada")
    for number in range(3):
        await rig.says(f"missed {number}", chat="new")
    async with live(rig.channel(options), context) as task:
        assert (await texts(context, 4, task))[1:] == ["missed 0", "missed 1", "missed 2"]


async def test_a_batch_that_could_not_be_stored_costs_no_key(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    """The keys are kept before the messages; when these come again, so do the keys' envelopes,
    which open only once."""
    context.refuse(2)
    async with live(rig.channel(options), context) as task:
        await rig.says("one")
        await rig.creates("other", "ada")
        await rig.says("two", chat="other")
        assert sorted(await texts(context, 2, task)) == ["one", "two"]
    assert context.gaps == []


async def test_a_password_makes_one_device_and_keeps_it(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    settings = MatrixSettings(
        homeserver=rig.proxy.url, user=rig.bot.user, password=rig.bot.password, encryption=True
    )
    assert settings.access_token is None
    for number in range(2):
        async with live(Matrix(settings, options), context) as task:
            await rig.says(f"hello {number}")
            await texts(context, number + 1, task)
    devices = (await rig.call("bot", "GET", "/devices"))["devices"]
    assert len([device for device in devices if device["device_id"].startswith("OHMO")]) == 1
    assert options.state is not None
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in options.state.iterdir()} == {
        "session.json": "0o600",
        "keys": "0o700",
    }


async def test_a_room_gets_new_keys_when_somebody_comes_or_goes_and_after_as_many_messages_as_it_asks_for(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    rules = {**ENCRYPTION, "content": {**ENCRYPTION["content"], "rotation_period_msgs": 2}}
    await rig.creates("group", "ada", initial_state=[rules])
    channel, address, bob = rig.channel(options), await here(rig, "group"), await rig.client("bob")
    sessions: list[str] = []

    async def say(text: str) -> str:
        (said,) = await deliver(channel, Outbound(address, text), f"{KEY}c{len(sessions)}")
        sessions.append((await raw(rig, said.message, "group"))["content"]["session_id"])
        return said.message

    async def known(membership: str) -> None:
        # said after the change, so heard after it
        await rig.says("marker", mention=True, chat="group")
        await context.until(
            lambda now: (
                sum("marker" in message.text for message in now.messages) == len(sessions) // 2
            )
        )

    async with live(channel, context):
        before = await say("alone")
        await say("still alone")
        await rig.call(
            "ada", "POST", f"/rooms/{address.chat}/invite", {"user_id": bob.account.user}
        )
        await rig.call("bob", "POST", f"/join/{address.chat}", {})
        await known("join")
        with_bob = await say("welcome")
        assert (await bob.hears(address.chat, with_bob))["content"]["body"] == "welcome"
        for number in range(2):
            await say(f"number {number}")
        await rig.call("bob", "POST", f"/rooms/{address.chat}/leave", {})
        await rig.says("marker", chat="group")
        await context.until(lambda now: len(now.messages) == 2)
        await say("among us")
    assert await bob.reads(await raw(rig, before, "group")) is None
    assert sessions[0] == sessions[1]
    assert sessions[2] == sessions[3]
    assert len(set(sessions)) == 4
    assert (
        await bob.reads(await raw(rig, (await raw(rig, with_bob, "group"))["event_id"], "group"))
        is not None
    )


async def test_a_lost_key_is_asked_for_and_the_message_answered_late(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    ada = await rig.client("ada")
    room = await rig.room("dm:ada")
    async with live(rig.channel(options), context) as task:
        await ada.sync()
        await ada.machine.share_group_session(room, [ada.account.user])  # not with ohmo
        await ada.says(room, {"msgtype": "m.text", "body": "first, without a key"})
        ada.generous = True
        await eventually(ada_syncs(ada, context), bool)
        await rig.creates("second", "ada")
        await rig.says("second", chat="second")
        heard = await texts(context, 2, task)
    assert sorted(heard) == ["first, without a key", "second"]
    assert context.gaps == []


async def test_a_message_whose_key_never_comes_is_spoken_of_once_and_still_read_after_a_restart_when_it_comes(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    ada, late = await rig.client("ada"), Later()
    room = await rig.room("dm:ada")
    options = Options(state=options.state, clock=late)
    async with live(rig.channel(options), context) as task:
        await ada.sync()
        await ada.machine.share_group_session(room, [ada.account.user])
        await ada.says(room, {"msgtype": "m.text", "body": "lost?"})
        await eventually(asked_for_a_key(rig), bool)
        late.by = timedelta(minutes=2)
        await rig.creates("other", "ada")
        await rig.says("wake up", chat="other")
        await texts(context, 1, task)
        await context.until(lambda now: bool(now.gaps))
    ((line, address),) = context.gaps
    assert line.startswith("Not read: a message of ada-")
    assert "its key has not reached me" in line
    assert address == await here(rig)
    ada.generous = True
    async with live(rig.channel(options), context) as task:
        await eventually(ada_syncs(ada, context, 2), bool)
        assert (await texts(context, 2, task))[1] == "lost?"
    assert len(context.gaps) == 1


def ada_syncs(ada: Any, context: FakeContext, count: int = 1) -> Callable[[], Any]:
    async def look() -> bool:
        await ada.sync()
        return len(context.messages) >= count

    return look


def asked_for_a_key(rig: MatrixRig) -> Callable[[], Any]:
    async def look() -> bool:
        return any("/sendToDevice/m.room_key_request/" in path for _, path in rig.proxy.requests)

    return look


class Later:
    """A clock that can be put forward."""

    by = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.by


async def test_a_file_goes_both_ways_and_the_homeserver_holds_scrambled_bytes(
    rig: MatrixRig, context: FakeContext, options: Options, tmp_path: Path
) -> None:
    channel, ada = rig.channel(options), await rig.client("ada")
    scrambled, file = ada.scrambled(b"ada's figures " * 50_000)
    file["url"] = await rig.uploads(scrambled)
    content = {
        "msgtype": "m.file",
        "body": "figures.txt",
        "file": file,
        "info": {"mimetype": "text/plain", "size": 700_000},
    }
    async with live(channel, context):
        await rig.post(content)
        await context.until(lambda now: bool(now.messages))
        (attachment,) = context.messages[0].attachments
        got = await channel.fetch(attachment, tmp_path, 1_000_000)
        assert (got.name, got.read_bytes()) == ("figures.txt", b"ada's figures " * 50_000)
        wrong = json.loads(attachment.ref) | {"sha256": "AAAA"}
        with pytest.raises(Rejected, match="other bytes"):
            await channel.fetch(
                type(attachment)(json.dumps(wrong), "x.txt", "text/plain", None),
                tmp_path,
                1_000_000,
            )
        assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "x"))]
        mine = tmp_path / "plot.png"
        mine.write_bytes(b"\x89PNG secret")
        (said,) = await deliver(channel, Outbound(await here(rig), "", files=(mine,)), f"{KEY}d")
        shown = (await ada.hears(rig.rooms["dm:ada"], said.message))["content"]
    assert (shown["msgtype"], shown["body"], "url" in shown) == ("m.image", "plot.png", False)
    held = await rig.downloads(shown["file"]["url"])
    assert b"secret" not in held
    assert ada.opened(held, shown["file"]) == b"\x89PNG secret"


async def test_a_repeat_is_folded_although_it_was_encrypted_anew(
    rig: MatrixRig, options: Options
) -> None:
    channel, address = rig.channel(options), await here(rig)
    await rig.client("ada")
    async with channel.connect():
        (part,) = channel.render(Outbound(address, "once"))
        first, second = await channel.send(part, f"{KEY}e.0"), await channel.send(part, f"{KEY}e.0")
    assert first == second
    assert [shown.text for shown in await rig.visible() if shown.by_bot] == ["once"]


@pytest.mark.parametrize("encryption", [True, False])
async def test_a_room_whose_encryption_cannot_be_asked_for_or_came_unnoticed_gets_nothing_plain(
    rig: MatrixRig, context: FakeContext, options: Options, encryption: bool
) -> None:
    settings = MatrixSettings(
        homeserver=rig.proxy.url,
        user=rig.bot.user,
        access_token=rig.bot.token,
        encryption=encryption,
    )
    rig.encrypted = False
    await rig.creates("plain", "ada")
    channel, address = Matrix(settings, options), await here(rig, "plain")
    async with channel.connect():
        await deliver(channel, Outbound(address, "in plain"), f"{KEY}f")
        rig.proxy.deaf = "m.room.encryption"
        with pytest.raises(NotReady):
            await deliver(channel, Outbound(address, "unknown"), f"{KEY}g")
        rig.proxy.deaf = ""
        await rig.call(
            "ada", "PUT", f"/rooms/{address.chat}/state/m.room.encryption", ENCRYPTION["content"]
        )
        if encryption:
            await deliver(channel, Outbound(address, "locked"), f"{KEY}h")
        else:
            with pytest.raises(Rejected, match=r"channels\.matrix\.encryption: true"):
                await deliver(channel, Outbound(address, "refused"), f"{KEY}h")
    page = await rig.call("ada", "GET", f"/rooms/{address.chat}/messages", dir="f", limit=100)
    assert [
        event["content"]["body"] for event in page["chunk"] if event["type"] == "m.room.message"
    ] == ["in plain"]


async def test_encryption_of_an_unknown_kind_is_refused_in_words(
    rig: MatrixRig, options: Options
) -> None:
    rig.encrypted = False
    await rig.creates(
        "odd", "ada", initial_state=[{**ENCRYPTION, "content": {"algorithm": "m.rot13"}}]
    )
    settings = MatrixSettings(
        homeserver=rig.proxy.url, user=rig.bot.user, access_token=rig.bot.token, encryption=True
    )
    channel, address = Matrix(settings, options), await here(rig, "odd")
    async with channel.connect():
        with pytest.raises(Rejected, match=r"encrypted by m\.rot13"):
            await deliver(channel, Outbound(address, "hello"))


async def test_keys_that_are_missing_damaged_or_open_to_others_keep_the_channel_off_with_the_reason(
    rig: MatrixRig, options: Options, tmp_path: Path
) -> None:
    rig.encrypted = True
    async with rig.channel(options).connect():
        pass
    assert options.state is not None
    keys, lock, db = (
        options.state / "keys",
        options.state / "keys" / "pickle.key",
        options.state / "keys" / f"{rig.bot.device}.db",
    )

    def nothing() -> None:
        shutil.rmtree(keys)

    def another_key() -> None:
        lock.write_text("0" * 64)

    def garbage() -> None:
        db.write_bytes(b"garbage" * 4096)

    whole = tmp_path / "whole"
    shutil.copytree(options.state, whole)
    for damage, words in (
        (lock.unlink, "pickle.key is missing"),
        (lambda: lock.chmod(0o644), "has the mode 0644, it must be 0600: run chmod 600"),
        (lambda: db.chmod(0o640), "has the mode 0640"),
        (another_key, "does not open"),
        (garbage, "is damaged"),
        (db.unlink, "with other keys"),
        (nothing, "with other keys"),
    ):
        shutil.rmtree(options.state)
        shutil.copytree(whole, options.state)
        damage()
        with pytest.raises(AuthFailed, match=words):
            async with rig.channel(options).connect():
                pass
    shutil.rmtree(options.state)
    shutil.copytree(whole, options.state)
    async with rig.channel(options).connect():
        pass


async def test_a_broken_channel_between_two_devices_is_renewed(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    ada, room = await rig.client("ada"), await rig.room("dm:ada")
    async with live(rig.channel(options), context) as task:
        await rig.says("one")
        await texts(context, 1, task)
        (bot,) = (await ada.keys.get_devices(rig.bot.user) or {}).values()
        session = await ada.keys.get_latest_session(bot.identity_key)
        assert session is not None
        for _ in range(3):  # words that ohmo never gets, so that the next ones do not fit
            session.encrypt("lost")
        await ada.keys.remove_outbound_group_session(room)
        await rig.says("two")
        assert await texts(context, 2, task) == ["one", "two"]


async def test_a_reaction_and_a_reply_name_messages_that_were_encrypted(
    rig: MatrixRig, context: FakeContext, options: Options
) -> None:
    channel = rig.channel(options)
    async with live(channel, context):
        (said,) = await deliver(channel, Outbound(await here(rig), "approve?"), f"{KEY}k")
    async with live(rig.channel(options), context):  # nothing of it is in memory any more
        await rig.post(
            {"m.relates_to": {"rel_type": "m.annotation", "event_id": said.message, "key": "✅"}},
            kind="m.reaction",
        )
        await rig.post(
            {
                "msgtype": "m.text",
                "body": "which one?",
                "m.relates_to": {"m.in_reply_to": {"event_id": said.message}},
            }
        )
        await context.until(lambda now: len(now.arrivals) == 2)
    (reacted,) = [arrival for arrival in context.arrivals if isinstance(arrival, Reacted)]
    assert (reacted.emoji, reacted.message) == ("✅", said.message)
    assert (context.messages[0].reply_to, context.messages[0].quoted) == (said.message, "approve?")
