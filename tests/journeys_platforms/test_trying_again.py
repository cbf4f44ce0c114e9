"""What failed says so once, in words for whoever reads it, and is tried again where it stands; what
fails each time ends while others go on (faults.md, row 32): on the real daemon."""

from __future__ import annotations

import json
import re

import pytest

from tests.conformance.rig import Visible
from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS, ohmo, shown
from tests.journeys_platforms.test_trouble_on_every_platform import elsewhere, is_notice
from tests.platforms.discord.world import PEOPLE as DISCORD
from tests.platforms.model.script import Turn

REFUSED = Turn(status=400, kind="invalid_request_error", message="tools.0: profile says no")


async def fails(scene: Scene, on: str, chat: str = "dm:ada") -> tuple[str, Visible]:
    """The marker of a message whose turn fails, and what is seen of that."""
    scene.model.next(REFUSED)
    marker = await scene.says(on=on, chat=chat)
    return marker, await shown(
        scene, on, chat, lambda one: "could not finish" in one.text, "the failure"
    )


async def whole(scene: Scene) -> None:
    """The ledger, but for the refusal that was wanted."""
    scene.model.refused.clear()  # pyright: ignore[reportAttributeAccessIssue]
    await scene.check(also=lambda one: not MARKER.search(one.text))


@pytest.mark.parametrize("on", ["telegram", "discord", "slack", "feishu", "web"])
@pytest.mark.person("retry")
async def test_a_failure_is_tried_again_by_its_button(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        marker, failure = await fails(scene, on)
        assert "profile says no" in failure.text
        assert "ohmo inbox" not in failure.text
        await scene.press_first(on)
        await scene.answered(marker)
        closed = await shown(
            scene, on, "dm:ada", lambda one: "Tried again" in one.text, "the closed failure"
        )
        assert not closed.choices
        assert "/retry" not in closed.text
        await whole(scene)


@pytest.mark.parametrize("on", ["telegram", "matrix"])
@pytest.mark.person("retry")
async def test_a_failure_is_tried_again_by_a_word(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        marker, failure = await fails(scene, on)
        assert ("button" in failure.text) is (on == "telegram")
        await scene.rigs[on].says("/retry")
        await scene.answered(marker)
        await scene.rigs[on].says("/retry")
        await shown(
            scene,
            on,
            "dm:ada",
            lambda one: "Nothing failed here" in one.text,
            "that nothing is left to try",
        )
        await whole(scene)


async def test_a_guest_reads_nothing_of_what_lies_behind_a_failure_and_tries_again(
    stage: Stage,
) -> None:
    async with stage("telegram", telegram={"dm": "pairing"}) as scene:
        await scene.daemon.start()
        await scene.rigs["telegram"].says("let me in")
        told = await shown(
            scene, "telegram", "dm:ada", lambda one: "pairing approve" in one.text, "a code"
        )
        code = re.search(r"pairing approve (\w{8})", told.text)
        assert code is not None
        await ohmo(scene, "pairing", "approve", code[1], "--role", "guest")
        await scene.quiet()
        marker, failure = await fails(scene, "telegram")
        assert "The owner is told" in failure.text
        assert not re.search("profile|ohmo |anthropic|key", failure.text)
        await scene.press_first("telegram")
        await scene.answered(marker)


async def test_a_guest_whose_model_is_away_reads_only_that_it_goes_on_later(stage: Stage) -> None:
    async with stage("telegram", telegram={"dm": "open"}) as scene:
        config = scene.daemon.home / "config.yaml"
        config.write_text(
            config.read_text().replace('"limits"', '"access": {"default_role": "guest"}, "limits"')
        )
        await scene.daemon.start()
        scene.model.next(
            *[Turn(status=529, kind="overloaded_error", message="profile is busy")] * 4
        )
        marker = await scene.says()
        waiting = await shown(
            scene,
            "telegram",
            "dm:ada",
            lambda one: "cannot go on yet" in one.text,
            "the word that it waits",
        )
        assert "profile" not in waiting.text
        await scene.answered(marker)


async def away(scene: Scene) -> bool:
    """Whether the status says that the model cannot be reached."""
    _, status = await scene.daemon.call("GET", "/api/v1/status")
    return any("The model cannot be reached" in line for line in status["warnings"])


async def test_one_request_that_always_breaks_ends_after_some_tries_while_others_are_answered(
    stage: Stage,
) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        await scene.says("#broken{500}", answered=False)
        await shown(
            scene,
            "telegram",
            "dm:ada",
            lambda one: "cannot go on yet" in one.text,
            "the word that it waits",
        )
        assert await away(scene)
        other = await scene.says(chat="dm:bob")
        await scene.answered(other)
        await scene.quiet()
        assert not await away(scene)
        failure = await shown(
            scene, "telegram", "dm:ada", lambda one: "could not finish" in one.text, "its end"
        )
        assert "it broke on this" in failure.text
        assert failure.choices, "it can be tried again"
        assert not await away(scene)
        await scene.says("now without it")
        scene.model.refused.clear()  # pyright: ignore[reportAttributeAccessIssue]
        await scene.check(also=lambda one: not MARKER.search(one.text))


def freely(scene: Scene, on: str) -> None:
    """Ada is the owner, and nothing is asked."""
    ada = (
        scene.rigs[on]._account("ada").user
        if on == "matrix"
        else {"slack": "U0ADA", "discord": DISCORD["ada"], "feishu": "ou_ada"}[on]
    )
    path = scene.daemon.home / "config.yaml"
    wanted = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            wanted
            | {
                "permissions": {"mode": "full_auto"},
                "access": {"roles": {"owner": [f"{on}:{ada}"]}},
            }
        )
    )


@pytest.mark.parametrize("on", [on for on in PLATFORMS if on != "telegram"])
@pytest.mark.fault(32)
async def test_a_message_whose_turn_raises_three_times_is_told_and_others_go_on(
    stage: Stage, on: str
) -> None:
    # a draft would meet the third failpoint in the answer's place
    async with stage(on, **{on: {"streaming": "off"}}) as scene:
        freely(scene, on)
        await scene.daemon.start("tool.running=raise;model.chunk=raise;outbox.before=raise")
        poison = await scene.says("#run{touch it}", on=on, answered=False)
        await scene.models_asked(1)
        await scene.says("of the same conversation", on=on)
        told = await shown(scene, on, "dm:ada", is_notice, "the word that it failed")
        assert "failed 3 times" in told.text
        assert await scene.answers(poison) == []
        await scene.says("of another one", on=on, chat=await elsewhere(scene, on))
        await scene.answered()
        await scene.check(also=is_notice)
