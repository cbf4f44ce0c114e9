"""Claude Code's SessionStart and Stop hooks on the real daemon: what one prints as a conversation begins is told to the
model, and an answer that one sends back is worked on until it is content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
JOB = {"name": "news", "prompt": "tell me what is new", "schedule": "0 9 * * *", "tz": "UTC"}
TESTS = """
import json, os, sys
event = json.load(sys.stdin)
with open("stops", "a") as stops:
    print(event["stop_hook_active"], event["last_assistant_message"], file=stops)
if not os.path.exists("report.md"):
    print("report.md is missing", file=sys.stderr)
    sys.exit(2)
"""


def settings(event: str, command: str, **more: Any) -> str:
    return json.dumps(
        {"hooks": {event: [{"hooks": [{"type": "command", "command": command, **more}]}]}}
    )


def told(asked: Asked) -> str:
    return json.dumps(asked.body["messages"])


async def test_a_project_sends_answers_back_until_its_tests_pass_once_it_is_trusted(
    tmp_path: Path,
) -> None:
    write = Call("Write", {"file_path": "report.md", "content": "all well\n"})
    server = ModelServer([Turn(text="done")])
    async with keyboard(tmp_path, server, permissions={"allow": ["Write"]}) as home:
        (home.work / ".claude").mkdir()
        (home.work / "tests.py").write_text(TESTS)
        stop = settings("Stop", 'python3 "$CLAUDE_PROJECT_DIR"/tests.py')
        (home.work / ".claude" / "settings.json").write_text(stop)
        assert (await home.ohmo("-p", "write the report")).out.strip() == "done"
        assert not (home.work / "stops").exists()
        assert (await home.ohmo("trust", "allow", "hook", str(home.work))).code == 0
        server.script.extend([Turn(text="done"), Turn(calls=(write,)), Turn(text="It is written.")])
        said = await home.ohmo("-p", "write the report")
        assert said.out.strip() == "It is written.", said.err
        assert (home.work / "stops").read_text() == "False done\nTrue It is written.\n"
        back = told(server.asked[2])
        assert "(A hook says: Stop[1].1: report.md is missing)" in back
        assert "Nobody has read your answer yet" in back
        asked = len(server.asked)
        (home.work / "report.md").unlink()
        server.default = lambda _: Turn(text="It is done.")
        said = await home.ohmo("-p", "and now without it")
        assert said.out.strip() == "It is done."
        assert len(server.asked) == asked + 9  # eight were sent back
        made = next(step for step in server.asked[-1].body["messages"] if step["role"] == "user")
        assert "and now without it" in json.dumps(made)


async def test_what_a_hook_prints_as_a_conversation_begins_is_told_once_and_is_foreign(
    tmp_path: Path,
) -> None:
    prints = 'echo "we release from r7"; echo begins >> begins'
    server = ModelServer(default=lambda _: Turn(text="good"))

    def times() -> list[int]:
        return [told(asked).count("we release from r7") for asked in server.asked]

    async with keyboard(tmp_path, server, running=False) as home:
        (home.home / "hooks.yaml").write_text(settings("SessionStart", prints))
        await home.daemon.start()
        await _says(home, "hello")
        why = await home.ohmo("--continue", "-p", "/why")
        assert "Words of `hook:SessionStart[1].1` came in" in why.out
        await _says(home, "and?", "--continue")
        assert times() == [1, 1]
        assert (home.work / "begins").read_text() == "begins\n"
        await home.daemon.kill()
        await home.daemon.start()
        await _says(home, "still there?", "--continue")  # it goes on: asked, and not told again
        assert times() == [1, 1, 1]
        assert (home.work / "begins").read_text() == "begins\n" * 2
        await _says(home, "something else")
        assert times() == [1, 1, 1, 1]
        server.script.extend([Turn(calls=(Call("CronCreate", JOB),)), Turn(text="not made")])
        asked = await home.ohmo("--continue", "-p", "make that job")
        assert asked.code == 3
        assert "words of hook:SessionStart[1].1 are in this conversation" in asked.err


async def test_a_stop_hook_that_runs_is_ended_with_the_turn_it_holds(tmp_path: Path) -> None:
    server = ModelServer(default=lambda _: Turn(text="done"))
    async with keyboard(tmp_path, server, running=False) as home:
        hangs = "touch runs; sleep 300"
        (home.home / "hooks.yaml").write_text(settings("Stop", hangs, timeout=50))
        await home.daemon.start()
        person = await home.start("-p", "hello")

        async def runs() -> bool:
            return (home.work / "runs").exists()

        await until("the hook runs", runs)
        stopped = await home.ohmo("--continue", "-p", "/stop")
        assert stopped.code == 0
        await person.communicate()
        (home.home / "hooks.yaml").unlink()
        await _says(home, "are you there?", "--continue")


async def _says(home: Keyboard, *words: str) -> None:
    said = await home.ohmo(*words[1:], "-p", words[0])
    assert said.out.strip() == "good" if words[0] != "are you there?" else said.code == 0, said.err
