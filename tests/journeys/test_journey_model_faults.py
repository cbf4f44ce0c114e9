"""faults.md row 38, script by script, through the real SDKs of both providers: whatever the model
does, the person reads something, the calls are bounded, and the endpoint, which refuses what the
real one refuses, never gets a conversation that is not whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ohmo.contracts.messages import CallResult, ModelStep, ToolCall
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests, model
from ohmo.providers.middleware.link import Patience
from ohmo.providers.models import Endpoint
from ohmo.sessions import user_steps
from ohmo_testing.house import World, eventually, house
from tests.journeys.conftest import MakeWorld
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer, serving

WIRES = {"anthropic": "claude-sonnet-5-5", "openai": "local-1"}
KEPT = user_steps.waiting("x").split(" (")[0]
LOST = user_steps.failed("x").split(":")[0]
# what a conversation that is not whole would bring
MISTAKES = ("invalid_request_error", "refuses this request")


@dataclass
class Story:
    """A person, a house, and an endpoint that misbehaves."""

    life: World
    server: ModelServer
    built: Any

    async def says(self, text: str, hears: str) -> str:
        await self.life.platform.says(text)
        return (await self.life.hears(hears)).text

    async def steps(self) -> list[Any]:
        (info,) = [one for one in await self.built.store.threads() if one.address.channel == "fake"]
        steps = [step for _, step in await self.built.store.steps(info.thread, 0)]
        calls = [
            block.id
            for step in steps
            if isinstance(step, ModelStep)
            for block in step.blocks
            if isinstance(block, ToolCall)
        ]
        assert [
            step.result.call for step in steps if isinstance(step, CallResult)
        ].sort() == calls.sort()
        assert len(set(calls)) == len(calls)
        return steps

    async def asked(self) -> bool:
        return bool(await self.built.store.open_questions())

    async def settled(self) -> bool:
        return not await self.asked() or self.server.count > 2

    def whole(self) -> None:
        """The endpoint had nothing to complain about but what it was told to."""
        assert not [text for text in self.life.texts() if any(word in text for word in MISTAKES)]


@pytest.fixture(params=list(WIRES))
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def story(
    world: MakeWorld,
    wire: str,
    *turns: Any,
    always: Any = None,
    config: str = "",
    silence: float = 20.0,
) -> AsyncGenerator[Story]:
    """``silence``: seconds until an endpoint that says nothing is given up."""
    async with serving(
        ModelServer(turns, **({"default": always} if always is not None else {}))
    ) as server:
        endpoint = Endpoint(wire, (WIRES[wire],), server.url, "key", silence=silence, hints=False)
        brain = await model([endpoint], manifests(scan), load, {}, patience=Patience(first=0.001))
        life = world(brain=brain, config=config)
        async with house(life) as built:
            try:
                found = Story(life, server, built)
                yield found
                found.whole()
            finally:
                await brain.aclose()
                # the endpoint is no part of the house, but it lives in the same loop
                await eventually(nobody_is_connected)


def nobody_is_connected() -> bool:
    return not any("RequestHandler" in repr(task.get_coro()) for task in asyncio.all_tasks())


PASSING = {
    "429": Turn(status=429, retry_after=0.01),
    "529": Turn(status=529),
    "500": Turn(status=500),
    "time-out before the first token": Turn(delay=5),
    "stall in the stream": Turn(text="half of it", chunks=4, stall=4),
    "cut stream": Turn(text="half of it", chunks=4, cut=4),
    "empty answer": Turn(empty=True),
}
SILENT = {"time-out before the first token", "stall in the stream"}


@pytest.mark.parametrize("fault", PASSING)
async def test_a_fault_that_passes_is_not_seen(world: MakeWorld, wire: str, fault: str) -> None:
    async with story(world, wire, PASSING[fault], silence=1.0 if fault in SILENT else 20.0) as told:
        await told.says("hello", "echo: hello")
        assert told.server.count == 2
        assert told.life.texts() == ["echo: hello"]


@pytest.mark.parametrize("fault", [name for name in PASSING if name != "empty answer"])
async def test_a_fault_that_stays_is_said_after_four_calls_and_the_message_kept(
    world: MakeWorld, wire: str, fault: str
) -> None:
    async with story(
        world, wire, always=lambda _: PASSING[fault], silence=0.25 if fault in SILENT else 20.0
    ) as told:
        await told.says("hello", KEPT)
        assert told.server.count == 4
        assert (await told.built.store.audit_report()).problems == ()


async def test_answers_that_stay_empty_end_visibly_after_four_calls(
    world: MakeWorld, wire: str
) -> None:
    async with story(world, wire, always=lambda _: Turn(empty=True)) as told:
        assert "empty answer" in await told.says("hello", LOST)
        assert told.server.count == 4


async def test_a_refusal_is_said_and_not_asked_again(world: MakeWorld, wire: str) -> None:
    stop = "refusal" if wire == "anthropic" else "content_filter"
    async with story(world, wire, Turn(empty=True, stop=stop)) as told:
        await told.says("hello", "declined to answer")
        assert told.server.count == 1


ODD = {
    "wrong tool name": (Call("read_file", {"file_path": "a"}),),
    "invalid JSON arguments": (Call("Read", '{"file_path": "a'),),
    "arguments that do not fit": (Call("Read", {"path": 3}),),
    "duplicate tool ids": (
        Call("Glob", {"pattern": "*"}, id="x"),
        Call("Glob", {"pattern": "*.md"}, id="x"),
    ),
}


@pytest.mark.parametrize("oddity", ODD)
async def test_an_odd_call_is_answered_and_the_turn_goes_on(
    world: MakeWorld, wire: str, oddity: str
) -> None:
    async with story(
        world, wire, Turn(calls=ODD[oddity]), Turn(calls=ODD[oddity]), Turn(text="I see.")
    ) as told:
        await told.says("hello", "I see.")
        assert told.server.count == 3
        results = [step.result for step in await told.steps() if isinstance(step, CallResult)]
        assert len(results) == 2 * len(ODD[oddity])
        assert all(result.error for result in results) == (oddity != "duplicate tool ids")


async def test_two_hundred_parallel_calls_are_answered_in_their_order(
    world: MakeWorld, wire: str
) -> None:
    many = tuple(Call("Glob", {"pattern": f"{number}-*"}) for number in range(200))
    async with story(world, wire, Turn(calls=many), Turn(text="All looked at.")) as told:
        await told.says("hello", "All looked at.")
        assert told.server.count == 2
        steps = await told.steps()
        assert sum(isinstance(step, CallResult) for step in steps) == 200
        assert "199-*" in told.server.asked[1].raw.decode()


async def test_the_same_call_with_the_same_result_ends_the_turn_at_the_fifth_time(
    world: MakeWorld, wire: str
) -> None:
    """G12. The model is warned from the third time on."""
    async with story(
        world, wire, always=lambda _: Turn(calls=(Call("Glob", {"pattern": "*"}),))
    ) as told:
        assert "again and again" in await told.says("hello", LOST)
        assert told.server.count == 5
        hints = [
            "This same call has now given" in step.result.text
            for step in await told.steps()
            if isinstance(step, CallResult)
        ]
        assert hints == [False, False, True, True, True]


async def test_a_loop_that_varies_ends_at_the_limit_of_calls(world: MakeWorld, wire: str) -> None:
    def varied(asked: Asked) -> Turn:
        return Turn(calls=(Call("Glob", {"pattern": f"{len(asked.body['messages'])}*"}),))

    async with story(world, wire, always=varied, config="limits: {max_steps: 7}\n") as told:
        assert "the limit of 7 model calls" in await told.says("hello", LOST)
        assert told.server.count == 7


async def test_a_turn_that_was_interrupted_gets_no_more_calls_than_one_that_was_not(
    world: MakeWorld, wire: str
) -> None:
    """Every question parks the turn, and every answer begins a new run of it."""

    def asks(asked: Asked) -> Turn:
        return Turn(
            calls=(
                Call("Write", {"file_path": f"{len(asked.body['messages'])}.txt", "content": "x"}),
            )
        )

    async with story(world, wire, always=asks, config="limits: {max_steps: 3}\n") as told:
        await told.life.platform.says("hello")
        for _ in range(2):
            await eventually(told.asked)
            await told.life.platform.says("/approve")
            await eventually(told.settled)
        await told.life.hears("the limit of 3 model calls")
        assert told.server.count == 3


LONG = " and so on" * 200
WORDINGS = [
    "prompt is too long: 215000 tokens > 200000 maximum",
    (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in"
        " 9001 tokens."
    ),
    "the request exceeds the available context size, try increasing it",
    (
        "Trying to keep the first 9001 tokens when context the overflows. The model is loaded with"
        " context length of only 4096 tokens"
    ),
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Input is too long for requested model.",
]


@pytest.mark.parametrize("wording", WORDINGS)
async def test_an_overflow_leaves_out_the_oldest_and_asks_again_whatever_it_is_called(
    world: MakeWorld, wire: str, wording: str
) -> None:
    async with story(world, wire) as told:
        await told.says(f"the first thing{LONG}", "echo: the first thing")
        await told.says(f"the second thing{LONG}", "echo: the second thing")
        told.server.next(Turn(status=400, message=wording))
        await told.says(f"the third thing{LONG}", "echo: the third thing")
        assert told.server.count == 4
        assert "the first thing" in told.server.asked[2].raw.decode()
        assert f"the first thing{LONG}" not in told.server.asked[3].raw.decode()
        await told.life.hears(user_steps.LEFT_OUT[:40])
        # nothing is deleted
        assert sum(isinstance(step, ModelStep) for step in await told.steps()) == 3


async def test_what_can_never_fit_ends_visibly(world: MakeWorld, wire: str) -> None:
    async with story(world, wire, always=lambda _: Turn(status=400, message=WORDINGS[0])) as told:
        assert "longer than the model's window" in await told.says("hello", LOST)
        assert told.server.count <= 4
