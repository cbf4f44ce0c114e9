"""Encrypted rooms on a real Synapse: ohmo's device against mautrix's own, over restarts, lost keys and wrong files."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from channels.contract import Address, ChatId, Edited, Options, Outbound, PersonId, TopicId
from channels.testing import FakeContext
from tests.conformance.channels.stage import deliver, live, texts
from tests.platforms.matrix.rig import MatrixRig
from tests.platforms.matrix.rig import rig as matrix_rig

pytestmark = [
    pytest.mark.needs("synapse"),
    pytest.mark.xdist_group("synapse"),
    pytest.mark.skipif(importlib.util.find_spec("synapse") is None, reason="the wheel matrix-synapse is not installed"),
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
        (threaded,) = await deliver(channel, Outbound(thread, "in the thread", mentions=(PersonId(ada.account.user),)), f"{KEY}ab")
        inner = await ada.hears(rig.rooms["dm:ada"], threaded.message)
        await deliver(channel, Outbound(await here(rig), "a better answer", replaces=(said,)), f"{KEY}ac")
        await rig.edits(root, "the secret question, better said")
        await context.until(lambda now: any(isinstance(one, Edited) for one in now.arrivals))
    assert inner["content"]["m.mentions"] == {"user_ids": [ada.account.user]}
    assert (await raw(rig, threaded.message))["content"]["m.relates_to"]["rel_type"] == "m.thread"
    assert [shown.text for shown in await rig.visible() if shown.by_bot] == ["a better answer", "in the thread"]
    (edited,) = [one for one in context.arrivals if isinstance(one, Edited)]
    assert (edited.text, edited.message) == ("the secret question, better said", root)
    page = await rig.call("ada", "GET", f"/rooms/{rig.rooms['dm:ada']}/messages", dir="b", limit=100)
    assert "secret" not in json.dumps(page)
