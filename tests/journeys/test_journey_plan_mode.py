"""Plan mode: nothing is changed before a person has allowed the plan, in a chat, over restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ohmo.contracts.messages import CallResult, Text, UserStep
from ohmo_testing.house import World, eventually, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld

WRITE = ("Write", {"file_path": "a.txt", "content": "x"})
PLAN = ("ExitPlanMode", {"plan": "We do this:\n\n1. write a.txt\n   - one x\n2. look at it"})
FREE = "permissions: {mode: full_auto}\nowner: ['fake:ada']\n"


def results(life: World) -> list[str]:
    steps = life.model.requests[-1].steps
    return [step.result.text for step in steps if isinstance(step, CallResult)]


def told(life: World) -> list[str]:
    steps = [step for step in life.model.requests[-1].steps if isinstance(step, UserStep)]
    return [block.text for step in steps for block in step.blocks if isinstance(block, Text)]


async def test_a_plan_that_is_allowed_after_a_restart_is_carried_out(
    world: MakeWorld, tmp_path: Path
) -> None:
    life = world(
        Says("", calls=(("EnterPlanMode", {}),)),
        Says("", calls=(WRITE,)),
        Says("", calls=(PLAN,)),
        Says("", calls=(WRITE,)),
        "Done.",
        config=FREE,
    )
    written = tmp_path / "work" / "a.txt"
    async with house(life):
        await life.platform.says("write an x")
        card = await life.hears("Shall this plan be carried out?")
        assert "1. write a.txt" in card.text
        entered, refused = results(life)
        assert "Plan mode is on" in entered
        assert "plan mode" in refused
    assert not written.exists()
    async with house(life):
        await life.platform.presses(card.id, card.choices[0])
        await life.hears("Done.")
    assert written.read_text() == "x"
    allowed = results(life)[2]
    assert "Plan: 0 of 2 done\n1. [ ] write a.txt\n2. [ ] look at it" in allowed


async def test_a_no_with_words_reaches_the_model_and_plan_mode_stays(
    world: MakeWorld, tmp_path: Path
) -> None:
    life = world(
        Says("", calls=(PLAN,)),
        Says("", calls=(WRITE,)),
        "I plan again.",
        Says("", calls=(WRITE,)),
        "Still planning.",
        Says("", calls=(WRITE,)),
        "Written.",
        config=FREE,
    )
    async with house(life):
        await life.platform.says("/plan write an x")
        await life.hears("Shall this plan be carried out?")
        assert told(life)[-1] == "write an x"
        assert any("Plan mode is on" in text for text in told(life))
        await life.platform.says("/deny two of them, please")
        await life.hears("I plan again.")
        denied, refused = results(life)
        assert "two of them, please" in denied
        assert "plan mode" in refused
    async with house(life):  # also after a restart
        await life.platform.says("go on")
        await life.hears("Still planning.")
        assert not (tmp_path / "work" / "a.txt").exists()
        await life.platform.says("/mode full_auto --i-know")  # a person's word wins
        await life.hears("Mode is now `full_auto`")
        await life.platform.says("now")
        await life.hears("Written.")
    assert (tmp_path / "work" / "a.txt").read_text() == "x"
    assert any("Plan mode is off" in text for text in told(life))


async def test_a_stranger_to_the_plan_may_not_allow_it(world: MakeWorld) -> None:
    life = world(Says("", calls=(PLAN,)), "Done.")
    async with house(life):
        await life.platform.says("@ohmo plan", chat="team", person="ada")
        card = await life.hears("Shall this plan", "team")
        await life.platform.presses(card.id, card.choices[0], chat="team", person="eve")
        await eventually(lambda: len(life.platform.acknowledged) == 1)
        assert "not yours" in life.platform.acknowledged[0][1]
        await life.platform.presses(card.id, card.choices[0], chat="team", person="ada")
        await life.hears("Done.", "team")


async def test_plan_mode_holds_for_its_session_and_is_seen(
    world: MakeWorld, tmp_path: Path
) -> None:
    life = world(Says("", calls=(WRITE,)), "Written.", config=FREE)
    async with house(life):
        await life.platform.says("hello")
        await life.hears("")
        await life.platform.says("/plan")
        await life.hears("Plan mode is on")
        await life.platform.says("/mode")
        await life.hears("first there is a plan to be made")
        await life.platform.says("/new")
        await life.hears("A new conversation begins here.")
        await life.platform.says("write")
        await life.hears("Written.")
    assert (tmp_path / "work" / "a.txt").exists()


@pytest.mark.parametrize("busy", ["queue", "steer"])
async def test_a_message_ends_the_sleep_of_a_turn(world: MakeWorld, busy: str) -> None:
    life = world(
        Says("", calls=(("Sleep", {"seconds": 500, "reason": "the build"}),)),
        "Awake.",
        config=f"sessions: {{busy: {busy}}}\n",
    )
    async with house(life) as built:
        await life.platform.says("wait for it")
        await eventually(lambda: len(life.model.requests) == 1 and built.pool.running == 1)
        await asyncio.sleep(0.05)
        await life.platform.says("it is there")
        await life.hears("Awake.")
    [woken] = [
        step.result.text
        for request in life.model.requests
        for step in request.steps[-2:]
        if isinstance(step, CallResult)
    ][:1]
    assert "a message waits" in woken
