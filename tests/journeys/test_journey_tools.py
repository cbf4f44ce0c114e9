"""Tools that speak to something beside files and commands, on the real daemon: what a person and a
model see of them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer
from tests.platforms.search import KEY, SearchServer, searching

pytestmark = pytest.mark.timeout(240)


def result(asked: Asked) -> str:
    """The newest tool result, as the model read it."""
    return str(asked.body["messages"][-1]["content"])


def described(asked: Asked, name: str) -> str:
    tools = {tool["function"]["name"]: tool["function"] for tool in asked.body["tools"]}
    return str(tools[name]["description"])


async def test_the_web_is_searched_with_the_service_that_is_configured(tmp_path: Path) -> None:
    call = Turn(calls=(Call("WebSearch", {"query": "saola"}),))
    server = ModelServer([call, Turn(text="a bovine"), Turn(text="hello")])
    async with (
        searching(SearchServer()) as service,
        keyboard(
            tmp_path,
            server,
            running=False,
            web_search={"provider": "tavily", "url": service.url, "api_key": "env:SEARCH"},
        ) as home,
    ):
        refused = await home.ohmo("config", "check")
        assert refused.code == 78
        assert "SEARCH is not set" in refused.err
        (home.home / ".env").write_text(f"SEARCH={KEY}\n")
        (home.home / ".env").chmod(0o600)
        await home.daemon.start()
        said = await home.ohmo("-p", "what is a saola?")
    assert said.out.strip() == "a bovine"
    assert "WebSearch" in described(server.asked[0], "ToolSearch")
    assert "https://en.wikipedia.org/wiki/Saola" in result(server.asked[1])
    assert KEY not in json.dumps([asked.body for asked in server.asked])


async def test_another_ohmo_is_told_something_once_and_works_by_itself(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    call = Call("RemoteTrigger", {"name": "ci", "payload": {"build": 7}})
    asking = ModelServer([Turn(calls=(call,)), Turn(text="told")])
    working = ModelServer()
    other: dict[str, Any] = {
        "control": {"listen": f"127.0.0.1:{port}"},
        "webhooks": {"build": {"secret": "env:KEY", "prompt": "build {{ build }} is red"}},
    }
    remotes = {"ci": {"url": f"http://127.0.0.1:{port}/hooks/build", "secret": "env:KEY"}}
    async with keyboard(there, working, **other), keyboard(here, asking, remotes=remotes) as home:
        unasked = await home.ohmo("-p", "tell the other one")
        assert unasked.code == 3  # nobody is there to be asked
        assert not working.asked
        asking.next(Turn(calls=(call,)), Turn(text="told"))
        said = await home.ohmo("-p", "tell the other one", "--allow", "RemoteTrigger")
        assert said.out.strip() == "told", said.err

        async def arrived() -> bool:
            return bool(working.asked)

        await until("the other one works", arrived)
    assert "ci has taken it" in result(asking.asked[-1])
    assert "build 7 is red" in json.dumps(working.asked[0].body)
    assert len(working.asked) == 1


async def test_the_owner_is_asked_before_a_key_is_written_and_sees_both_values(
    tmp_path: Path,
) -> None:
    change = Call("Config", {"key": "sessions.busy", "value": "steer"})
    more = Call("Config", {"key": "permissions.mode", "value": "full_auto"})
    server = ModelServer([Turn(calls=(more, change)), Turn(text="Changed.")])
    async with keyboard(tmp_path, server, running=False) as home:
        file = home.home / "config.yaml"
        # asked whatever the mode
        file.write_text(
            f"{file.read_text()}permissions: {{mode: full_auto}}\n"
            "sessions:\n  busy: queue # while I work\n"
        )
        await home.daemon.start()
        message = {"text": "let me steer you"}
        status, _ = await home.daemon.call("POST", "/api/v1/messages", message)
        assert status == 202
        asked: list[Any] = []

        async def waits() -> bool:
            asked[:] = (await home.daemon.call("GET", "/api/v1/approvals"))[1]["approvals"]
            return bool(asked)

        await until("the owner is asked", waits)
        question = asked[0]["ask"]["question"]
        assert "now: `queue`" in question["detail"]
        assert "then: `steer`" in question["detail"]
        assert "busy: queue # while I work" in file.read_text()
        approved = await home.ohmo("approvals", "approve", asked[0]["ask"]["id"])
        assert approved.code == 0, approved.err

        async def answered() -> bool:
            return len(server.asked) == 2

        await until("it goes on", answered)
        assert "busy: steer # while I work" in file.read_text()
        assert "mode: full_auto" in file.read_text()
    results = [one["content"] for one in server.asked[1].body["messages"] if one["role"] == "tool"]
    assert "is the owner's to write" in str(results[0])
    assert "takes it over by itself" in str(results[1])
