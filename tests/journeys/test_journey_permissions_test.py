"""A person asks what would become of a call, on the real daemon; it is not made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(120)
RULES = {"allow": ["Bash(git push:*)"], "ask": ["WebFetch"], "deny": ["Bash(rm -rf:*)"]}


async def test_where_no_mode_is_named_the_configured_one_judges(tmp_path: Path) -> None:
    for permissions, verdict, by in (
        ({"mode": "plan"}, "deny", "mode: plan"),
        ({"mode": "full_auto"}, "allow", "mode: full_auto"),
    ):
        top = tmp_path / by.rpartition(" ")[2]
        top.mkdir()
        async with keyboard(top, ModelServer(), permissions=permissions) as home:
            said = await home.ohmo("permissions", "test", "Bash", "touch a", "--json")
            found = json.loads(said.out)
            assert (found["verdict"], found["by"]) == (verdict, by)


async def test_the_layer_and_the_rule_that_would_decide_are_told_and_nothing_runs(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, permissions=RULES) as home:

        async def tried(*words: str) -> tuple[str, str]:
            said = await home.ohmo("permissions", "test", *words, "--json")
            found = json.loads(said.out)
            return found["verdict"], found["by"]

        made = home.work / "made"
        (home.work / ".git").mkdir()
        remote = '[remote "origin"]\n\turl = https://example.org/x.git\n'
        (home.work / ".git/config").write_text(remote)
        assert await tried("Bash", "git push -u origin main") == (
            "allow",
            "allow: Bash(git push:*)",
        )
        assert await tried("Bash", f"touch {made}") == ("ask", "mode: default")
        assert await tried("Bash", f"touch {made}", "--mode", "plan") == ("deny", "mode: plan")
        assert await tried("Bash", f"touch {made}", "--mode", "full_auto") == (
            "allow",
            "mode: full_auto",
        )
        assert await tried("Bash", "rm -fr x") == ("deny", "deny: Bash(rm -rf:*)")
        assert (await tried("Read", str(home.home / "config.yaml")))[0] == "deny"
        assert await tried("Write", '{"file_path": "a", "content": "x"}', "--role", "guest") == (
            "deny",
            "role: guest",
        )
        shown = await home.ohmo("permissions", "test", "WebFetch", '{"url": "http://a.example/"}')
        assert shown.out.splitlines()[0] == "a person is asked, by ask: WebFetch"
        wrong = await home.ohmo("permissions", "test", "Bsh", "ls")
        assert (wrong.code, "did you mean Bash?" in wrong.err) == (2, True)
        wrong = await home.ohmo("permissions", "test", "Write", '{"file_path": "a"}')
        assert (wrong.code, "content" in wrong.err) == (2, True)
        assert not made.exists()
        assert not server.asked
