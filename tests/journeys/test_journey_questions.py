"""Questions park a turn: the answer may come after a restart, by button or in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ohmo.contracts.messages import CallResult
from ohmo_testing.house import eventually, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld


async def test_a_button_pressed_after_a_restart_lets_the_command_run_once(
    world: MakeWorld, tmp_path: Path
) -> None:
    counter = tmp_path / "work" / "counter"
    life = world(
        Says("", calls=(("Bash", {"command": "echo x >> counter", "description": "count"}),)),
        "Counted.",
    )
    async with house(life):
        await life.platform.says("count")
        card = await life.hears("echo x >> counter")
    assert not counter.exists()
    async with house(life):
        await life.platform.presses(card.id, card.choices[0])
        await life.hears("Counted.")
        await life.platform.presses(card.id, card.choices[0])  # twice is too late
        await eventually(lambda: len(life.platform.acknowledged) == 2)
    assert counter.read_text() == "x\n"
    assert [said.choices for said in life.bot()] == [(), ()]


async def test_no_is_a_result_and_nothing_runs(world: MakeWorld, tmp_path: Path) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "echo x >> counter", "description": "count"}),)),
        "As you wish.",
    )
    async with house(life):
        await life.platform.says("count")
        card = await life.hears("echo x >> counter")
        await life.platform.says("/deny")
        await life.hears("As you wish.")
    assert not (tmp_path / "work" / "counter").exists()
    assert card.choices


async def test_a_stranger_to_the_question_may_not_answer_it(world: MakeWorld) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)), "Touched."
    )
    async with house(life):
        await life.platform.says("@ohmo touch", chat="team", person="ada")
        card = await life.hears("touch a", "team")
        await life.platform.presses(card.id, card.choices[0], chat="team", person="eve")
        await eventually(lambda: len(life.platform.acknowledged) == 1)
        assert "not yours" in life.platform.acknowledged[0][1]
        await life.platform.presses(card.id, card.choices[0], chat="team", person="ada")
        await life.hears("Touched.", "team")


async def test_the_agent_s_question_is_answered_in_words(world: MakeWorld) -> None:
    life = world(Says("", calls=(("AskUser", {"question": "Which branch?"}),)), "Main it is.")
    async with house(life):
        await life.platform.says("deploy")
        await life.hears("Which branch?")
        await life.platform.says("main")
        await life.hears("Main it is.")
    results = [
        step.result.text for step in life.model.requests[-1].steps if isinstance(step, CallResult)
    ]
    assert results == ["main"]


async def test_an_unanswered_question_expires_as_a_denial(world: MakeWorld) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)),
        "Nobody was there.",
    )
    async with house(life) as built:
        await life.platform.says("touch")
        await life.hears("touch a")
        life.clock.tick(3600)
        await built.expire()
        await life.hears("Nobody was there.")


@pytest.mark.parametrize("door", ["button", "word"])
async def test_what_nobody_allowed_in_time_can_be_run_afterwards_once(
    world: MakeWorld, tmp_path: Path, door: str
) -> None:
    call = ("Bash", {"command": "echo x >> counter", "description": "count"})
    life = world(Says("", calls=(call,)), "Nobody was there.", "Counted after all.")
    counter = tmp_path / "work" / "counter"
    async with house(life) as built:
        await life.platform.says("@ohmo count", chat="team", person="ada", topic="t1")
        await life.hears("echo x >> counter", "team")
        life.clock.tick(3600)
        await built.expire()
        await life.hears("Nobody was there.", "team")
        card = await life.hears("to run it now", "team")
        assert not counter.exists()
    async with house(life):  # the button outlives a restart
        await life.platform.presses(card.id, card.choices[0], chat="team", person="eve")
        await eventually(lambda: len(life.platform.acknowledged) == 1)
        assert "not yours" in life.platform.acknowledged[0][1]
        assert not counter.exists()
        if door == "button":
            await life.platform.presses(card.id, card.choices[0], chat="team", person="ada")
        else:
            await life.platform.says("/approve", chat="team", person="ada", topic="t1")
        await life.hears("Counted after all.", "team")
        await life.platform.presses(card.id, card.choices[0], chat="team", person="ada")
        await eventually(lambda: life.platform.acknowledged[-1][1] == "It was run already.")
    assert counter.read_text() == "x\n"
    results = [
        step.result for step in life.model.requests[-1].steps if isinstance(step, CallResult)
    ]
    assert [result.error for result in results] == [True, False]
    seen = [message for message in await life.platform.visible("team") if "echo x" in message.text]
    named = [one.text for one in seen if one.text.startswith("It runs now: Bash: echo x")]
    assert len(named) == (door == "word")  # words say nothing of what they mean: the reply does
    (card,) = [one for one in seen if one.text not in named]
    assert (card.choices, card.text.rpartition("\n")[2]) == ((), "_Run now: allowed by Ada_")


async def test_what_is_run_afterwards_is_judged_by_the_rules_of_now(
    world: MakeWorld, tmp_path: Path
) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)),
        "Nobody was there.",
        "It is forbidden now.",
    )
    async with house(life) as built:
        await life.platform.says("touch")
        await life.hears("touch a")
        life.clock.tick(3600)
        await built.expire()
        card = await life.hears("to run it now")
    life = replace(life, config="permissions: {deny: ['Bash(touch:*)']}\n")
    async with house(life):
        await life.platform.presses(card.id, card.choices[0])
        await life.hears("It is forbidden now.")
    assert not (tmp_path / "work" / "a").exists()


@pytest.mark.parametrize(
    ("emoji", "ran"),
    [("👍", True), ("👍🏽", True), (":white_check_mark:", True), ("👎", False), ("x", False)],
)
async def test_a_thumb_on_the_card_is_an_answer_also_after_a_restart(
    world: MakeWorld, tmp_path: Path, emoji: str, ran: bool
) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)), "Done."
    )
    async with house(life):
        await life.platform.says("@ohmo touch", chat="team", person="ada", topic="t1")
        card = await life.hears("touch a", "team")
    async with house(life):
        # in the chat: not every platform tells the thread
        await life.platform.reacts(card.id, emoji, chat="team", person="ada")
        await life.hears("Done.", "team")
    assert (tmp_path / "work" / "a").exists() is ran


async def test_a_thumb_that_is_faster_than_the_platforms_word_on_the_card_counts(
    world: MakeWorld, tmp_path: Path
) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)), "Done."
    )
    # the card is there, and the house has to ask again to hear so
    life.platform.lose_next_response()
    async with house(life):
        await life.platform.says("@ohmo touch", chat="team", person="ada")
        card = await life.hears("touch a", "team")
        await life.platform.reacts(card.id, "👍", chat="team", person="ada")
        await life.hears("Done.", "team")
    assert (tmp_path / "work" / "a").exists()


async def test_a_thumb_counts_only_on_the_card_and_from_whoever_may_answer(
    world: MakeWorld, tmp_path: Path
) -> None:
    life = world(
        Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)), "Done."
    )
    async with house(life) as built:
        said = await life.platform.says("@ohmo touch", chat="team", person="ada")
        card = await life.hears("touch a", "team")
        await life.platform.reacts(card.id, "👍", chat="team", person="eve")
        await life.platform.reacts(said, "👍", chat="team", person="ada")
        await life.platform.reacts(card.id, "🎉", chat="team", person="ada")
        await life.platform.reacts(card.id, "👍", chat="team", person="ada", added=False)

        async def all_ended() -> bool:
            return len([one for one in await built.store.inbox() if one.state == "ended"]) == 4

        await eventually(all_ended)
        assert len(await built.store.open_questions()) == 1
        assert len(life.texts("team")) == 1
        await life.platform.reacts(card.id, "+1", chat="team", person="ada")
        await life.hears("Done.", "team")
    assert (tmp_path / "work" / "a").exists()
