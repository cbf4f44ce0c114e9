"""Which rooms the bot goes into, what it leaves behind there, and how it comes back after being
signed out; on a real Synapse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channels.contract import Address, ChatId, Options, Outbound, Person
from channels.matrix import MatrixSettings
from channels.matrix.adapter import Matrix
from ohmo_testing.channels import FakeContext
from tests.conformance.channels.stage import deliver, eventually, live, texts
from tests.platforms.matrix.rig import MatrixRig
from tests.platforms.matrix.rig import rig as matrix_rig

pytestmark = [pytest.mark.needs("synapse"), pytest.mark.needs("synapse")]


@pytest.fixture
async def rig() -> AsyncIterator[MatrixRig]:
    async with matrix_rig() as made:
        yield made


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path / "context")


async def test_invitations_are_followed_when_the_house_says_so_and_declined_with_a_reason_when_not(
    rig: MatrixRig, context: FakeContext
) -> None:
    asked: list[tuple[Address, Person, bool]] = []

    def invited(place: Address, person: Person, private: bool) -> bool:
        asked.append((place, person, private))
        return person.id == rig.people["ada"].user

    async with live(rig.channel(Options(invited=invited)), context) as task:
        stranger = await rig.creates("party", "bob", "ada", join=False)
        await rig.creates("talk", "ada", join=False)
        await rig.says("hello", chat="talk")
        assert await texts(context, 1, task) == ["hello"]

        async def declined() -> dict:
            return await rig.call(
                "bob", "GET", f"/rooms/{stranger}/state/m.room.member/{rig.bot.user}"
            )

        left = await eventually(declined, lambda member: member["membership"] == "leave")
    assert "Ask my owner" in left["reason"]
    assert {(place.chat, person.id, private) for place, person, private in asked} == {
        (stranger, rig.people["bob"].user, False),
        (rig.rooms["talk"], rig.people["ada"].user, True),
    }


async def test_a_replaced_room_is_followed_and_what_was_meant_for_the_old_one_is_said_there(
    rig: MatrixRig, context: FakeContext
) -> None:
    old = await rig.creates("club", "ada", "bob", preset="public_chat")
    channel = rig.channel()
    async with live(channel, context) as task:
        await rig.says("before", chat="club")
        await texts(context, 1, task)
        new = (await rig.call("ada", "POST", f"/rooms/{old}/upgrade", {"new_version": "10"}))[
            "replacement_room"
        ]
        rig.rooms["club"] = new
        await eventually(lambda: rig.members("club"), lambda members: rig.bot.user in members)
        await rig.says("after", chat="club")
        assert (await texts(context, 2, task))[1] == "after"
        assert context.messages[1].address.chat == new
        (said,) = await deliver(
            channel, Outbound(Address("matrix", rig.bot.user, ChatId(old)), "late answer")
        )
    assert any(f"{old} was replaced by {new}" in line for line, _ in context.gaps)
    assert (await rig.call("ada", "GET", f"/rooms/{new}/event/{said.message}"))["content"][
        "body"
    ] == "late answer"


async def test_a_read_marker_moves_once_the_message_is_stored_and_not_before(
    rig: MatrixRig, context: FakeContext
) -> None:
    async def read() -> dict:
        try:
            return await rig.call(
                "bot",
                "GET",
                f"/user/{rig.bot.user}/rooms/{rig.rooms['dm:ada']}/account_data/m.fully_read",
            )
        except AssertionError:  # 404: the homeserver has not written it yet
            return {}

    async with live(rig.channel(), context) as task:
        message = await rig.says("hello")
        await texts(context, 1, task)

        async def moved() -> bool:
            return any("/read_markers" in path for _, path in rig.proxy.requests)

        await eventually(moved, bool)
        assert await eventually(read, bool) == {"event_id": message}


async def test_a_device_that_was_signed_out_comes_back_with_the_password_as_the_same_one(
    rig: MatrixRig, context: FakeContext, tmp_path: Path
) -> None:
    settings = MatrixSettings(
        homeserver=rig.proxy.url, user=rig.bot.user, password=rig.bot.password
    )
    options = Options(state=tmp_path / "state")
    async with live(Matrix(settings, options), context) as task:
        await rig.says("one")
        await texts(context, 1, task)
    kept = (tmp_path / "state" / "session.json").read_text()
    (tmp_path / "state" / "session.json").write_text(kept.replace('"token": "', '"token": "stale'))
    async with live(Matrix(settings, options), context) as task:
        await rig.says("two")
        assert await texts(context, 2, task) == ["one", "two"]
    devices = [
        device["device_id"] for device in (await rig.call("bot", "GET", "/devices"))["devices"]
    ]
    assert devices.count("OHMO") == 1
