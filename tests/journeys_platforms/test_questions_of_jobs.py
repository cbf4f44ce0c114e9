"""What a job asks is answered in words where its card stands, by who may answer; other words there
are said to the agent as ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS, shown


async def says(
    scene: Scene, on: str, words: str, *, person: str = "ada", chat: str = "dm:ada"
) -> None:
    """Slack's own client keeps what begins with a slash: there it is a command of the app."""
    if on == "slack" and words.startswith("/"):
        await scene.rigs[on].commands(words.removeprefix("/"), person=person, chat=chat)
    else:
        await scene.rigs[on].says(words, person=person, chat=chat)


async def with_job(scene: Scene, on: str, prompt: str, chat: str = "") -> None:
    """The daemon with a job of ada's, who is its owner: its card comes to her, or into ``chat``."""
    job = {"name": "sweep", "every": "24h", "prompt": prompt, "deadline": "1h"}
    await with_owner(scene, on, chat, cron={"timezone": "UTC", "jobs": [job]})


async def with_owner(scene: Scene, on: str, chat: str = "", **more: Any) -> None:
    """The daemon of ada. Matrix names rooms, not people. ``more``: of its configuration."""
    await scene.daemon.start()
    await says(scene, on, "/whoami", chat=chat or "dm:ada")
    told = (
        await shown(scene, on, chat or "dm:ada", lambda one: "role" in one.text, "who ada is")
    ).text
    person, place = (
        word.strip("`,.") for word in told.split() if word.strip("`").startswith(f"{on}:")
    )
    assert await scene.daemon.stop() == 0
    path = scene.daemon.home / "config.yaml"
    config: dict[str, Any] = json.loads(path.read_text())
    config |= {"owner": [place if chat or on == "matrix" else person], **more}
    config["access"] = {"roles": {"owner": [person]}, "default_role": "user"}
    path.write_text(json.dumps(config))
    await scene.daemon.start()


async def runs(scene: Scene) -> None:
    async def begun() -> bool:
        return (await scene.daemon.call("POST", "/api/v1/cron/sweep/run", {}))[0] < 300

    await until("the job runs", begun)


async def asks(scene: Scene, on: str, chat: str = "dm:ada") -> Visible:
    """The open card."""

    def is_open(one: Visible) -> bool:
        return "The job sweep asks" in one.text and "Answer" in one.text

    return await shown(scene, on, chat, is_open, "the card of the job")


async def open_questions(scene: Scene) -> int:
    return len((await scene.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"])


async def closed(scene: Scene, on: str, words: str) -> None:
    await shown(scene, on, "dm:ada", lambda one: words in one.text, f"that it is closed: {words}")


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("allow", "deny", "always")
async def test_what_a_job_asks_is_allowed_refused_and_allowed_for_good_in_words(
    stage: Stage, work: Path, on: str
) -> None:
    counter = work / "counter"
    async with stage(on) as scene:
        await with_job(scene, on, f"m-1-cafe0001 #run{{echo x >> {counter}}}")
        await runs(scene)
        await asks(scene, on)
        await says(scene, on, "/deny not today")
        await closed(scene, on, "Denied by")
        await scene.models_asked(2)
        assert not counter.exists()

        await runs(scene)
        await asks(scene, on)
        before = scene.model.count
        word = await scene.says("yes, and what else?", on=on)
        await scene.answered(word)
        assert scene.model.count == before + 1
        assert await open_questions(scene) == 1
        await says(scene, on, "/approve")
        await scene.appears(counter)
        await closed(scene, on, "Allowed once by")

        await runs(scene)
        await asks(scene, on)
        await says(scene, on, "/approve always")
        await closed(scene, on, "Always allowed by")
        await runs(scene)

        async def ran() -> bool:
            return counter.read_text() == "x\nx\nx\n"

        await until("it ran three times", ran)
        assert await open_questions(scene) == 0


@pytest.mark.parametrize("on", [on for on in PLATFORMS if on != "matrix"])
async def test_the_button_of_a_card_that_was_sent_to_a_person_counts(
    stage: Stage, work: Path, on: str
) -> None:
    async with stage(on) as scene:
        await with_job(scene, on, f"m-1-cafe0001 #run{{echo x >> {work / 'counter'}}}")
        await runs(scene)
        card = await asks(scene, on)
        await scene.rigs[on].presses(card.id, card.choices[0])
        await scene.appears(work / "counter")


async def replies(scene: Scene, on: str, card: str, words: str) -> None:
    """As a person answers a message: in Slack in the thread below it."""
    rig = scene.rigs[on]
    match on:
        case "telegram":
            replied = rig.server.world.chat("dm:ada").messages[int(card)]
            rig.server.world.says(words, "dm:ada", reply_to_message=replied)
        case "slack":
            await rig.says(words, topic=card)
        case "discord":
            place = rig.server.world.place("dm:ada")
            replied = place.messages[card]
            reference = {"message_id": card, "channel_id": place.id}
            rig.server.world.says(
                words, "dm:ada", message_reference=reference, referenced_message=replied, type=19
            )
        case "feishu":
            rig.world.says("oc_dmada", "ou_ada", words, parent_id=card, root_id=card)
        case _:
            content = {
                "msgtype": "m.text",
                "body": words,
                "m.relates_to": {"m.in_reply_to": {"event_id": card}},
            }
            await rig.post(content)


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("choose", "words")
async def test_what_a_job_wants_to_know_is_answered_by_a_choice_or_in_reply_and_nothing_else_is(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await with_job(scene, on, "m-1-cafe0001 #ask{Which branch?|Main|Next}")
        await runs(scene)
        await asks(scene, on)
        word = await scene.says("main is a nice word", on=on)
        await scene.answered(word)
        assert await open_questions(scene) == 1
        await says(scene, on, "next")
        await closed(scene, on, ": Next")
        await scene.models_asked(3)
        assert any("Next" in text for text in scene.told("m-1-cafe0001"))

        await runs(scene)
        card = await asks(scene, on)
        await until("the daemon knows what the platform calls the card", scene.daemon.sent)
        await replies(scene, on, card.id, "the one called spring")
        await closed(scene, on, ": the one called spring")

        async def told() -> bool:
            return any("the one called spring" in text for text in scene.told("m-1-cafe0001"))

        await until("the model hears it", told)
        assert await open_questions(scene) == 0


@pytest.mark.parametrize("on", ["telegram", "slack"])
async def test_nobody_else_answers_a_job_in_words(stage: Stage, work: Path, on: str) -> None:
    async with stage(on) as scene:
        await with_job(
            scene, on, f"m-1-cafe0001 #run{{echo x >> {work / 'counter'}}}", chat="group"
        )
        await runs(scene)
        await asks(scene, on, "group")
        await says(scene, on, "/approve", person="bob", chat="group")
        await shown(
            scene, on, "group", lambda one: "Nothing is asked here" in one.text, "the reply to bob"
        )
        assert await open_questions(scene) == 1
        await says(scene, on, "/approve", chat="group")
        await scene.appears(work / "counter")
