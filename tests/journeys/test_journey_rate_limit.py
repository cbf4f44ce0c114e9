"""An endpoint with rate limits that really counts: 32 turns at once never go over, whoever stops
waiting leaves at once, and a refusal of one is a pause for all."""

from __future__ import annotations

import asyncio
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ohmo.config.agent import Rate
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests, model
from ohmo.providers.middleware.link import Patience
from ohmo.providers.models import Endpoint
from ohmo_testing.house import BOUND, eventually, house
from tests.faults.daemon import Daemon, until
from tests.journeys.at_keyboard import Keyboard, heard, keyboard
from tests.journeys.conftest import MakeWorld
from tests.journeys.test_journey_model_faults import nobody_is_connected
from tests.platforms.model.limits import Limits
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer, serving

pytestmark = pytest.mark.timeout(240)
FAST = 60.0  # a minute goes by in a second
CHATS = 32
WIRES = {"anthropic": "claude-sonnet-5-5", "openai": "local-1", "responses": "gpt-6-sol"}


def looks_first(asked: Asked) -> Turn:
    """A call of a tool, and then the answer: two requests a turn."""
    if b"looked around" not in asked.raw and b"*.none" not in asked.raw:
        return Turn(calls=(Call("Glob", {"pattern": "*.none"}),))
    return Turn(text=f"looked around for {asked.said}")


def profile(home: Keyboard, wire: str, url: str, **more: Any) -> dict[str, Any]:
    one = {"provider": wire, "base_url": url, "models": [WIRES[wire]], "api_key": "env:KEY"}
    if wire == "responses":
        one |= {"provider": "openai", "wire": "responses"}
    return {**home.written, "profiles": {"default": one | more}}


@pytest.mark.parametrize("limit", ["requests", "tokens"])
async def test_32_turns_at_once_keep_within_what_the_profile_says(
    world: MakeWorld, limit: str
) -> None:
    """The endpoint tells nothing but its refusals, and there are none."""
    limits = Limits(told=False, clock=lambda: time.monotonic() * FAST)
    rate = Rate(requests=40)
    if limit == "requests":
        limits.requests = 40
    else:  # tokens in and out, of which the endpoint bounds those that go in
        limits.tokens = 100_000
        rate = Rate(tokens=100_000)
    patience = Patience(
        sleep=lambda seconds: asyncio.sleep(seconds / FAST), clock=limits.clock, tries=1
    )
    async with serving(ModelServer(default=looks_first, limits=limits)) as server:
        endpoint = Endpoint("openai", ("local-1",), server.url, "key", rate=rate, hints=False)
        brain = await model(
            [endpoint], manifests(scan), load, {}, patience=patience, tokens=lambda _: 12_000
        )
        life = world(brain=brain)
        async with house(life):
            began = time.monotonic()
            for chat in range(CHATS):
                await life.platform.says(f"number {chat}", chat=f"dm:p{chat}", person=f"p{chat}")
            for chat in range(CHATS):
                await life.hears(f"looked around for number {chat}", chat=f"dm:p{chat}")
            minutes = (time.monotonic() - began) * FAST / 60
            await brain.aclose()
            await eventually(nobody_is_connected)
    assert limits.refused == 0
    assert server.count == 2 * CHATS
    assert minutes > 0.9, server.billed  # it had to wait


@pytest.mark.parametrize("wire", WIRES)
async def test_32_turns_at_once_on_the_daemon_keep_within_what_the_endpoint_says(
    tmp_path: Path, wire: str
) -> None:
    """One answer is enough to know the limit from."""
    limits = Limits(requests=10, window=1.0)
    server = ModelServer(default=looks_first, limits=limits)
    async with keyboard(tmp_path, server, running=False) as home:
        home.configure(profile(home, wire, server.url, weak_model_hints=False))
        await home.daemon.start()
        await said(home.daemon, "first")
        await until("it is answered", home.daemon.idle)
        await asyncio.gather(*(said(home.daemon, f"number {chat}") for chat in range(CHATS)))
        await until("all are answered", home.daemon.idle, 120)
        assert limits.refused == 0
        assert server.count == 2 * (CHATS + 1)
        assert await home.daemon.stop() == 0


async def said(daemon: Daemon, text: str, **more: str) -> str:
    status, answer = await daemon.call("POST", "/api/v1/messages", {"text": text, **more})
    assert status in (200, 202), answer
    return str(answer["thread"])


async def test_whoever_waits_for_the_profiles_limit_reads_it_and_may_go(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        home.configure(profile(home, "openai", server.url, rate={"requests": 1}))
        await home.daemon.start()
        assert (await home.ohmo("-p", "one")).out.strip() == "echo: one"
        thread = await said(home.daemon, "two")
        await asyncio.sleep(1.0)
        assert server.count == 1
        began = time.monotonic()
        await said(home.daemon, "/stop", thread=thread)
        await until("it is stopped", home.daemon.idle)
        assert time.monotonic() - began < 20  # and not a minute
        waits = await home.start("-p", "three")
        assert waits.stderr is not None
        async with asyncio.timeout(BOUND):
            told = ""
            while "Waiting for about" not in told:
                told = (await waits.stderr.readuntil(b"\n")).decode()
        why = "local-1 is not asked yet: ohmo asks for no more than 1 request a minute"
        assert f"{why} (profiles.default.rate.requests). Waiting for about" in told
        waits.send_signal(signal.SIGINT)
        assert "has not answered" not in (await heard(waits)).err
        await until("it is withdrawn", home.daemon.idle)
        assert server.count == 1


async def test_a_refusal_that_says_when_to_come_again_holds_all_threads(tmp_path: Path) -> None:
    server = ModelServer([Turn(status=429, retry_after=3.0, message="slow down")])
    async with keyboard(tmp_path, server) as home:
        await said(home.daemon, "one")
        await eventually(lambda: server.count == 1)
        await said(home.daemon, "two")
        await until("both are answered", home.daemon.idle)
        times = [asked.at for asked in server.asked]
        assert len(times) == 3
        assert all(other - one >= 2.9 for one, other in pairwise(times[:2]))


async def test_a_mistake_in_the_chain_or_the_rate_is_one_line_before_anything_starts(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer(), running=False) as home:
        path = home.home / "config.yaml"
        whole = path.read_text()
        path.write_text("chain: [fallback, waiting, repair, budget, priced, rates]\n" + whole)
        checked = await home.ohmo("config", "check")
        assert checked.code == 78, checked
        line = "config.yaml:1: chain[5]: there is no link 'rates', did you mean rate?"
        assert line in checked.out + checked.err
        started = await home.ohmo("run")
        assert started.code == 78
        assert line in started.err
        rate = "profiles: {default: {rate: {requests: 0, tokns: 5}}}\n"
        path.write_text(f"workspace: {home.work}\n{rate}")
        checked = await home.ohmo("config", "check")
        text = checked.out + checked.err
        assert "config.yaml:2: profiles.default.rate.requests: must be at least 1, not 0" in text
        assert "did you mean tokens?" in text


async def test_without_hints_in_the_chain_nothing_is_told_and_a_replay_knows_it(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        written = profile(home, "openai", server.url, weak_model_hints=True)
        home.configure({**written, "chain": ["fallback", "repair", "waiting", "budget", "priced"]})
        await home.daemon.start()
        thread = await said(home.daemon, "hello")
        await until("it is answered", home.daemon.idle)
        assert "<tool_call>" not in server.asked[0].raw.decode()
        replayed = await home.ohmo("sessions", "replay", thread)
        assert replayed.out.startswith("1 of 1 requests are the same byte for byte"), replayed
