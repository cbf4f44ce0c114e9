"""People see what the agent does while it does it, and what it cost beneath the answer; once,
whatever dies in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from ohmo.contracts.errors import BadKey
from ohmo.contracts.provider import ModelRequest
from ohmo_testing.channels import EVERYTHING
from ohmo_testing.house import eventually, house
from ohmo_testing.scripted import Answer, Says
from tests.journeys.conftest import MakeWorld

LIKE_SLACK = replace(EVERYTHING, preview=False, revise=timedelta(seconds=0.1))
LOOK = Says("", calls=(("Glob", {"pattern": "*.py"}),))


async def test_the_work_is_seen_while_it_is_done_and_summed_up_beneath_the_answer(
    world: MakeWorld,
) -> None:
    gate = asyncio.Event()
    life = world(LOOK, Says("There is none.", before=gate.wait), capabilities=LIKE_SLACK)
    async with house(life):
        await life.platform.says("look")
        working = await life.hears("🔍 Glob `*.py`")
        gate.set()
        done = await life.hears("There is none.")
    assert working.text.splitlines()[-1].endswith("1 turn · 1 call_")
    assert done.id == working.id
    assert life.texts() == [done.text]
    assert done.text.startswith("There is none.\n\n_20 in / 10 out · ")
    assert done.text.endswith(" · 2 turns · 1 call_")


async def test_the_lines_stay_where_that_is_wanted_and_count_what_an_earlier_life_did(
    world: MakeWorld,
) -> None:
    gate = asyncio.Event()
    life = world(
        LOOK,
        Says("never", before=gate.wait),
        "There is none.",
        capabilities=LIKE_SLACK,
        activity="keep",
    )
    async with house(life, drain=0.0):
        await life.platform.says("look")
        await life.hears("🔍 Glob")
    async with house(life):
        done = await life.hears("There is none.")
    assert life.texts() == [done.text]
    assert "🔍 Glob `*.py` → 1 line" in done.text
    assert done.text.endswith(" · 2 turns · 1 call_")


async def test_where_nobody_wants_to_see_it_there_is_only_the_answer(world: MakeWorld) -> None:
    life = world(LOOK, "There is none.", activity="off")
    async with house(life):
        await life.platform.says("look")
        await life.hears("There is none.")
    assert life.texts() == ["There is none."]


async def test_a_plain_answer_has_no_footer(world: MakeWorld) -> None:
    life = world("Hello.")
    async with house(life):
        await life.platform.says("hi")
        await life.hears("Hello.")
    assert life.texts() == ["Hello."]


async def test_a_turn_that_fails_leaves_what_could_be_read_of_it(world: MakeWorld) -> None:
    gate = asyncio.Event()
    life = world(capabilities=LIKE_SLACK)

    def grows(request: ModelRequest) -> Answer:
        life.model.default = BadKey("The key was refused.")
        return Says(
            "Half of it and then some more",
            calls=(("Glob", {"pattern": "*"}),),
            chunks=2,
            between=gate.wait,
        )

    life.model.default = grows
    async with house(life):
        await life.platform.says("tell me")
        await life.hears("Half of it")
        gate.set()
        await life.hears("I could not finish this")
    assert len(life.texts()) == 1
    assert life.texts()[0].startswith(
        "Half of it and then some more\n\n_I could not finish this: The key was refused."
    )


async def test_a_turn_that_goes_on_after_a_restart_grows_in_its_old_draft(world: MakeWorld) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    life = world(
        Says("First try, which takes long", chunks=2, between=first.wait),
        Says("Second try, which grows", chunks=2, between=second.wait),
        capabilities=LIKE_SLACK,
    )
    async with house(life, drain=0.0):
        await life.platform.says("tell me")
        await life.hears("First try")
    async with house(life):
        await life.hears("Second try")
        assert len(life.texts()) == 1
        second.set()
        await eventually(lambda: life.texts() == ["Second try, which grows"])
