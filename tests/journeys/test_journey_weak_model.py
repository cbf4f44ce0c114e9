"""R8 at the keyboard: a small model that writes its call into a fence has the file read all the
same, and one that shows a call does not have it run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer


def profile(url: str) -> dict[str, Any]:
    return {
        "provider": "openai",
        "base_url": f"{url}/v1",
        "models": ["small-7b"],
        "api_key": "env:KEY",
        "weak_model_hints": True,
    }


async def test_a_fenced_call_reads_the_file_and_a_shown_one_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "work" / "notes.txt"
    read = json.dumps({"name": "Read", "arguments": {"file_path": str(path)}})
    shell = json.dumps({"name": "Write", "arguments": {"file_path": str(path), "content": ""}})
    shown = f"This is how Write is called:\n```json\n{shell}\n```\nThat is all."
    server = ModelServer(
        [
            Turn(text=f"```json\n{read}\n```"),
            Turn(text="It says: buy milk."),
            Turn(text=shown),
            Turn(text="OK"),
        ]
    )
    async with keyboard(tmp_path, server, running=False) as person:
        person.configure({**person.written, "profiles": {"default": profile(server.url)}})
        path.write_text("buy milk\n")
        await person.daemon.start()
        said = await person.ohmo("-p", "what is in notes.txt?")
        assert (said.code, said.out.strip()) == (0, "It says: buy milk."), said
        told = await person.ohmo("-p", "how is Write called?")
        assert told.out.strip() == shown, told
        assert path.read_text() == "buy milk\n"
    first, second, third, asks = (asked.body for asked in server.asked)
    assert "<tool_call>" in json.dumps(first["messages"][0])
    assert first["messages"][0] == second["messages"][0] == third["messages"][0]
    assert "buy milk" in json.dumps(second["messages"][-1])
    assert "answer only OK" in json.dumps(asks["messages"][-1])


async def test_a_file_is_read_again_each_time_somebody_asks_at_the_keyboard(tmp_path: Path) -> None:
    """The third time the world has changed."""
    path = tmp_path / "work" / "state.txt"
    read = Turn(calls=(Call("Read", {"file_path": str(path)}),))
    server = ModelServer([read, Turn(text="red"), read, Turn(text="red"), read, Turn(text="green")])
    async with keyboard(tmp_path, server, running=False) as person:
        person.configure({**person.written, "profiles": {"default": profile(server.url)}})
        await person.daemon.start()
        path.write_text("red\n")
        first = json.loads((await person.ohmo("-p", "state?", "--output", "json")).out)
        await person.ohmo("-p", "and now?", "--resume", first["thread"])
        path.write_text("green\n")
        last = await person.ohmo("-p", "and now?", "--resume", first["thread"])
        assert last.out.strip() == "green", last
    assert len(server.asked) == 6
    assert "green" in json.dumps(server.asked[-1].body["messages"][-1])
