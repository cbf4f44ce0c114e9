"""``ohmo sessions replay``: a session comes out of its log byte for byte as it was sent, also after
kill -9 and without the daemon; whatever was changed since is the first difference, by name."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ohmo.discovery import load, scan
from ohmo.providers.build import manifests, model
from ohmo.providers.models import Endpoint
from ohmo_testing.house import house
from tests import warm
from tests.faults.daemon import Daemon, until
from tests.journeys.conftest import MakeWorld
from tests.platforms.model.responses_wire import sealed
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer, serving
from tests.programs import OHMO, run_process

WIRES = {"anthropic": "claude-sonnet-5-5", "openai": "local-1", "responses": "gpt-6-sol"}
RUNS = (
    Turn(
        thinking="hm",
        calls=(Call("Bash", {"command": "echo one"}), Call("Read", {"file_path": "gone.txt"})),
    ),
    Turn(calls=(Call("ToolSearch", {"query": "select:CronList"}),)),
    Turn(calls=(Call("CronList", {}),)),
    Turn(text="done"),
)

ON_THE_WAY = {
    5: (Turn(thinking="deep " * 20, text="thought about it"),),
    9: (
        Turn(
            status=400,
            message=(
                "Invalid `signature` in `thinking` block. It is bound to a different conversation."
            ),
        ),
    ),
    12: (Turn(status=400, message="prompt is too long: 7000 tokens > 6000 maximum"),),
    15: (Turn(calls=(Call("ToolSearch", {"query": "select:CronList"}),)),),
}


async def replay(home: Path, thread: str, *options: str) -> tuple[int | None, str]:
    """Exit code and output."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "OHMO_HOME": str(home)}
    words = [*OHMO, "sessions", "replay", thread, *options]
    done = await asyncio.to_thread(run_process, *words, env=environ)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout


def configure(home: Path, wire: str, url: str, more: str = "") -> None:
    provider = "openai, wire: responses" if wire == "responses" else wire
    (home / "config.yaml").write_text(
        f'profiles: {{default: {{provider: {provider}, base_url: "{url}", api_key: "k", models:'
        f" [{WIRES[wire]}]}}}}\n"
        f"workspace: {home.parent / 'work'}\ncontrol: {{listen: null}}\n{more}"
    )
    (home / "config.yaml").chmod(0o600)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.timeout(300)
async def test_a_session_comes_out_of_its_log_as_it_was_sent_and_every_change_is_named(
    home: Path, wire: str
) -> None:
    home.mkdir(exist_ok=True)
    async with serving(ModelServer(RUNS)) as server:
        configure(home, wire, server.url)
        daemon = Daemon(home, start=warm.start)

        async def says(asked: int, **message: str) -> str:
            _, answer = await daemon.call("POST", "/api/v1/messages", message)

            async def settled() -> bool:
                return server.count >= asked and await daemon.idle()

            await until(f"{message} is answered", settled)
            return str(answer["thread"])

        await daemon.start()
        try:
            thread = await says(4, text="go")
            await daemon.kill()
            await daemon.start()
            # another mode, and so another prompt, from here on
            await says(5, text="and now?", thread=thread, mode="plan")
            code, words = await replay(home, thread)
            assert (code, words) == (
                0,
                "5 of 5 requests are the same byte for byte, 4 decisions are the same\n",
            )
            assert server.count == 5  # nobody was asked
            if wire == "responses":
                assert {asked.path for asked in server.asked} == {"/v1/responses"}
                assert sealed("hm") in server.asked[-1].raw.decode()  # also after kill -9
        finally:
            await daemon.stop()

    code, words = await replay(home, thread, "--json")  # without the daemon, too
    found = {"calls": 5, "same": 5, "unrecorded": 0, "judged": 4, "difference": None}
    assert (code, json.loads(words) | found) == (0, json.loads(words))

    if wire != "anthropic":
        return  # the rest is the same for every wire

    soul = home / "SOUL.md"
    before = soul.read_text() if soul.exists() else None
    soul.write_text("You are a pirate.\n")
    code, words = await replay(home, thread)
    assert code == 1
    assert "model call 1: the system prompt" in words
    soul.unlink() if before is None else soul.write_text(before)

    configure(home, wire, server.url, 'permissions: {deny: ["Read"]}\n')
    code, words = await replay(home, thread)
    assert code == 1
    assert "Read gone.txt: ran then, would not be allowed today" in words
    configure(home, wire, server.url)

    with closing(sqlite3.connect(home / "ohmo.db")) as store, store:
        store.execute(
            "UPDATE steps SET body = replace(body, 'one', 'two') WHERE thread = ? AND kind ="
            " 'result' AND body LIKE '%one%'",
            (thread,),
        )
    code, words = await replay(home, thread)
    assert code == 1
    assert "before it: 1 requests the same" in words
    assert "model call 2: the conversation would be sent otherwise today, in steps" in words


@pytest.mark.parametrize("wire", WIRES)
async def test_what_was_left_out_made_shorter_or_refused_on_the_way_comes_out_again(
    world: MakeWorld, wire: str
) -> None:
    async with serving(ModelServer()) as server:
        endpoint = Endpoint(wire, (WIRES[wire],), server.url, "k", window=6_000)
        if wire == "responses":
            endpoint = replace(endpoint, provider="openai", wire="responses")
        brain = await model([endpoint], manifests(scan), load, {})
        life = world(brain=brain)
        async with house(life) as built:
            for number in range(20):
                server.next(
                    *ON_THE_WAY.get(number, ()) if wire == "anthropic" or number != 9 else ()
                )
                await life.platform.says(f"message {number} " + "blah " * 120)
                await life.hears(f"echo: message {number} " if number != 5 else "thought about it")
            (info,) = [one for one in await built.store.threads() if one.address.channel == "fake"]
            found = await built.replaying(info)
            await brain.aclose()
    assert (found.calls, found.same, found.difference) == (21, 21, None)
    assert "message 0 " not in server.asked[-1].raw.decode()


async def test_a_session_of_which_nothing_was_kept_says_so(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(
        f"workspace: {home.parent / 'work'}\nprofiles: {{default: {{provider: offline}}}}\ncontrol:"
        " {listen: null}\n"
    )
    (home / "config.yaml").chmod(0o600)
    daemon = Daemon(home, start=warm.start)
    await daemon.start()
    try:
        _, answer = await daemon.call("POST", "/api/v1/messages", {"text": "hi"})
        await until("it is answered", daemon.idle)
    finally:
        await daemon.stop()
    assert await replay(home, answer["thread"]) == (
        1,
        "nothing to compare: no request of this session was recorded\n",
    )
