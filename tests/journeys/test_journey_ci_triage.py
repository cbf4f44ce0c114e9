"""The weekday-morning CI report: one into its thread when something broke, silence while nothing
changes, a line when it is mended."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ohmo.assembly.house import House
from ohmo.contracts.messages import CallResult
from ohmo.contracts.provider import ModelRequest
from ohmo_testing.house import eventually, house
from ohmo_testing.scripted import Answer
from tests.journeys.conftest import MakeWorld
from tests.programs import run_process

DAY = 86_400
JOB = {
    "recipe": "ci-triage-http",
    "to": "fake:team",
    "thread": "ci",
    "tz": "UTC",
    "schedule": "0 10 * * 1-5",
}


# The command asks a service on loopback, which a cage does not reach.
CONFIG = "owner: ['fake:boss']\nsandbox: {backend: none}\n"


class Ci:
    """A loopback CI API with the shape of GitHub's: docs.github.com/rest/actions/workflow-runs and
    workflow-jobs."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.runs: list[dict[str, Any]] = []
        self.jobs: dict[str, list[dict[str, Any]]] = {}

    def add(self, number: int, commit: str, *failed: tuple[str, str]) -> None:
        """``failed``: job and the step that failed."""
        page = f"https://ci.example/o/r/actions/runs/{number}"
        conclusion = "failure" if failed else "success"
        self.runs.insert(
            0,
            {
                "id": number,
                "run_attempt": 1,
                "name": "CI",
                "head_sha": commit,
                "status": "completed",
                "conclusion": conclusion,
                "html_url": page,
                "created_at": f"2026-01-{number:02}T07:00:00Z",
                "jobs_url": f"{self.url}/runs/{number}/jobs",
            },
        )
        self.jobs[str(number)] = [
            {
                "id": number * 10 + at,
                "run_id": number,
                "name": job,
                "status": "completed",
                "conclusion": "failure",
                "html_url": f"{page}/job/{at}",
                "steps": [
                    {"name": "Set up job", "conclusion": "success"},
                    {"name": step, "conclusion": "failure"},
                ],
            }
            for at, (job, step) in enumerate(failed)
        ]

    @contextmanager
    def serving(self) -> Iterator[None]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                parts = self.path.split("/")
                found = (
                    {"workflow_runs": outer.runs}
                    if parts[-1] == "runs"
                    else {"jobs": outer.jobs[parts[-2]]}
                )
                body = json.dumps({"total_count": 1, **found}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, name="ci")
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def repeats_it(request: ModelRequest) -> Answer:
    step = request.steps[-1]
    assert isinstance(step, CallResult)
    return step.result.text


def distorts_it(_: ModelRequest) -> Answer:
    """A weak model that says everything but what stands there."""
    return "CI triage: 0 new. All is green, nothing is fixed. " + "And so on. " * 100


def sums_it_up(_: ModelRequest) -> Answer:
    return "The index that Ada dropped is what breaks both unit jobs."


def commit(folder: Path, subject: str) -> str:
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], check=True)
    return run_process(*git, "rev-parse", "HEAD", code=0).stdout.strip()


async def ended(built: House, count: int) -> tuple[str, str | None]:
    """State and reason of the last run, once there are so many and none is open."""
    found: list[Any] = []

    async def there() -> bool:
        found[:] = await built.clockwork.desk.history("ci-triage-http")
        return len(found) >= count and all(one.state != "claimed" for one in found)

    await eventually(there)
    return found[0].state, found[0].reason


async def test_the_morning_report_speaks_once_keeps_silent_while_nothing_changes_and_says_when_it_is_mended(
    world: MakeWorld,
) -> None:
    ci = Ci()
    life = world(*[repeats_it] * 4, config=CONFIG)
    work = life.work
    work.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    good, bad, later, mended = (
        commit(work, text) for text in ("Begin", "Drop the index", "Say more", "Put the index back")
    )
    with ci.serving():
        ci.add(1, good)
        ci.add(2, bad, ("unit (3.11)", "Run tests"), ("unit (3.12)", "Run tests"))
        async with house(life) as built:
            await eventually(lambda: built.board.report()["fake"].state == "connected")
            await built.clockwork.desk.create(JOB, values={"url": f"{ci.url}/runs"})
            life.clock.tick(3_600)  # Monday, ten o'clock
            said = await life.hears("CI triage: 1 new", "team")
            assert said.topic == "ci"
            assert bad[:7] in said.text
            assert "Ada: Drop the index" in said.text
            assert "https://ci.example/o/r/actions/runs/2/job/0" in said.text
            assert await ended(built, 1) == ("done", None)
            life.clock.tick(DAY)  # nothing ran since
            assert (await ended(built, 2))[1] == "silent: nothing changed"
            ci.add(3, later, ("unit (3.11)", "Run tests"), ("unit (3.12)", "Run tests"))
            life.clock.tick(DAY)  # it ran again and fails as before
            assert (await ended(built, 3))[1] == "silent: nothing changed"
            ci.add(4, mended)
            life.clock.tick(DAY)
            said = await life.hears("CI triage: 1 fixed", "team")
            assert f"by [`{mended[:7]}`]" in said.text
    assert len(life.bot("team")) == 2
    assert life.bot("boss") == []  # no question was asked, no failure told


@pytest.mark.parametrize(
    ("says", "above"), [(distorts_it, ""), (sums_it_up, "The index that Ada dropped")]
)
async def test_the_report_is_posted_word_for_word_whatever_the_model_makes_of_it(
    world: MakeWorld, says: Callable[[ModelRequest], Answer], above: str
) -> None:
    ci = Ci()
    life = world(says, says, config=CONFIG)
    life.work.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(life.work)], check=True)
    good, bad = (commit(life.work, text) for text in ("Begin", "Drop the index"))
    with ci.serving():
        ci.add(1, good)
        ci.add(2, bad, ("unit (3.11)", "Run tests"))
        async with house(life) as built:
            await eventually(lambda: built.board.report()["fake"].state == "connected")
            await built.clockwork.desk.create(JOB, values={"url": f"{ci.url}/runs"})
            life.clock.tick(3_600)
            said = await life.hears("CI triage: 1 new", "team")
            assert said.text.startswith(above or "**CI triage: 1 new")
            assert "Ada: Drop the index" in said.text
            assert "All is green" not in said.text
            life.clock.tick(DAY)  # nothing ran since: what the model says of it is no news
            assert (await ended(built, 2))[1] == "silent: nothing changed"
    assert len(life.bot("team")) == 1
