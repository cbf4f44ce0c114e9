"""Questions park a turn: the answer may come after a restart, by button or in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ohmo.contracts.messages import CallResult
from ohmo.providers.scripted import Says
from ohmo.testing import World, eventually, house


async def test_a_button_pressed_after_a_restart_lets_the_command_run_once(world: Callable[..., World], tmp_path: Path) -> None:
    counter = tmp_path / "home" / "work" / "counter"
    life = world(Says("", calls=(("Bash", {"command": "echo x >> counter", "description": "count"}),)), "Counted.")
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


async def test_no_is_a_result_and_nothing_runs(world: Callable[..., World], tmp_path: Path) -> None:
    life = world(Says("", calls=(("Bash", {"command": "echo x >> counter", "description": "count"}),)), "As you wish.")
    async with house(life):
        await life.platform.says("count")
        card = await life.hears("echo x >> counter")
        await life.platform.says("/deny")
        await life.hears("As you wish.")
    assert not (tmp_path / "home" / "work" / "counter").exists()
    assert card.choices


async def test_a_stranger_to_the_question_may_not_answer_it(world: Callable[..., World]) -> None:
    life = world(Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)), "Touched.")
    async with house(life):
        await life.platform.says("@ohmo touch", chat="team", person="ada")
        card = await life.hears("touch a", "team")
        await life.platform.presses(card.id, card.choices[0], chat="team", person="eve")
        await eventually(lambda: len(life.platform.acknowledged) == 1)
        assert "not yours" in life.platform.acknowledged[0][1]
        await life.platform.presses(card.id, card.choices[0], chat="team", person="ada")
        await life.hears("Touched.", "team")


async def test_the_agent_s_question_is_answered_in_words(world: Callable[..., World]) -> None:
    life = world(Says("", calls=(("AskUser", {"question": "Which branch?"}),)), "Main it is.")
    async with house(life):
        await life.platform.says("deploy")
        await life.hears("Which branch?")
        await life.platform.says("main")
        await life.hears("Main it is.")
    results = [step.result.text for step in life.model.requests[-1].steps if isinstance(step, CallResult)]
    assert results == ["main"]


async def test_an_unanswered_question_expires_as_a_denial(world: Callable[..., World]) -> None:
    life = world(Says("", calls=(("Bash", {"command": "touch a", "description": "touch"}),)), "Nobody was there.")
    async with house(life) as built:
        await life.platform.says("touch")
        await life.hears("touch a")
        life.clock.tick(3600)
        await built.expire()
        await life.hears("Nobody was there.")
