"""People change their mind: /stop in the middle, /new, and words that steer what runs."""

from __future__ import annotations

import asyncio

import pytest

from ohmo.contracts.messages import Text, UserStep
from ohmo_testing.house import World, eventually, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld


def words_of(life: World) -> list[str]:
    steps = life.model.requests[-1].steps
    return [
        block.text
        for step in steps
        if isinstance(step, UserStep)
        for block in step.blocks
        if isinstance(block, Text)
    ]


async def test_stop_in_the_middle_of_an_answer_ends_it_and_the_next_message_is_answered(
    world: MakeWorld,
) -> None:
    life = world(Says("Once upon a time", between=asyncio.Event().wait))
    async with house(life) as built:
        await life.platform.says("a long story")
        await eventually(lambda: built.pool.running == 1 and len(life.model.requests) == 1)
        await life.platform.says("/stop")
        await life.hears("Stopped.")
        await eventually(lambda: built.pool.running == 0)
        await life.platform.says("thank you")
        await life.hears("echo: thank you")
    assert life.texts() == ["Once upo\n\n_stopped by Ada_", "Stopped.", "echo: thank you"]
    told = [
        (type(step).__name__, block.text)
        for step in life.model.requests[-1].steps
        for block in step.blocks
    ]  # type: ignore[union-attr]
    assert told[:2] == [("UserStep", "a long story"), ("ModelStep", "Once upo")]
    assert told[2][0] == "UserStep"
    assert "stopped" in told[2][1]


async def test_what_was_said_before_a_newer_message_interrupted_it_stays(world: MakeWorld) -> None:
    life = world(
        Says("Once upon a time", between=asyncio.Event().wait),
        config="sessions: {busy: interrupt}\n",
    )
    async with house(life) as built:
        await life.platform.says("a long story")
        await eventually(lambda: built.pool.running == 1 and len(life.model.requests) == 1)
        await life.platform.says("a short one")
        await life.hears("echo: a short one")
    assert life.texts() == ["Once upo\n\n_stopped_", "echo: a short one"]
    assert "Once upo" in [
        block.text for step in life.model.requests[-1].steps for block in step.blocks
    ]  # type: ignore[union-attr]


async def test_new_forgets_and_stop_with_nothing_running_says_so(world: MakeWorld) -> None:
    life = world()
    async with house(life):
        await life.platform.says("remember seven")
        await life.hears("echo: remember seven")
        await life.platform.says("/new")
        await life.hears("A new conversation begins here.")
        await life.platform.says("what?")
        await life.hears("echo: what?")
        assert words_of(life) == ["what?"]
        await life.platform.says("/stop")
        await life.hears("Nothing was running here.")


async def test_words_said_while_a_tool_runs_steer_the_turn(world: MakeWorld) -> None:
    gate = asyncio.Event()
    life = world(
        Says("", calls=(("Glob", {"pattern": "*"}),), before=gate.wait),
        "Quietly done.",
        config="sessions: {busy: steer}\n",
    )
    async with house(life) as built:
        await life.platform.says("look around")
        await eventually(lambda: len(life.model.requests) == 1)
        await life.platform.says("but quietly")
        await eventually(lambda: waiting(built))
        gate.set()
        await life.hears("Quietly done.")
    assert words_of(life) == ["look around", "but quietly"]
    assert [text.split("\n")[0] for text in life.texts()] == ["Quietly done."]


@pytest.mark.parametrize("ways", [["/steer but quietly"], ["/steer", "but quietly"]])
async def test_steer_is_read_by_the_turn_that_runs_already(
    world: MakeWorld, ways: list[str]
) -> None:
    gate = asyncio.Event()
    life = world(Says("", calls=(("Glob", {"pattern": "*"}),), before=gate.wait), "Quietly done.")
    async with house(life) as built:
        await life.platform.says("look around")
        await eventually(lambda: len(life.model.requests) == 1)
        for words in ways[:-1]:
            await life.platform.says(words)
            await eventually(lambda: len(life.texts()) == 1)  # what it says to that
        await life.platform.says(ways[-1])
        await eventually(lambda: waiting(built))
        gate.set()
        await life.hears("Quietly done.")
        await eventually(lambda: built.pool.running == 0)
    assert words_of(life) == ["look around", "but quietly"]
    assert len(life.model.requests) == 2, "no turn of its own"


async def test_steer_with_words_and_nothing_to_steer_is_a_message(world: MakeWorld) -> None:
    life = world()
    async with house(life):
        await life.platform.says("/steer what time is it?")
        await life.hears("echo: what time is it?")
    assert life.texts() == ["echo: what time is it?"]


async def waiting(built: object) -> bool:
    counts = await built.store.counts()  # type: ignore[attr-defined]
    return any(state == "waiting" for _, state in counts.inbox)
