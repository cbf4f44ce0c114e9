"""What the house counts is what the endpoint bills, to the token: calls of all purposes through the
real SDKs, answers that break off or are thrown away or are given by the next larger model, and
restarts in between."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from itertools import count
from typing import get_args

import pytest

from ohmo.assembly.house import House
from ohmo.contracts.errors import ProviderError
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.provider import ModelRequest, Payer, Purpose
from ohmo.contracts.spending import Total
from ohmo.discovery import load, scan
from ohmo.lifecycle import failure_of
from ohmo.providers.build import Model, manifests, model
from ohmo.providers.middleware.link import Patience
from ohmo.providers.models import Endpoint
from ohmo_testing.house import World, eventually, house
from tests.journeys.conftest import MakeWorld
from tests.journeys.test_journey_model_faults import nobody_is_connected
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer, serving

LIVES = 4
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
FAULTS = (
    Turn(status=529),
    Turn(status=500),
    Turn(status=529, in_stream=True),  # Anthropic has told by then what goes in
    Turn(text="half of it", no_end=True),
    Turn(text="half of it", between=0.001, cut=4),
    Turn(empty=True),  # thrown away, and asked again
)


async def at_once(_: float) -> None:
    await asyncio.sleep(0)


SMALL = "small-7b"
WIRES = {"anthropic": "claude-sonnet-5-5", "openai": "local-1", "responses": "gpt-6-sol"}


class Endpoints:
    """Half of the answers break; a conversation is sometimes too long; the small model seldom finds
    the arguments of a tool, and then the larger one is asked."""

    def __init__(self) -> None:
        self.dice = random.Random(20)
        self.larger = 0  # asked for an answer of the small one

    def __call__(self, asked: Asked) -> Turn:
        if asked.said == "go on, small":
            if asked.body["model"] != SMALL:
                self.larger += 1
            elif self.dice.random() < 0.6:
                return Turn(calls=(Call("Glob", {"glob": 1}),), usage={"output_tokens": 70})
        roll = self.dice.random()
        if roll < 0.5:
            return self.dice.choice(FAULTS)
        if roll < 0.52:
            return Turn(status=400, message="prompt is too long: 1 tokens > 0 maximum")
        usage = {"output_tokens": self.dice.randint(1, 900), "cache_read_input_tokens": 3}
        if roll < 0.65 and not asked.said.startswith("side"):
            return Turn(calls=(Call("Glob", {"pattern": "*.none"}),), usage=usage)
        return Turn(text="done", usage=usage)


async def side_calls(built: House, model_name: str, number: int) -> None:
    """Of every purpose that is no step of a turn."""
    for purpose in PURPOSES[1:]:
        said = UserStep((Text(f"side {number}"),), "house", "notice")
        payer = Payer(thread=f"th{number}", person="fake:ada")
        request = ModelRequest(model_name, (), (), (said,), 64, None, purpose, payer=payer)
        failure = await failure_of(built.agent.ask(request))
        assert failure is None or isinstance(failure, ProviderError)


async def one_life(life: World, brain: Model, numbers: count[int]) -> None:
    """Half of the people have chosen the small model."""
    async with house(replace(life, brain=brain)) as built:
        for chat in range(4):
            await life.platform.says(f"/model {SMALL}", chat=f"dm:p{chat}", person=f"p{chat}")
        for _ in range(6):
            sides = [
                asyncio.create_task(side_calls(built, brain.model, next(numbers))) for _ in range(5)
            ]
            for chat in range(8):
                said = "go on, small" if chat < 4 else "go on"
                await life.platform.says(said, chat=f"dm:p{chat}", person=f"p{chat}")
            await asyncio.gather(*sides)

        async def quiet() -> bool:
            counts = await built.store.counts()
            return not counts.turns_open and counts.oldest_waiting is None

        await eventually(quiet, 120.0)
        await brain.aclose()
        await eventually(nobody_is_connected)


@pytest.mark.parametrize("wire", list(WIRES))
async def test_a_thousand_calls_are_counted_as_they_are_billed(world: MakeWorld, wire: str) -> None:
    endpoints = Endpoints()
    async with serving(ModelServer(default=endpoints)) as server:
        server.keep = False
        numbers = count()
        models = (SMALL, WIRES[wire])
        endpoint = Endpoint(wire, models, server.url, "key", hints=True)
        if wire == "responses":
            endpoint = replace(endpoint, provider="openai", wire="responses")
        patience = Patience(tries=30, sleep=at_once)
        life = world()
        for _ in range(LIVES):
            brain = await model([endpoint], manifests(scan), load, {}, patience=patience)
            await one_life(life, brain, numbers)
        async with house(life) as built:
            rows = await built.store.usage()
            assert server.count >= 1_000
            assert sum(row.tokens for row in rows) == server.billed
            assert {row.model: row.tokens for row in rows} == server.billed_by_model
            assert endpoints.larger > 20
            assert sum(row.calls for row in rows) == sum(map(bool, server.bills))
            day = (await built.store.spent(Payer()))["day"]
            assert day == Total(server.billed, sum(row.micro_usd for row in rows))
            (thread, *_) = [
                one for one in await built.store.threads() if one.address.channel == "fake"
            ]
            turns = await built.store.thread_usage(thread.thread)
            whole = await built.store.spent(Payer(thread=thread.thread))
            assert whole["thread"].tokens == sum(turn.tokens for turn in turns)
            purposes = {share.name for share in await built.store.usage_by("purpose")}
            assert purposes == set(PURPOSES)
