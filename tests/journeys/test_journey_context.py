"""What the model is told: the rules of a project and how things stand, on the real daemon; what the
person is shown of it; and that the bytes before a conversation stay."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ohmo.sessions.user_steps import FRESH
from tests.journeys.at_keyboard import Keyboard, heard, keyboard
from tests.platforms.model.server import ModelServer
from tests.programs import run_process

pytestmark = pytest.mark.timeout(240)


def project(home: Keyboard, folder: Path) -> None:
    run_process("git", "init", "-q", "-b", "trunk", folder, code=0)
    (folder / "CLAUDE.md").write_text("Always run `make test`.\n")
    home.configure(home.written | {"workspace": str(folder)})


def before(body: dict[str, Any]) -> str:
    """What stands before the conversation."""
    return json.dumps(body["messages"][0]) + json.dumps(body["tools"])


async def test_a_project_s_rules_are_followed_shown_once_and_listed(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        folder = tmp_path / "shop"
        project(home, folder)
        await home.daemon.start()
        said = await home.ohmo("-p", "hello", "--output", "json")
        assert json.loads(said.out)["text"] == "echo: hello"
        thread = json.loads(said.out)["thread"]
        again = await home.ohmo("-p", "and now?", "--resume", thread)
        assert again.out.strip() == "echo: and now?"

        first, second = (request.body for request in server.asked)
        assert "Always run `make test`." in before(first)
        assert before(first) == before(second)
        stands, _, hello = first["messages"][1]["content"].partition("\n\n")
        assert "Date: " in stands
        assert f"Repository: {folder}, branch trunk" in stands
        assert hello == "hello"
        assert second["messages"][-1]["content"] == "and now?"  # nothing has changed meanwhile

        shown = await home.ohmo("sessions", "show", thread, "--context")
        assert re.search(rf"section project_rules: \d\d, {folder}/CLAUDE.md\n", shown.out)
        assert "tools always sent: " in shown.out
        assert "conversation wake: " in shown.out
        in_chat = await home.ohmo("-p", "/context", "--resume", thread)
        assert "section project_rules" in in_chat.out
        replayed = await home.ohmo("sessions", "replay", thread)
        assert replayed.code == 0, replayed.out


async def test_who_chats_at_the_keyboard_is_told_which_rules_are_followed_and_which_not(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        folder = tmp_path / "shop"
        project(home, folder)
        (folder / "AGENTS.md").write_bytes("Größe".encode("latin-1"))
        await home.daemon.start()
        chat = await home.start("chat", stdin=asyncio.subprocess.PIPE)
        assert chat.stdin is not None
        chat.stdin.write(b"hello\nand now?\n")
        chat.stdin.close()
        said = await heard(chat)
        assert said.code == 0, said
        followed, _, left_out = said.out.partition("that I do not follow:")
        assert said.out.count("From now on I follow the rules that") == 1
        assert "CLAUDE.md" in followed
        assert "AGENTS.md: it is not UTF-8; left out" in left_out
        assert "echo: and now?" in left_out


async def test_a_branch_that_changed_is_told_and_the_prompt_before_it_stays(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        folder = tmp_path / "shop"
        project(home, folder)
        await home.daemon.start()
        thread = json.loads((await home.ohmo("-p", "one", "--output", "json")).out)["thread"]
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
        await asyncio.sleep(FRESH + 0.1)
        await home.ohmo("-p", "two", "--resume", thread)
        first, second = (request.body for request in server.asked)
        assert before(second) == before(first)
        assert second["messages"][1] == first["messages"][1]
        assert "branch topic" in second["messages"][-1]["content"]


async def test_a_window_smaller_than_the_prompt_ends_with_the_section_to_shorten(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        for name, lines in (("SOUL", 2_000), ("USER", 2_000), ("AGENTS", 2_200)):
            (home.home / f"{name}.md").write_text("All of this matters.\n" * lines)
        budgets = dict.fromkeys(("persona", "person", "local_rules"), 200_000)
        profile = home.written["profiles"]["default"] | {"models": ["small-model"]}
        changed = {"prompt": {"budgets": budgets}, "profiles": {"default": profile}}
        home.configure(home.written | changed)
        await home.daemon.start()
        said = await home.ohmo("-p", "hello")
        assert said.code != 0
        assert "the largest section is local_rules" in said.out + said.err
        assert "prompt.budgets.local_rules" in said.out + said.err
        thread = json.loads((await home.ohmo("sessions", "list", "--json")).out)[0]["thread"]
        shown = await home.ohmo("-p", "/context", "--resume", thread)
        assert shown.code == 0, shown
        assert "it does not fit: the prompt" in shown.out
        for section in ("persona", "person", "local_rules"):
            assert f"section {section}: " in shown.out
        listed = await home.ohmo("sessions", "show", thread, "--context")
        assert "it does not fit: the prompt" in listed.out
        compact = await home.ohmo("-p", "/compact", "--resume", thread)
        assert compact.code == 0, compact
        assert "Nothing can be made shorter here: the prompt" in compact.out
        dead = json.loads((await home.ohmo("inbox", "list", "--state", "dead", "--json")).out)
        assert [row["arrival"]["prompt"] for row in dead] == ["hello"]
        assert "Traceback" not in home.daemon.log
