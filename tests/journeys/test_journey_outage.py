"""The model is away: one honest line, the messages kept and answered in order; and what can never
be answered ends visibly, also for the owner."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from ohmo.contracts.errors import BadKey, CutOff, Overloaded
from ohmo.contracts.provider import ModelRequest
from ohmo.sessions import user_steps
from ohmo_testing.channels import EVERYTHING
from ohmo_testing.house import eventually, house
from ohmo_testing.scripted import Answer, Says, echo
from tests.journeys.conftest import MakeWorld

KEPT = user_steps.waiting("x").split(" (")[0]


async def test_messages_wait_for_the_model_and_are_answered_in_order(world: MakeWorld) -> None:
    life = world()
    life.model.default = lambda request: Overloaded("The model is overloaded.")
    async with house(life):
        await life.platform.says("one")
        await life.platform.says("two")
        await life.hears(KEPT)
    life.clock.tick(600)
    async with house(life):  # still away after a restart: nothing is said twice
        await eventually(lambda: len(life.model.requests) >= 4)
        life.model.default = echo

        def answered() -> bool:
            # time goes on: a turn may be given back only now, and begins a pause of its own
            life.clock.tick(60)
            return any("echo: two" in text for text in life.texts())

        await eventually(answered)
    assert [text.split(" (")[0] for text in life.texts()] == [KEPT, "echo: one", "echo: two"]


async def test_half_an_answer_and_an_outage_become_one_message_in_the_end(world: MakeWorld) -> None:
    """The draft that stood when the model went away is what the answer takes the place of."""
    gate = asyncio.Event()
    life = world(capabilities=replace(EVERYTHING, preview=False, revise=timedelta(seconds=0.1)))

    def breaks(request: ModelRequest) -> Answer:
        return Says("Half of it and then some more", chunks=2, between=gate.wait)

    life.model.default = breaks
    async with house(life, drain=0.0):
        await life.platform.says("tell me")
        await life.hears("Half of it")
    life.model.default = lambda request: CutOff("cut off")
    async with house(life):
        await life.hears(KEPT)
    life.clock.tick(600)
    life.model.default = lambda request: "All of it."
    async with house(life):
        await life.hears("All of it.")
    assert [text for text in life.texts() if "Half" in text] == []
    assert len([text for text in life.texts() if "All of it." in text]) == 1


async def test_a_dead_letter_is_said_in_its_thread_and_to_the_owner(world: MakeWorld) -> None:
    life = world(BadKey("The key was refused."), config="owner: ['fake:dm:owner']\n")
    async with house(life) as built:
        await eventually(lambda: built.connections.address("fake", "x") is not None)
        await life.platform.says("hello")
        await life.hears("I could not finish this: The key was refused.")
        await life.hears("failed for good", "dm:owner")
        report = await built.store.audit_report()
    assert report.problems == ()
    assert report.endings == {"dead": 1}


async def test_an_owner_who_reads_it_in_the_thread_is_not_told_again(world: MakeWorld) -> None:
    life = world(BadKey("The key was refused."), config="owner: ['fake:dm:owner']\n")
    async with house(life) as built:
        await eventually(lambda: built.connections.address("fake", "x") is not None)
        await life.platform.says("hello", chat="dm:owner", person="dm:owner")
        await life.hears("I could not finish this", "dm:owner")
        await life.platform.says("again", chat="dm:owner", person="dm:owner")
        await life.hears("echo: again", "dm:owner")
    assert len(life.texts("dm:owner")) == 2
