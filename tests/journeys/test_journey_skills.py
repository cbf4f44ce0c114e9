"""Skills on the real daemon: one that comes with ohmo is named in the prompt and read by the tool;
what a project brings is not seen before its owner trusts it, and asks again when a byte changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ohmo.sessions.user_steps import FRESH
from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
SKILL = "---\nname: deploy\ndescription: How we ship the shop.\nallowed-tools: Bash\n---\nRun scripts/ship.sh.\n"


def told(asked: Asked) -> str:
    """The newest thing the model reads."""
    return json.dumps(asked.body["messages"][-1]["content"], ensure_ascii=False)


def prompt(asked: Asked) -> str:
    return json.dumps(asked.body["messages"][0]["content"], ensure_ascii=False)


async def test_the_model_calls_for_a_skill_by_its_name_and_reads_what_it_says(
    tmp_path: Path,
) -> None:
    server = ModelServer(
        [Turn(calls=(Call("Skill", {"name": "ci-report"}),)), Turn(text="Red since noon.")]
    )
    async with keyboard(tmp_path, server) as home:
        said = await home.ohmo("-p", "why is CI red?", "--output", "json")
        assert json.loads(said.out)["text"] == "Red since noon."
        assert "- ci-report: Say why continuous integration is red" in prompt(server.asked[0])
        assert "Never call a test flaky because it failed once." in told(server.asked[1])
        assert "Never call a test flaky" not in prompt(server.asked[0])
        listed = json.loads((await home.ohmo("skills", "list", "--json")).out)
        assert {(row["name"], row["source"], row["state"]) for row in listed} == {
            (name, "bundled", "ready") for name in ("careful-review", "ci-report", "commit-and-pr")
        }


async def test_what_a_project_brings_is_seen_once_it_is_trusted_and_not_when_it_changed(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        folder = home.work / ".claude" / "skills" / "deploy"
        (folder / "scripts").mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL)
        (folder / "scripts" / "ship.sh").write_text("echo shipped\n")
        await home.daemon.start()

        server.next(Turn(calls=(Call("Skill", {"name": "deploy"}),)), Turn(text="I cannot."))
        first = json.loads((await home.ohmo("-p", "ship it", "--output", "json")).out)["thread"]
        assert "How we ship" not in prompt(server.asked[0])
        assert "nobody trusts it yet: ohmo trust allow skill deploy" in told(server.asked[1])
        assert "Run scripts/ship.sh" not in told(server.asked[1])
        waiting = (await home.ohmo("trust", "list")).out
        assert "skill deploy waits: it instructs the model; programs: scripts/ship.sh" in waiting
        assert "trust allow skill deploy" in (await home.ohmo("doctor")).out

        for command in ("skills", "trust", "hooks"):
            lost = await home.ohmo(command, "list", "--folder", str(tmp_path / "lost"))
            assert (lost.code != 0, str(tmp_path / "lost") in lost.err) == (True, True), lost

        allowed = await home.ohmo("trust", "allow", "skill", "deploy")
        assert allowed.out.startswith("skill deploy: allowed with content ")
        # the session that there is keeps its beginning, and is told
        await asyncio.sleep(FRESH + 0.1)  # a look at how things stand counts so long
        before = len(server.asked)
        server.next(Turn(text="Aha."))
        await home.ohmo("-p", "and now?", "--resume", first)
        assert server.asked[before].body["messages"][0] == server.asked[0].body["messages"][0]
        assert "Skills that came later." in told(server.asked[before])
        assert "- deploy: How we ship the shop." in told(server.asked[before])

        before = len(server.asked)
        copy = home.home / "spill"
        server.next(Turn(calls=(Call("Skill", {"name": "deploy"}),)), Turn(text="Shipped."))
        await home.ohmo("-p", "ship it")
        assert "- deploy: How we ship the shop." in prompt(server.asked[before])
        assert "Run scripts/ship.sh" in told(server.asked[before + 1])
        (script,) = copy.glob("*/skills/deploy-*/scripts/ship.sh")
        assert str(script.parent.parent) in told(server.asked[before + 1])
        server.next(Turn(calls=(Call("Read", {"file_path": str(script)}),)), Turn(text="Shipped."))
        before = len(server.asked)
        thread = script.parents[3].name
        await home.ohmo("-p", "show it", "--resume", thread)
        assert "echo shipped" in told(server.asked[before + 1])

        (folder / "scripts" / "ship.sh").write_text("echo pwned!!\n")
        before = len(server.asked)
        server.next(Turn(calls=(Call("Skill", {"name": "deploy"}),)), Turn(text="I cannot."))
        await home.ohmo("-p", "ship it again", "--resume", thread)
        assert "nobody trusts it yet" in told(server.asked[before + 1])
        await home.ohmo("trust", "allow", "skill", "deploy")
        assert (
            (await home.ohmo("trust", "revoke", "skill", "deploy")).out.strip().endswith("revoked")
        )
        rows = json.loads((await home.ohmo("trust", "list", "--json")).out)
        assert len(rows["waiting"]) == 2  # the skill, and the project as a whole
        assert all(row["revoked_at"] for row in rows["trusts"])
        unknown = await home.ohmo("trust", "allow", "skill", "nothing")
        assert unknown.code != 0
        assert "skill nothing: nothing waits; ohmo trust list shows what does" in unknown.err
