"""C3: a direct message is answered in its thread, the answer grows while it is written, and the
house may be restarted in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ohmo_testing.channels import EVERYTHING
from ohmo_testing.house import house
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
