"""A person at the keyboard goes back to an earlier conversation, over kill -9, with the bytes the model
was sent then; and takes it away as a file without secrets. On the real daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ohmo.contracts.turns import SESSIONS
from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer
from tests.platforms.model.validity import openai_fault

pytestmark = pytest.mark.timeout(240)
TOKEN = "xoxb-" + "12345678-abcdefGH"


async def begun(home: Keyboard, text: str) -> str:
    """The thread of a first message."""
    said = await home.ohmo("-p", text, "--output", "json")
    return str(json.loads(said.out)["thread"])


async def says(home: Keyboard, thread: str, text: str) -> str:
    said = await home.ohmo("-p", text, "--resume", thread)
    assert said.code == 0, said.err
    return said.out


def conversation(server: ModelServer, at: int = -1) -> list[Any]:
    return list(server.asked[at].body["messages"])


async def test_an_earlier_conversation_goes_on_with_the_same_bytes_also_over_a_kill(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        (home.work / "roof.txt").write_text("slate\n")
        home.configure(home.written | {"prompt": {"changing": []}})
        await home.daemon.start()
        server.next(Turn(calls=(Call("Read", {"file_path": "roof.txt"}),)), Turn(text="slate"))
        thread = await begun(home, "what is the roof made of")
        assert "no earlier conversation" in await says(home, thread, "/resume")
        before = conversation(server)
        await says(home, thread, "/new")
        await says(home, thread, "paint the fence")
        await says(home, thread, "/new")
        await says(home, thread, "oil the door")

        listed = await says(home, thread, "/resume")
        assert listed.index("paint the fence") < listed.index("what is the roof made of")
        assert "There is no number 3" in await says(home, thread, "/resume 3")
        assert "In no earlier conversation" in await says(home, thread, "/resume slate fence")
        assert "This goes on: " in await says(home, thread, "/resume SLATE")  # a tool said it
        await home.daemon.kill()
        await home.daemon.start()
        await says(home, thread, "and of which colour")
        now = conversation(server)
        assert now[: len(before)] == before
        assert len(now) == len(before) + 2  # what was answered then, and what is said now
        replayed = await home.ohmo("sessions", "replay", thread)
        assert replayed.code == 0, replayed.out
        assert "3 of 3 requests are the same" in replayed.out

        await says(home, thread, "/resume fence")
        await says(home, thread, "which colour")
        told = json.dumps(conversation(server))
        assert "paint the fence" in told
        assert "roof" not in told
        listed = await says(home, thread, "/resume")
        assert listed.index("what is the roof made of") < listed.index("oil the door")
        assert not [fault for asked in server.asked if (fault := openai_fault(asked.body))]


async def test_what_runs_is_stopped_and_kept_when_another_conversation_goes_on(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server) as home:
        thread = await begun(home, "the roof")
        await says(home, thread, "/new")
        server.next(Turn(text="a very long answer", delay=30))
        running = await home.start("-p", "the fence", "--resume", thread)
        while len(server.asked) < 2:
            assert running.returncode is None
            await says(home, thread, "/status")
        await says(home, thread, "/resume roof")
        await running.communicate()
        await says(home, thread, "more of it")
        told = json.dumps(conversation(server))
        assert "the roof" in told
        assert "the fence" not in told
        await says(home, thread, "/resume 1")
        await says(home, thread, "and here")
        assert "the fence" in json.dumps(conversation(server))


async def test_an_exported_conversation_says_who_said_what_and_no_secret(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server) as home:
        (home.work / "notes.txt").write_text(f"the key is {TOKEN}\n" + "and so on\n" * 60)
        server.next(
            Turn(calls=(Call("Read", {"file_path": "notes.txt"}),)), Turn(text=f"it is {TOKEN}")
        )
        thread = await begun(home, f"what is in the notes, {TOKEN}?")
        assert "This conversation, " in await says(home, thread, "/export")
        assert "This conversation, " in await says(home, thread, "/export json")
        assert "Say `/export`" in await says(home, thread, "/export pdf")
        folder = home.home / "spill" / "shown"
        (text,) = [path.read_text() for path in folder.rglob("conversation.md")]
        (whole,) = [json.loads(path.read_text()) for path in folder.rglob("conversation.json")]
        assert TOKEN not in text
        assert TOKEN not in json.dumps(whole)
        assert "what is in the notes" in text
        assert '- Read {"file_path": "notes.txt"}' in text
        person, call, result, answer = whole["items"]
        assert call["tool"] == result["tool"] == "Read"
        assert result["result"].count("and so on") == 60
        assert text.count("and so on") < 40
        assert person["text"].startswith("what is in the notes, ")
        assert (answer["who"], answer["text"][:6]) == ("ohmo", "it is ")


async def test_of_many_conversations_those_unused_longest_go_and_are_said_to_be_gone(
    tmp_path: Path,
) -> None:
    """By the last one that was gone on with they are counted, not by the one that began first."""
    server = ModelServer()
    async with keyboard(tmp_path, server) as home:
        thread = await begun(home, "subject 0")

        async def say(text: str) -> None:
            message = {"text": text, "thread": thread}
            status, _ = await home.daemon.call("POST", "/api/v1/messages", message)
            assert status == 202

        for number in range(1, SESSIONS):
            await say("/new")
            await say(f"subject {number}")
        await until("all is answered", home.daemon.idle)
        assert len(server.asked) == SESSIONS
        assert "This goes on: " in await says(home, thread, "/resume 63")  # subject 0
        for number in range(SESSIONS, SESSIONS + 4):
            await say("/new")
            await say(f"subject {number}")
        await until("all is answered", home.daemon.idle)

        listed = await says(home, thread, "/resume")
        assert f"and {SESSIONS - 11} older ones" in listed
        assert f"`/resume` lists {SESSIONS - 1} here" in await says(home, thread, "/resume 64")
        assert "In no earlier conversation" in await says(home, thread, '/resume "subject 3"')
        assert "This goes on: " in await says(home, thread, '/resume "subject 0"')
        await says(home, thread, "still here")
        told = json.dumps(conversation(server))
        assert "subject 0" in told
        assert "subject 1" not in told
