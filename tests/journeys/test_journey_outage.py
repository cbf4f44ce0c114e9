"""The model is away, rows are damaged, tokens revoked, bursts and gaps: what waits is answered in
order, what never can be ends visibly, and each is always said aloud."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

from channels.errors import RateLimited
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


async def test_a_message_that_cannot_be_read_ends_visibly_and_the_thread_goes_on(
    world: MakeWorld,
) -> None:
    gate = asyncio.Event()
    life = world(Says("never", before=gate.wait), config="owner: ['fake:dm:owner']\n")
    async with house(life, drain=0.0):
        await life.platform.says("one")
        await eventually(lambda: len(life.model.requests) == 1)
    with closing(sqlite3.connect(life.folder / "ohmo.db")) as store, store:
        assert (
            store.execute("UPDATE inbox SET body = 'nonsense' WHERE kind = 'message'").rowcount == 1
        )
    async with house(life) as built:
        await life.platform.says("another", chat="dm:bob", person="bob")
        await life.hears("echo: another", "dm:bob")

        def said() -> bool:
            life.clock.tick(1)  # its tries are spaced by the clock
            return any("cannot be read any more" in text for text in life.texts())

        await eventually(said)
        await life.hears("failed for good", "dm:owner")
        await life.platform.says("two")
        await life.hears("echo: two")
        report = await built.store.audit_report()
    assert report.endings == {"dead": 1, "answered": 2}


async def test_what_could_not_be_said_with_a_revoked_token_goes_out_with_a_new_one(
    world: MakeWorld,
) -> None:
    gate = asyncio.Event()
    life = world(Says("One.", before=gate.wait))
    async with house(life) as built:
        await life.platform.says("one")
        await eventually(lambda: len(life.model.requests) == 1)
        life.platform.revoke()
        gate.set()
        await eventually(lambda: built.board.report()["fake"].state == "auth_failed")
        tries = len([call for call in life.platform.calls if call.method == "connect"])
        assert tries <= 2
        assert life.texts() == []
    life.platform.revoke(False)
    async with house(life):
        await life.hears("One.")
    assert life.texts() == ["One."]


async def test_a_burst_in_many_threads_and_a_limited_chat_delay_nobody_else(
    world: MakeWorld,
) -> None:
    life = world()
    life.platform.fail("send", RateLimited(60.0))
    async with house(life):
        await life.platform.says("first", chat="dm:busy", person="busy")
        await eventually(lambda: any(call.method == "send" for call in life.platform.calls))
        for number in range(100):
            await life.platform.says(
                f"noise {number}", chat=f"dm:noise{number % 10}", person="noisy"
            )
        await life.platform.says("am I heard?")
        await life.hears("echo: am I heard?")
        answered = sum(len(life.texts(f"dm:noise{number}")) for number in range(10))
        assert answered < 100  # long before the burst was over
        await eventually(
            lambda: sum(len(life.texts(f"dm:noise{number}")) for number in range(10)) == 100
        )
        assert life.texts("dm:noise3") == [f"echo: noise {number}" for number in range(3, 100, 10)]
        assert life.texts("dm:busy") == []  # it waits as it was asked to


async def test_what_lies_beyond_the_fence_is_counted_aloud(world: MakeWorld) -> None:
    life = world("ok")
    life.model.default = "ok"
    async with house(life):
        await life.platform.says("hello")
        await life.hears("ok")
    for number in range(103):
        await life.platform.says(f"{number}")
    async with house(life) as built:
        await life.hears("Not read: 3 messages said here")
        await eventually(lambda: len(life.model.requests) == 101)
        assert len(await built.store.inbox(limit=1_000)) == 101
