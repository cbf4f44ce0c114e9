"""``ohmo trace``: everything one message caused, on the real daemon, after kill -9 and without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ohmo_testing.house import house
from ohmo_testing.scripted import Says
from tests.faults.daemon import until
from tests.journeys.at_keyboard import keyboard
from tests.journeys.conftest import MakeWorld
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
TOKEN = "ghp_" + "a1B2c3D4" * 5


async def test_everything_one_message_caused_is_told_in_its_order(tmp_path: Path) -> None:
    calls = (Call("Bash", {"command": "echo one"}), Call("Read", {"file_path": "gone.txt"}))
    server = ModelServer(
        (Turn(calls=calls), Turn(text="done"), Turn(text="slow", delay=30), Turn(text="later"))
    )
    async with keyboard(tmp_path, server) as home:
        said = json.loads((await home.ohmo("-p", f"go {TOKEN}", "--output", "json")).out)
        thread = said["thread"]
        listed = json.loads((await home.ohmo("inbox", "list", "--json")).out)
        [row] = [one for one in listed if one["thread"] == thread]
        name = f"{thread}/{row['seq']}"
        told = await home.ohmo("trace", name)
        assert told.code == 0, told.err
        kinds = [line[25:34].strip() for line in told.out.split("\n")[1:] if line]
        order = ["arrival", "access", "turn", "call", "result", "said"]
        assert [kind for kind in dict.fromkeys(kinds) if kind in order] == order
        assert kinds.count("model") == 2
        assert "tool_ended" in told.out
        assert 'Bash {"command": "echo one"}' in told.out
        assert TOKEN not in told.out
        whole = json.loads((await home.ohmo("trace", name, "--json")).out)
        assert TOKEN not in json.dumps(whole)
        turn = whole["turn"]["turn"]
        by_turn = json.loads((await home.ohmo("trace", turn, "--json")).out)
        assert by_turn["turn"] == whole["turn"]
        unknown = await home.ohmo("trace", "nothing/1")
        assert unknown.code != 0
        assert "nothing/1: no message, turn or post is called so" in unknown.err
        assert unknown.err.strip().count("\n") == 0

        asked = await home.start("-p", "and now?", "--resume", thread)

        async def begun() -> bool:
            return server.count == 3

        await until("the third request came", begun)
        await home.daemon.kill()
        asked.kill()
        await asked.wait()
        interrupted = await home.ohmo("trace", f"{thread}/{row['seq']}")  # without a daemon
        assert interrupted.code == 0
        assert interrupted.out.split("\n")[1:5] == told.out.split("\n")[1:5]
        await home.daemon.start()

        async def answered() -> bool:
            return server.count == 4 and await home.daemon.idle()

        await until("it went on", answered)
        rows = json.loads((await home.ohmo("inbox", "list", "--json")).out)
        second = max((one for one in rows if one["thread"] == thread), key=lambda one: one["seq"])
        again = await home.ohmo("trace", f"{thread}/{second['seq']}")
        assert "begun 2 times" in again.out
        assert "later" in again.out


async def test_a_message_of_a_platform_is_traced_by_its_own_id_to_the_receipt(
    world: MakeWorld,
) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "touch x"}),)),
        "Good morning, Ada.",
        config="permissions: {ask: ['Bash']}\n",
    )
    async with house(life) as lived:
        message = await life.platform.says("good morning")
        card = await life.hears("touch x")
        await life.platform.presses(card.id, card.choices[0])
        await life.hears("Good morning, Ada.")
        store = lived.store

        async def told() -> bool:
            return (await store.outbox(state="ready")) == [] and (
                await store.outbox(state="sending")
            ) == []

        await until("it is sent", told)
        found = await store.trace(message)
        assert found is not None
        assert found.turn is not None
        assert [one.kind for one in found.arrivals] == ["message"]
        assert [(one.state, one.person != "") for one in found.questions] == [("allowed", True)]
        assert len(found.calls) == 2
        last = found.posts[-1]
        assert last.state == "sent"
        assert all(part.receipt is not None for part in last.parts)
        by_post = await store.trace(last.row.id)
        assert by_post is not None
        assert by_post.turn == found.turn
        assert await store.trace("nothing") is None
