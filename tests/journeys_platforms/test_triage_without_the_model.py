"""The report of a CI triage job comes by the clock, on a real platform from the real daemon,
whatever the model does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys.test_journey_ci_triage import Ci
from tests.journeys_platforms.conftest import Stage
from tests.platforms.model.script import Asked, Turn

REPORT = (
    "CI triage: 1 new\nshop\n\nNew\n\n• AssertionError: assert 31 == 42: tests.test_cart.test_total"
)
FAILED = (
    '<testsuite><testcase classname="tests.test_cart" name="test_total"'
    ' file="tests/test_cart.py"><failure>{}</failure></testcase></testsuite>'
)
MODELS = {
    "unreachable": Turn(status=529, kind="overloaded_error", message="Overloaded"),
    "refusing": Turn(status=401, kind="authentication_error", message="invalid x-api-key"),
    "silent": Turn(empty=True),
    "lying": Turn(text="All is green. " * 60),
    "helpful": Turn(text="The cart counts wrong."),
}


def of_the_job(asked: Asked) -> bool:
    return "posted by itself" in str(asked.body["messages"])


async def history(scene: Scene) -> list[dict[str, Any]]:
    _, found = await scene.daemon.call("GET", "/api/v1/cron/triage/history")
    return found["occurrences"]


@pytest.mark.parametrize("model", MODELS)
async def test_the_report_is_posted_word_for_word_with_or_without_the_model(
    stage: Stage, work: Path, model: str
) -> None:
    results = work / "results.xml"
    results.write_text(FAILED.format("AssertionError: assert 31 == 42"))
    async with stage("telegram") as scene:
        direct = scene.model.default
        scene.model.default = lambda asked: MODELS[model] if of_the_job(asked) else direct(asked)
        await scene.daemon.start()
        await scene.says()
        await scene.answered()
        _, found = await scene.daemon.call("GET", "/api/v1/sessions?channel=telegram")
        values = {"command": "cat results.xml", "name": "shop"}
        to = f"telegram:{found['sessions'][0]['address']['chat']}"
        job = {
            "recipe": "ci-triage-command",
            "set": values,
            "name": "triage",
            "to": to,
            "schedule": "*/2 * * * * *",
            "tz": "UTC",
        }
        status, told = await scene.daemon.call("POST", "/api/v1/cron", job)
        assert status == 201, told

        async def reports() -> list[str]:
            return [
                message.text
                for message in await scene.rigs["telegram"].visible()
                if message.by_bot and "CI triage" in message.text
            ]

        async def told_again() -> bool:
            """The second run had nothing new to say, and was over too."""
            return len(
                [one for one in await history(scene) if one["state"] == "done"]
            ) >= 2 and bool(await reports())

        await until("the report is there, and the run after it over", told_again)
        (report,) = await reports()
        assert report == ("The cart counts wrong.\n\n" if model == "helpful" else "") + REPORT
        done = [one for one in await history(scene) if one["state"] == "done"]
        assert done[0]["reason"].startswith("silent: nothing changed")
        results.write_text("<testsuite><testcase name='test_total'/></testsuite>")

        async def fixed() -> bool:
            return len(await reports()) == 2

        await until("it is told that it is mended", fixed)
        assert "1 fixed" in (await reports())[1]
        scene.model.refused.clear()  # pyright: ignore[reportAttributeAccessIssue]  # what it refused was the story


async def test_what_is_read_from_an_address_is_posted_while_no_model_answers(stage: Stage) -> None:
    ci = Ci()
    with ci.serving():
        ci.add(1, "a" * 40)
        ci.add(2, "b" * 40, ("unit (3.11)", "Run tests"))
        async with stage("telegram") as scene:
            direct = scene.model.default
            scene.model.default = lambda asked: (
                MODELS["unreachable"] if of_the_job(asked) else direct(asked)
            )
            await scene.daemon.start()
            await scene.says()
            await scene.answered()
            _, found = await scene.daemon.call("GET", "/api/v1/sessions?channel=telegram")
            to = f"telegram:{found['sessions'][0]['address']['chat']}"
            job = {
                "recipe": "ci-triage-http",
                "set": {"url": f"{ci.url}/runs"},
                "name": "triage",
                "to": to,
                "at": "2999-01-01T00:00:00Z",
            }
            assert (await scene.daemon.call("POST", "/api/v1/cron", job))[0] == 201
            assert (await scene.daemon.call("POST", "/api/v1/cron/triage/run", {}))[0] in (200, 202)

            async def told() -> bool:
                return any(
                    "first bad commit bbbbbbb" in message.text
                    for message in await scene.rigs["telegram"].visible()
                    if message.by_bot
                )

            await until("the report is there", told)
            (run,) = await history(scene)
            assert run["state"] in ("claimed", "done")
            scene.model.refused.clear()  # pyright: ignore[reportAttributeAccessIssue]  # what it refused was the story
