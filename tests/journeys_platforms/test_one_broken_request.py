"""One request on which the model's server breaks each time: it ends with words, and the status does
not call the model away."""

from __future__ import annotations

from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import shown


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
