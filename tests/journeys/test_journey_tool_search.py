"""T10 through the real SDKs of both wires: unused tools cost nothing, a tool that was found stays
for the session, also over kill -9, and what was sent before it stays byte for byte where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ohmo.contracts.messages import CallResult
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests, model
from ohmo.providers.models import Endpoint
from ohmo_testing.house import World, house
from tests import warm
from tests.faults.daemon import Daemon, until
from tests.journeys.conftest import MakeWorld
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer, serving

WIRES = {"anthropic": "claude-sonnet-5-5", "openai": "local-1"}
MARK = b',"cache_control":{"type":"ephemeral"}'
LATER = ("CronList", "Brief")


@pytest.fixture(params=list(WIRES))
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


def names(asked: Asked) -> list[str]:
    return [str(tool.get("name") or tool["function"]["name"]) for tool in asked.body["tools"]]


def kept(older: Asked, newer: Asked) -> float:
    """Share of the older request, up to the end of its conversation, that the newer one begins
    with; the mark at the end moves."""
    old, new = older.raw.replace(MARK, b"")[: -len(b"]}")], newer.raw.replace(MARK, b"")
    return next(
        (at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        len(old),
    ) / len(old)


def tools_kept(older: Asked, newer: Asked) -> bool:
    """Every byte of the older request's tools stands at the same place in the newer one."""
    text = older.raw.replace(MARK, b"")
    end = text.index(
        json.dumps(older.body["tools"][-1], ensure_ascii=False, separators=(",", ":"))
        .replace(MARK.decode(), "")
        .encode()
    )
    return newer.raw.replace(MARK, b"")[:end] == text[:end]


def says(result: Asked) -> str:
    """The newest tool result, as the model read it."""
    content = result.body["messages"][-1]["content"]
    return str(content)


async def test_a_tool_is_found_once_for_the_session_and_its_earlier_bytes_stay(
    world: MakeWorld, wire: str
) -> None:
    found = Turn(calls=(Call("ToolSearch", {"query": "select:CronList"}),))
    async with serving(
        ModelServer(
            [Turn(text="hello"), found, Turn(calls=(Call("CronList", {}),)), Turn(text="no jobs")]
        )
    ) as server:

        async def brain() -> Any:
            return await model(
                [Endpoint(wire, (WIRES[wire],), server.url, "key", hints=False)],
                manifests(scan),
                load,
                {},
            )

        life = world(brain=await brain())
        async with house(life):
            await life.platform.says("hi")
            await life.hears("hello")
            await life.platform.says("which jobs are there?")
            await life.hears("no jobs")
            assert life.brain is not None
            await life.brain.aclose()
        first, asks, knows, ran = server.asked
        assert not set(LATER) & set(names(first))
        assert "ToolSearch" in names(first)
        assert names(knows) == [*names(first), "CronList"]
        assert "There are no jobs" in says(ran)
        assert kept(first, asks) == 1.0
        assert tools_kept(asks, knows)
        assert kept(knows, ran) == 1.0

        again = World(life.folder, life.platform, clock=life.clock, brain=await brain())
        async with house(again):
            await again.platform.says("and now?")
            await again.hears("echo: and now?")
            assert kept(ran, server.asked[-1]) >= 0.99
            assert names(server.asked[-1]) == names(knows)
            await again.platform.says("/new")
            await again.hears("A new conversation begins here.")
            await again.platform.says("fresh")
            await again.hears("echo: fresh")
            assert names(server.asked[-1]) == names(first)
            assert again.brain is not None
            await again.brain.aclose()


async def test_a_tool_that_was_never_searched_runs_or_says_what_it_wants(
    world: MakeWorld, wire: str
) -> None:
    wrong, right = (
        Turn(calls=(Call("CronToggle", {"job": 1}),)),
        Turn(calls=(Call("CronList", {}),)),
    )
    async with serving(
        ModelServer([wrong, right, Turn(calls=(Call("CronLits", {}),)), Turn(text="done")])
    ) as server:
        brain = await model(
            [Endpoint(wire, (WIRES[wire],), server.url, "key", hints=False)],
            manifests(scan),
            load,
            {},
        )
        life = world(brain=brain)
        async with house(life) as built:
            await life.platform.says("go")
            await life.hears("done")
            (info,) = [one for one in await built.store.threads() if one.address.channel == "fake"]
            results = [
                step.result
                for _, step in await built.store.steps(info.thread, 0)
                if isinstance(step, CallResult)
            ]
            await brain.aclose()
    assert [result.error for result in results] == [True, False, True]
    assert "`name` is missing" in results[0].text
    assert '"required":["name"' in results[0].text
    assert results[1].text == "There are no jobs."
    assert "There is no tool named CronLits" in results[2].text
    assert len({tuple(names(asked)) for asked in server.asked}) == 1


async def test_permissions_judge_a_found_tool_as_any_other(world: MakeWorld, wire: str) -> None:
    job = {"name": "tea", "prompt": "tea!", "every": "1h", "to": "fake:elsewhere"}
    script = [
        Turn(calls=(Call("ToolSearch", {"query": "make a job"}),)),
        Turn(calls=(Call("CronCreate", job),)),
        Turn(text="not allowed"),
    ]
    async with serving(ModelServer(script)) as server:
        brain = await model(
            [Endpoint(wire, (WIRES[wire],), server.url, "key", hints=False)],
            manifests(scan),
            load,
            {},
        )
        life = world(brain=brain, config='permissions: {deny: ["CronCreate"]}')
        async with house(life):
            await life.platform.says("remind me hourly")
            await life.hears("not allowed")
            await brain.aclose()
        assert "CronCreate" in names(server.asked[1])
        assert "Not allowed" in says(server.asked[2])


async def test_the_daemon_itself_remembers_what_was_found_over_kill(home: Path, wire: str) -> None:
    home.mkdir(exist_ok=True)
    script = [Turn(calls=(Call("ToolSearch", {"query": "jobs list"}),)), Turn(text="found")]
    async with serving(ModelServer(script)) as server:
        (home / "config.yaml").write_text(
            f'profiles: {{default: {{provider: {wire}, base_url: "{server.url}", api_key: "k",'
            f" models: [{WIRES[wire]}]}}}}\n"
            f"workspace: {home.parent / 'work'}\ncontrol: {{listen: null}}\nchannels: {{web:"
            " {enabled: true}}\n"
        )
        (home / "config.yaml").chmod(0o600)
        daemon = Daemon(home, start=warm.start)

        async def said(text: str, thread: str | None, asked: int) -> str:
            body = {"text": text} | ({"thread": thread} if thread else {})
            _, answer = await daemon.call("POST", "/api/v1/messages", body)

            async def settled() -> bool:
                return server.count >= asked and await daemon.idle()

            await until(f"{text} is answered", settled)
            return str(answer["thread"])

        await daemon.start()
        try:
            thread = await said("what can you do?", None, 2)
            await daemon.kill()
            await daemon.start()
            await said("and again?", thread, 3)
        finally:
            await daemon.stop()
        first, second, third = server.asked
        assert "CronList" not in names(first)
        assert "CronList" in names(second)
        assert names(third) == names(second)
        assert kept(second, third) >= 0.99
