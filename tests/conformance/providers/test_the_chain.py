"""A profile as the assembly builds it, against scripted servers: faults.md row 38, one line per
test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import get_args

import aiohttp
import pytest

from ohmo.config.agent import CHAIN
from ohmo.contracts.errors import CutOff, OhmoError, Overloaded, TooLong
from ohmo.contracts.messages import Text, ToolCall
from ohmo.contracts.provider import Delta, ModelEvent, Notice, Purpose, Reply, Restarted
from ohmo.discovery import load, scan
from ohmo.providers.build import Model, manifests, model
from ohmo.providers.middleware.link import Patience
from ohmo.providers.models import Endpoint
from tests.conformance.providers.rigs import Conversation
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer, serving
from tests.programs import server

QUICK = Patience(first=0.001)


@asynccontextmanager
async def house(
    wire: str, turns: Sequence[Turn], fallback: Sequence[Turn] | None = None
) -> AsyncIterator[tuple[Model, ModelServer, ModelServer]]:
    async with serving(ModelServer(turns)) as one, serving(ModelServer(fallback or ())) as two:
        wanted = [Endpoint(wire, ("m-1",), one.url, "key", silence=0.5, hints=False)]
        if fallback is not None:
            wanted.append(Endpoint("openai", ("m-2",), two.url, "key", profile="spare"))
        made = await model(wanted, manifests(scan), load, {}, patience=QUICK)
        await made.warm()
        try:
            yield made, one, two
        finally:
            await made.aclose()


async def said(made: Model) -> tuple[str, list[ModelEvent]]:
    """The final text and every event; what was shown since the last new beginning is the final
    text."""
    events = [event async for event in made.call(Conversation(made.model).says("hello"))]
    assert [event for event in events if isinstance(event, Reply)] == [events[-1]]
    assert isinstance(events[-1], Reply)
    text = "".join(block.text for block in events[-1].step.blocks if isinstance(block, Text))
    begun = max(
        (number for number, event in enumerate(events) if isinstance(event, Restarted)), default=-1
    )
    assert "".join(event.text for event in events[begun + 1 :] if isinstance(event, Delta)) == text
    return text, events


PASSING = {
    "429": Turn(status=429, retry_after=0.01),
    "529": Turn(status=529),
    "500": Turn(status=500),
    "no first byte": Turn(delay=5),
    "a stall in the stream": Turn(text="half of it", chunks=4, stall=4),
    "a cut stream": Turn(text="half of it", chunks=4, cut=4),
    "an empty answer": Turn(empty=True),
    "an error in the stream": Turn(text="half", status=529, in_stream=True, kind="server_error"),
}


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.parametrize("fault", PASSING)
async def test_a_fault_that_passes_costs_one_more_call(wire: str, fault: str) -> None:
    turn = PASSING[fault]
    if wire == "anthropic" and turn.in_stream:
        turn = Turn(text="half", status=529, in_stream=True)
    async with house(wire, [turn]) as (made, server, _):
        text, events = await said(made)
        assert text == "echo: hello"
        assert server.count == 2
        assert any(isinstance(event, Restarted) for event in events) == ("stream" in fault)


async def test_a_fault_that_stays_ends_after_four_calls_and_then_asks_the_spare_profile() -> None:
    async with house("anthropic", [Turn(status=529)] * 9, [Turn(text="spare here")]) as (
        made,
        one,
        two,
    ):
        text, events = await said(made)
        assert text == "spare here"
        assert (one.count, two.count) == (4, 1)
        assert two.asked[0].body["model"] == "m-2"
        assert any(
            isinstance(event, Notice) and "Asking openai m-2 instead" in event.line
            for event in events
        )


async def test_a_limit_of_an_hour_is_nobodys_wait_but_the_spare_profiles_work() -> None:
    turns = [Turn(status=429, retry_after=3_600)]
    async with house("openai", turns, [Turn(text="spare here")] * 2) as (made, one, two):
        for asked in (1, 2):
            text, events = await said(made)
            assert (text, one.count, two.count) == ("spare here", 1, asked)
    assert any(
        isinstance(event, Notice)
        and event.line.startswith("m-1: its rate limit is used up for 3")
        and event.line.endswith("Asking openai m-2 instead.")
        for event in events
    )


async def test_calls_of_every_purpose_go_through_the_order_that_is_asked_for() -> None:
    order = [name for name in CHAIN if name not in ("retry", "rate")]
    async with serving(ModelServer(default=lambda _: Turn(status=500))) as one:
        wanted = [Endpoint("openai", ("m-1", "m-2"), one.url, "key", hints=False)]
        made = await model(wanted, manifests(scan), load, {}, patience=QUICK, order=order)
        for number, purpose in enumerate(get_args(Purpose), 1):
            request = replace(Conversation("m-2").says("hello"), purpose=purpose)
            with pytest.raises(Overloaded):
                _ = [event async for event in made.call(request)]
            assert one.count == number
        await made.aclose()
    asked = [request.body["model"] for request in one.asked]
    assert asked == ["m-2", "m-1", "m-1", *["m-2"] * 5]


async def test_without_a_spare_profile_the_error_says_what_it_was() -> None:
    async with house("openai", [Turn(status=500, message="kaputt")] * 9) as (made, one, _):
        with pytest.raises(Overloaded, match="kaputt"):
            await said(made)
        assert one.count == 4


async def test_answers_that_stay_empty_end_as_cut_off() -> None:
    async with house("anthropic", [Turn(empty=True)] * 9) as (made, one, _):
        with pytest.raises(CutOff, match="empty answer"):
            await said(made)
        assert one.count == 4


@pytest.mark.parametrize(
    "turn",
    [
        Turn(status=401),
        Turn(status=404),
        Turn(status=400, message="prompt is too long: 9 tokens > 8 maximum"),
    ],
)
async def test_what_cannot_pass_is_called_once(turn: Turn) -> None:
    async with house("anthropic", [turn]) as (made, one, _):
        with pytest.raises(OhmoError):
            await said(made)
        assert one.count == 1


async def test_an_overflow_is_not_carried_to_the_spare_profile_but_to_whoever_can_shrink() -> None:
    async with house(
        "openai",
        [Turn(status=400, message="maximum context length is 10 tokens")],
        [Turn(text="no")],
    ) as (made, _, two):
        with pytest.raises(TooLong):
            await said(made)
        assert two.count == 0


async def test_a_refusal_is_visible() -> None:
    async with house("anthropic", [Turn(empty=True, stop="refusal")]) as (made, _, _two):
        events = [event async for event in made.call(Conversation("m-1").says("hello"))]
        assert isinstance(events[-1], Reply)
        assert events[-1].step.stop == "refusal"
        assert events[-1].step.blocks == (Text("The model declined to answer this."),)


async def test_wrong_names_broken_arguments_and_doubled_ids_end_as_calls_the_house_can_answer() -> (
    None
):
    turn = Turn(
        calls=(
            Call("read", '{"file_path": "a",}', id="x"),
            Call("bash", '{"command": "ls', id="x"),
            Call("Fly", "{}", id="x"),
        )
    )
    async with house("anthropic", [turn]) as (made, _, _two):
        talk = Conversation("m-1")
        *_, last = [event async for event in made.call(talk.says("go"))]
        assert isinstance(last, Reply)
        calls = [block for block in last.step.blocks if isinstance(block, ToolCall)]
        assert [(call.foreign, call.name) for call in calls] == [
            ("x", "Read"),
            ("x", "Bash"),
            ("x", "Fly"),
        ]
        assert len({call.id for call in calls}) == 3
        assert calls[0].arguments == {"file_path": "a"}
        assert calls[1].arguments == {"unreadable_arguments": '{"command": "ls'}
        for call in talk.takes(last.step):
            talk.result(call, "error", error=True)
        *_, after = [event async for event in made.call(talk.request())]
        assert isinstance(after, Reply)


async def test_the_server_in_a_process_of_its_own_prints_its_port_and_takes_a_script() -> None:
    script = json.dumps([{"text": "first"}])
    async with server("tests.platforms.model", "--port", "0", "--script", script) as line:
        url = f"http://127.0.0.1:{int(line)}"
        made = await model([Endpoint("openai", ("m",), url)], manifests(scan), load, {})
        async with aiohttp.ClientSession() as session:
            await session.post(f"{url}/_script", json=[Turn(text="second").to_json()])
            assert [(await said(made))[0] for _ in range(3)] == ["first", "second", "echo: hello"]
            asked = await (await session.get(f"{url}/_asked")).json()
        assert len(asked) == 3
        await made.aclose()
