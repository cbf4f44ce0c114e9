"""Messages that are answered: one in private (C3: it grows in its thread, also over a restart), in a
group, with a file, and from a stranger who is let in by a code."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from channels.errors import Rejected
from ohmo.contracts.messages import CallResult, Text, UserStep
from ohmo.contracts.provider import ModelRequest
from ohmo.gateway.access import Policy
from ohmo.gateway.people import PeopleDesk, role_of_next
from ohmo_testing.channels import EVERYTHING
from ohmo_testing.house import house
from ohmo_testing.scripted import Says
from tests.faults.daemon import until
from tests.journeys.conftest import MakeWorld

LIKE_SLACK = replace(EVERYTHING, preview=False, revise=timedelta(seconds=1))


async def test_a_direct_message_is_answered_once_and_typing_ends(world: MakeWorld) -> None:
    life = world("Good morning, Ada.", capabilities=LIKE_SLACK)
    async with house(life):
        await life.platform.says("good morning")
        await life.hears("Good morning, Ada.")
    assert life.texts() == ["Good morning, Ada."]
    assert not life.platform.typing or life.platform.typing[-1][1] is False


async def test_the_second_message_knows_the_first_one_also_after_a_restart(
    world: MakeWorld,
) -> None:
    life = world("Noted.", "You said: blue.")
    async with house(life):
        await life.platform.says("my favourite colour is blue")
        await life.hears("Noted.")
    async with house(life):
        await life.platform.says("which colour do I like?")
        await life.hears("You said: blue.")
    said = [
        block.text
        for step in life.model.requests[-1].steps
        for block in getattr(step, "blocks", ())
    ]
    assert said == ["my favourite colour is blue", "Noted.", "which colour do I like?"]


async def test_what_was_said_while_the_house_was_down_is_answered_when_it_is_up(
    world: MakeWorld,
) -> None:
    life = world()
    await life.platform.says("are you there?")
    async with house(life):
        await life.hears("echo: are you there?")


async def test_a_message_that_comes_twice_is_answered_once(world: MakeWorld) -> None:
    life = world()
    async with house(life):
        number = await life.platform.says("only once")
        await life.hears("echo: only once")
        await life.platform.redeliver(number)
        await life.platform.says("and now?")
        await life.hears("echo: and now?")
    assert life.texts() == ["echo: only once", "echo: and now?"]


def told(request: ModelRequest) -> str:
    return "\n".join(
        block.text
        for step in request.steps
        if isinstance(step, UserStep)
        for block in step.blocks
        if isinstance(block, Text)
    )


async def test_a_mention_in_a_thread_is_answered_in_that_thread_and_chatter_is_not(
    world: MakeWorld,
) -> None:
    life = world("It is green.")
    async with house(life):
        await life.platform.says("lunch?", chat="team", person="bob", topic="t1", mention=False)
        await life.platform.says("@ohmo is CI green?", chat="team", person="ada", topic="t1")
        await life.hears("It is green.", "team")
    assert [(said.text, said.topic) for said in life.bot("team")] == [("It is green.", "t1")]
    assert "\nAda:\n@ohmo is CI green?" in told(life.model.requests[0])
    assert len(life.model.requests) == 1


async def test_two_people_share_a_thread_unless_each_is_to_have_their_own(world: MakeWorld) -> None:
    life = world(config="sessions: {scope: per_person}\n")
    async with house(life):
        await life.platform.says("@ohmo my secret is blue", chat="team", person="ada")
        await life.hears("my secret is blue", "team")
        await life.platform.says("@ohmo what do you know?", chat="team", person="bob")
        await life.hears("what do you know?", "team")
        await life.platform.says("@ohmo and of me?", chat="team", person="ada")
        await life.hears("and of me?", "team")
    of_bob, of_ada = life.model.requests[1], life.model.requests[2]
    assert "secret" not in told(of_bob)
    assert "secret" in told(of_ada)


async def test_the_model_can_read_a_file_that_came_with_a_message(world: MakeWorld) -> None:
    def read(request: ModelRequest) -> Says:
        path = told(request).split(", ")[-1].rstrip("]")
        return Says("", calls=(("Read", {"file_path": path}),))

    life = world(read, "It says: forty-two.")
    async with house(life):
        await life.platform.sends_file("notes.txt", b"forty-two\n")
        await life.hears("forty-two")
    path = Path(told(life.model.requests[0]).split(", ")[-1].rstrip("]"))
    assert path.read_bytes() == b"forty-two\n"
    assert any(
        "forty-two" in step.result.text
        for step in life.model.requests[-1].steps
        if isinstance(step, CallResult)
    )


async def test_a_file_that_is_gone_is_said_and_the_turn_goes_on(world: MakeWorld) -> None:
    life = world("I could not get it.")
    life.platform.fail("fetch", Rejected("it was deleted"))
    async with house(life):
        await life.platform.sends_file("notes.txt", b"x")
        await life.hears("I could not get it.")
    assert "notes.txt could not be fetched" in told(life.model.requests[0])


async def test_a_stranger_is_let_in_with_the_code_they_were_told(world: MakeWorld) -> None:
    life = world(policy=Policy(dm="pairing"))
    async with house(life) as built:

        async def nobody_asks() -> bool:  # the people may be those of a moment ago
            return (await built.status()).asking == 0

        await life.platform.says("hello?", person="eve", chat="dm:eve")
        card = await life.hears("I do not know you yet", "dm:eve")
        assert life.model.requests == []
        code = re.search(r"`([A-Z2-9]{8})`", card.text)
        assert code is not None
        assert (await built.status()).asking == 1
        role = role_of_next("user", chosen=False, owner_named=True)
        people = PeopleDesk(
            built.store, built.store, built.access, life.clock, role, built.bus.publish
        )
        assert await people.pair("WRONGONE") is None
        let_in = await people.pair(code[1])
        assert let_in is not None
        assert let_in.role == "guest"
        await life.hears("You are let in as guest", "dm:eve")
        await life.hears("echo: hello?", "dm:eve")
        await life.platform.says("hello again", person="eve", chat="dm:eve")
        await life.hears("echo: hello again", "dm:eve")
        await until("nobody asks to be let in", nobody_asks)
    async with house(life):
        await life.platform.says("and tomorrow", person="eve", chat="dm:eve")
        await life.hears("echo: and tomorrow", "dm:eve")
