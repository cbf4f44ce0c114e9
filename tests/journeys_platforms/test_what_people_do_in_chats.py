"""What a person does beside talking, on each platform, up to what it leaves behind: refuse, allow
for good, answer, begin anew, choose a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS, is_card, shown


async def says(scene: Scene, on: str, words: str) -> None:
    """Slack's own client keeps what begins with a slash: there it is a command of the app."""
    if on == "slack" and words.startswith("/"):
        await scene.rigs[on].commands(words.removeprefix("/"))
    else:
        await scene.rigs[on].says(words)


async def asked(scene: Scene, on: str) -> None:
    await shown(
        scene, on, "dm:ada", lambda one: "\n\nAnswer" in one.text or bool(one.choices), "a question"
    )


async def answers(scene: Scene, on: str, button: int, words: str) -> None:
    """By the button where there are some, else in words."""
    await asked(scene, on)
    if on == "matrix":
        await says(scene, on, words)
    else:
        card = await scene.asked(on)
        await scene.rigs[on].presses(card.id, card.choices[button])


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("deny")
async def test_a_call_that_is_refused_does_not_happen_and_the_model_hears_of_it(
    stage: Stage, work: Path, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        for number in range(2):  # by its button, and by the word
            marker = await scene.says(f"#run{{echo x >> {work / 'counter'}}}", on=on)
            await (asked(scene, on) if number else answers(scene, on, -1, "/deny"))
            if number:
                await says(scene, on, "/deny too early")
            await scene.answered(marker)
            await shown(
                scene, on, "dm:ada", lambda one: "Denied by" in one.text, "the closed question"
            )
            assert "the person said no" in scene.told(marker)[0]
        assert "too early" in scene.told(marker)[0]
        await scene.check(also=is_card)
        assert not (work / "counter").exists()


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("always")
async def test_what_is_allowed_for_good_is_not_asked_again(
    stage: Stage, work: Path, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await scene.says(f"#run{{echo x >> {work / 'counter'}}}", on=on)
        await answers(scene, on, 2, "/approve always")
        await scene.answered()
        await says(scene, on, "/new")
        await shown(scene, on, "dm:ada", lambda one: "A new conversation" in one.text, "the reply")
        again = await scene.says(f"#run{{echo x >> {work / 'counter'}}}", on=on)
        await scene.answered(again)
        await scene.check(also=is_card)
        assert (work / "counter").read_text() == "x\nx\n"


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("choose", "words")
async def test_a_question_is_answered_by_a_choice_and_in_own_words(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        chosen = await scene.says("#ask{Which branch?|Main|Next}", on=on)
        await answers(scene, on, 1, "Next")
        await scene.answered(chosen)
        assert "Next" in scene.told(chosen)[0]
        told = await scene.says("#ask{Which day?|Monday|Friday}", on=on)
        await shown(
            scene, on, "dm:ada", lambda one: "Which day?" in one.text, "the second question"
        )
        await scene.rigs[on].says("rather on the first of May")
        await scene.answered(told)
        assert "rather on the first of May" in scene.told(told)[0]
        await scene.check(also=is_card)


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("new")
async def test_a_new_conversation_begins_while_something_runs_and_knows_nothing_of_it(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await scene.says("#wait{60} the secret is green", on=on, answered=False)
        await scene.models_asked(1)
        await says(scene, on, "/new")
        await shown(
            scene,
            on,
            "dm:ada",
            lambda one: "A new conversation begins here" in one.text,
            "the reply",
        )
        await scene.stopped()
        await scene.says("and now?", on=on)
        await scene.answered()
        assert "the secret is green" not in json.dumps(scene.model.asked[-1].body)
        await scene.check(also=is_card)


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("model")
async def test_a_conversation_gets_another_model(stage: Stage, home: Path, on: str) -> None:
    async with stage(on) as scene:
        path = home / "config.yaml"
        config = json.loads(path.read_text())
        config["profiles"]["default"]["models"] = ["claude-haiku-4-5", "claude-sonnet-4-5"]
        path.write_text(json.dumps(config))
        await scene.daemon.start()
        await says(scene, on, "/model")
        await shown(
            scene, on, "dm:ada", lambda one: "claude-haiku-4-5" in one.text, "the models there are"
        )
        await says(scene, on, "/model claude-haiku-4-5")
        await shown(
            scene,
            on,
            "dm:ada",
            lambda one: "claude-haiku-4-5" in one.text and "now" in one.text,
            "that it is taken",
        )
        await scene.says(on=on)
        await scene.answered()
        assert scene.model.asked[-1].body["model"] == "claude-haiku-4-5"
