"""``ohmo -p`` on the real daemon, and without one: it ends, with a code that says how, and what was
withdrawn is never answered."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, heard, keyboard
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
NOWHERE = "http://127.0.0.1:9/v1"
BOTH = pytest.mark.parametrize("running", [True, False], ids=["daemon", "alone"])


def unreachable(home: Keyboard) -> None:
    default = home.written["profiles"]["default"] | {"base_url": NOWHERE}
    home.configure(home.written | {"profiles": {"default": default}})


def reachable(home: Keyboard, url: str) -> None:
    default = home.written["profiles"]["default"] | {"base_url": f"{url}/v1"}
    home.configure(home.written | {"profiles": {"default": default}})


async def never_answered(home: Keyboard, server: ModelServer) -> None:
    """Another life of the daemon, with a model that answers: it asks nothing for what was
    withdrawn."""
    if home.daemon.alive:
        await home.daemon.stop()
    asked = len(server.asked)
    reachable(home, server.url)
    await home.daemon.start()
    assert (await home.ohmo("-p", "are you there?")).out == "echo: are you there?\n"
    await until("nothing waits", home.daemon.idle)
    assert len(server.asked) == asked + 1
    _, found = await home.daemon.call("GET", "/api/v1/inbox")
    assert [row["ending"] for row in found["inbox"] if row["kind"] != "command"].count(
        "answered"
    ) == 1


@BOTH
async def test_a_model_that_cannot_be_reached_ends_the_prompt_with_a_code(
    tmp_path: Path, running: bool
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        unreachable(home)
        if running:
            await home.daemon.start()
        said = await home.ohmo("-p", "hello")
        assert (said.code, said.out) == (69, "")
        last = said.err.splitlines()[-1]
        assert last.startswith("ohmo: unreachable: openai (127.0.0.1): cannot be reached")
        assert last.endswith("; the prompt is withdrawn, --wait would wait for the model")
        as_json = await home.ohmo("-p", "hello", "--output", "json")
        assert (as_json.code, json.loads(as_json.out)["outcome"]) == (69, "unreachable")
        await never_answered(home, server)


async def test_who_wants_to_wait_gets_the_answer_when_the_model_is_back(tmp_path: Path) -> None:
    server = ModelServer([Turn(status=503, message="down")] * 5)
    async with keyboard(tmp_path, server) as home:
        said = await home.ohmo("-p", "hello", "--wait")
        assert (said.code, said.out) == (0, "echo: hello\n")
        assert len(server.asked) == 6


@BOTH
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_withdraws_the_prompt_for_good(
    tmp_path: Path, running: bool, number: signal.Signals
) -> None:
    server = ModelServer([Turn(hold=1)])
    async with keyboard(tmp_path, server, running=running) as home:
        process = await home.start("-p", "hello")

        async def asked() -> bool:
            return bool(server.asked)

        await until("the model is asked", asked)
        process.send_signal(number)
        said = await heard(process)
        assert (said.code, said.out) == (128 + number, "")
        assert said.err == "ohmo: interrupted, the prompt is withdrawn\n"
        server.go.set()
        await never_answered(home, server)


async def test_ctrl_c_withdraws_what_waits_for_a_model_that_is_down(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        unreachable(home)
        await home.daemon.start()
        process = await home.start("-p", "hello", "--wait")
        assert process.stderr is not None
        line = await asyncio.wait_for(process.stderr.readline(), 60)
        assert line.endswith(b"Ctrl-C leaves\n")
        process.send_signal(signal.SIGINT)
        assert (await heard(process)).code == 130
        await never_answered(home, server)


@BOTH
async def test_every_event_of_a_quick_answer_is_streamed_in_order(
    tmp_path: Path, running: bool
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=running) as home:
        for word in ("one", "two", "three"):
            said = await home.ohmo("-p", word, "--output", "stream-json")
            lines = [json.loads(line) for line in said.out.splitlines()]
            kinds = [line["event"] for line in lines if line["event"] != "item"]
            assert kinds[0] == "turn_started"
            assert (
                "".join(line["text"] for line in lines if line["event"] == "text_delta")
                == f"echo: {word}"
            )
            assert kinds[-3:] == ["model_done", "turn_ended", "result"]
            items = [line for line in lines if line["event"] == "item"]
            assert items[0]["type"] == "arrival_info"
            assert len({item["seq"] for item in items}) == len(items) >= 3


async def test_json_says_what_the_prompt_used_and_cost(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer()) as home:
        found = json.loads((await home.ohmo("-p", "hello", "--output", "json")).out)
        used = found["usage"]
        assert (found["text"], used["calls"], used["input"] > 100, used["output"] > 0) == (
            "echo: hello",
            1,
            True,
            True,
        )
        assert used["models"] == {
            "gpt-5": {
                kind: used[kind] for kind in ("calls", "input", "cached", "written", "output")
            }
        }
        # of gpt-5, per token
        cost = (used["input"] * 1.25 + used["cached"] * 0.125 + used["output"] * 10) / 1e6
        assert found["cost_usd"] == pytest.approx(cost, abs=1e-6)


@BOTH
async def test_a_shell_reads_the_models_words_unchanged_and_those_of_the_house_without_escapes(
    tmp_path: Path, running: bool
) -> None:
    words = "a\\_b \\* `c\\*` 1\\. \\\\ <x> [y](z)"
    call = Call("Bash", {"command": "rm a_b.txt"})
    server = ModelServer([Turn(calls=(call,)), Turn(text=words)])
    rules = {"deny": ["Bash(rm *)"]}
    async with keyboard(tmp_path, server, running=running, permissions=rules) as home:
        said = await home.ohmo("-p", "hello")
        assert (said.code, said.out) == (0, f"{words}\n")
        why = await home.ohmo("--continue", "-p", "/why")
        assert "- `Bash`: refused by policy. Not allowed (deny: Bash(rm *))" in why.out
        as_json = await home.ohmo("--continue", "-p", "/why", "--output", "json")
        assert "Bash(rm \\*)" in json.loads(as_json.out)["text"]
