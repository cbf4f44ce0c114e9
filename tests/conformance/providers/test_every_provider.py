"""What every provider must do, over its own wire, with the real SDK."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from ohmo.contracts.errors import (
    BadKey,
    CutOff,
    NoSuchModel,
    NotAllowed,
    OutOfReach,
    Overloaded,
    ProviderError,
    Refused,
    TimedOut,
    TooLong,
)
from ohmo.contracts.messages import ModelStep, Text, Thinking, ToolCall
from ohmo.contracts.provider import Billed, Delta, ModelEvent, Reply
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests
from ohmo.providers.lazy_provider import LazyProvider
from tests.conformance.providers.rigs import Conversation, Rig, endpoint_for, rig, shared_prefix
from tests.platforms.model.script import Call, Turn

WIRES = ("anthropic", "openai", "responses")


async def until(met: Callable[[], bool], limit: float = 5.0) -> None:
    async with asyncio.timeout(limit):
        while not met():
            await asyncio.sleep(0.005)


@pytest.fixture(params=WIRES)
async def wired(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with rig(request.param) as made:
        yield made


@pytest.fixture(params=(*WIRES, "offline"))
async def any_provider(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with rig(request.param) as made:
        yield made


async def test_an_answer_is_deltas_and_then_exactly_one_reply_with_the_same_text(
    any_provider: Rig,
) -> None:
    talk = Conversation(any_provider.model)
    events: list[ModelEvent] = [
        event async for event in any_provider.provider.stream(talk.says("hello"))
    ]
    replies = [event for event in events if isinstance(event, Reply)]
    assert replies == [events[-1]]
    text = "".join(block.text for block in replies[0].step.blocks if isinstance(block, Text))
    assert "".join(event.text for event in events if isinstance(event, Delta)) == text
    assert text
    assert replies[0].step.stop == "end"


async def test_an_answer_is_shown_while_it_is_being_written(wired: Rig) -> None:
    wired.server.next(Turn(text="one two three", chunks=3, stall=4))
    stream = wired.provider.stream(Conversation(wired.model).says("hello"))
    shown = await anext(event async for event in stream if isinstance(event, Delta))
    assert shown.text == "one t"
    await stream.aclose()  # type: ignore[attr-defined]


async def test_what_an_answer_takes_is_told_before_its_reply(wired: Rig) -> None:
    wired.server.next(Turn(text="one", usage={"output_tokens": 77}))
    said = wired.provider.stream(Conversation(wired.model).says("hello"))
    events = [event async for event in said]
    billed = [event.usage for event in events if isinstance(event, Billed)]
    assert isinstance(events[-1], Reply)
    assert billed[-1] == events[-1].usage
    assert billed[-1].tokens == wired.server.billed


async def test_a_tool_round_trip_is_accepted_by_the_endpoint(any_provider: Rig) -> None:
    any_provider.server.next(
        Turn(text="let me look", calls=(Call("Read", {"file_path": "README.md"}),))
    )
    talk = Conversation(any_provider.model)
    step = (await any_provider.ask(talk.says("run Read file_path=README.md"))).step
    (call,) = talk.takes(step)
    assert (step.stop, call.name, call.arguments) == ("tools", "Read", {"file_path": "README.md"})
    answer = (await any_provider.ask(talk.result(call, "# ohmo"))).step
    assert answer.stop == "end"


async def test_two_hundred_parallel_calls_are_answered_in_call_order(wired: Rig) -> None:
    wired.server.next(
        Turn(calls=tuple(Call("Read", {"file_path": str(number)}) for number in range(200)))
    )
    talk = Conversation(wired.model)
    calls = talk.takes((await wired.ask(talk.says("read all"))).step)
    assert [call.arguments["file_path"] for call in calls] == [str(number) for number in range(200)]
    for call in reversed(calls):
        talk.result(call, "content " + str(call.arguments["file_path"]))
    await wired.ask(talk.says("and a word said meanwhile"))
    body = wired.server.asked[-1].body
    match wired.wire:
        case "anthropic":
            blocks = body["messages"][2]["content"]
            texts = [each["content"][0]["text"] for each in blocks if each["type"] == "tool_result"]
        case "openai":
            texts = [each["content"] for each in body["messages"] if each["role"] == "tool"]
        case _:
            texts = [each["output"] for each in body["input"] if "output" in each]
    assert texts == [f"content {number}" for number in range(200)]


async def test_a_model_that_reuses_its_call_ids_still_gets_a_valid_conversation(wired: Rig) -> None:
    talk = Conversation(wired.model)
    talk.says("go")
    for _ in range(3):
        wired.server.next(Turn(calls=(Call("Read", {"file_path": "a"}, id="call_0"),)))
        (call,) = talk.takes((await wired.ask(talk.request())).step)
        talk.result(call, "a")
    assert (await wired.ask(talk.request())).step.stop == "end"


async def test_a_call_without_a_recorded_result_and_a_result_without_its_call_do_not_break_the_request(
    wired: Rig,
) -> None:
    wired.server.next(
        Turn(calls=(Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"})))
    )
    talk = Conversation(wired.model)
    first, _ = talk.takes((await wired.ask(talk.says("go"))).step)
    talk.result(first, "a")
    talk.result(ToolCall("0mgone.1", "Read", {}, "gone"), "left over")
    assert (await wired.ask(talk.request())).step.stop == "end"


async def test_what_is_said_without_words_does_not_break_the_request(wired: Rig) -> None:
    talk = Conversation(wired.model)
    talk.says("  ")
    talk.takes(ModelStep((), wired.model, "length"))
    talk.takes(ModelStep((Text("\n"),), wired.model, "end"))
    talk.says("x\ud800y")
    assert (await wired.ask(talk.request())).step.stop == "end"
    talk.takes(ModelStep((Text("half"),), wired.model, "length"))
    # a conversation that ends with the model goes on
    assert (await wired.ask(talk.request())).step.stop == "end"


ERRORS = [
    (Turn(status=429, retry_after=7, message="slow down"), Overloaded),
    (Turn(status=529), Overloaded),
    (Turn(status=500), Overloaded),
    (Turn(status=503), Overloaded),
    (Turn(status=408), TimedOut),
    (Turn(status=401, message="invalid x-api-key"), BadKey),
    (Turn(status=403, message="not allowed"), NotAllowed),
    (Turn(status=404, message="model: nope"), NoSuchModel),
    (Turn(status=413, message="Request exceeds the maximum size"), TooLong),
    (Turn(status=400, message="prompt is too long: 215000 tokens > 200000 maximum"), TooLong),
    (
        Turn(
            status=400,
            kind="context_length_exceeded",
            message="This model's maximum context length is 8192 tokens.",
        ),
        TooLong,
    ),
    (Turn(status=400, message="something else is wrong"), Refused),
    (Turn(status=200, text="half", chunks=4, cut=3), CutOff),
    (Turn(status=200, text="half", no_end=True, stop=""), CutOff),
]


@pytest.mark.parametrize(
    ("turn", "expected"),
    ERRORS,
    ids=[f"{turn.status}-{expected.__name__}-{n}" for n, (turn, expected) in enumerate(ERRORS)],
)
async def test_errors_come_as_the_class_that_says_what_to_do(
    wired: Rig, turn: Turn, expected: type[ProviderError]
) -> None:
    if turn.no_end and wired.wire == "openai":
        turn = Turn(text="half", cut=4, chunks=2)
    wired.server.next(turn)
    with pytest.raises(ProviderError) as caught:
        await wired.ask(Conversation(wired.model).says("hello"))
    assert type(caught.value) is expected
    assert "\n" not in str(caught.value)
    if turn.retry_after is not None:
        assert isinstance(caught.value, Overloaded)
        assert caught.value.retry_after == turn.retry_after


async def test_an_error_inside_a_stream_that_began_well_has_its_class_too(wired: Rig) -> None:
    kind = "overloaded_error" if wired.provider.name == "anthropic" else "server_error"
    wired.server.next(Turn(text="half", status=529, in_stream=True, kind=kind))
    with pytest.raises(Overloaded):
        await wired.ask(Conversation(wired.model).says("hello"))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "turn",
    [Turn(delay=30), Turn(text="half of it", stall=3)],
    ids=["before the first byte", "in the middle"],
)
async def test_silence_is_a_time_out(wire: str, turn: Turn) -> None:
    async with rig(wire, silence=0.3) as made:
        made.server.next(turn)
        with pytest.raises(TimedOut):
            await made.ask(Conversation(made.model).says("hello"))


@pytest.mark.parametrize("wire", WIRES)
async def test_an_endpoint_that_is_not_there_is_a_time_out_that_names_it(wire: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        provider = LazyProvider(
            manifests(scan)[{"responses": "openai"}.get(wire, wire)],
            endpoint_for(wire, f"http://127.0.0.1:{taken.getsockname()[1]}"),
            load,
        )
        with pytest.raises(
            OutOfReach, match=r"127\.0\.0\.1.*cannot be reached \(the connection is refused"
        ):
            async for _ in provider.stream(Conversation("m").says("hello")):
                pass
        await provider.aclose()


async def test_a_cancelled_call_leaves_no_open_connection(wired: Rig) -> None:
    wired.server.next(Turn(text="a long story", chunks=10, stall=4))
    task = asyncio.create_task(wired.ask(Conversation(wired.model).says("hello")))
    await until(lambda: wired.server.open == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: wired.server.open == 0)
    assert wired.server.dropped == 1


async def test_a_stream_that_is_left_early_leaves_no_open_connection(wired: Rig) -> None:
    wired.server.next(Turn(text="a long story", chunks=10, stall=4))
    stream = wired.provider.stream(Conversation(wired.model).says("hello"))
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    await until(lambda: wired.server.open == 0)


async def test_ninety_nine_hundredths_of_a_request_are_the_prefix_of_the_next_over_thirty_turns(
    wired: Rig,
) -> None:
    talk = Conversation(wired.model)
    for number in range(30):
        if number % 3 == 0:
            wired.server.next(
                Turn(
                    text="looking", thinking="hm", calls=(Call("Read", {"file_path": f"{number}"}),)
                )
            )
            for call in talk.takes((await wired.ask(talk.says(f"look at {number}"))).step):
                talk.result(call, "line\n" * 200)
            talk.takes((await wired.ask(talk.request())).step)
        else:
            talk.takes((await wired.ask(talk.says(f"question {number}"))).step)
    bodies = [asked.raw for asked in wired.server.asked]
    assert len(bodies) == 40
    for before, after in itertools.pairwise(bodies):
        assert shared_prefix(before, after) / len(before) >= 0.99


async def test_a_turn_late_in_a_conversation_turns_no_more_steps_into_bytes_than_an_early_one(
    wired: Rig,
) -> None:
    client = await wired.provider.client()
    talk = Conversation(wired.model)
    work: dict[int, int] = {}
    for number in range(1, 501):
        request = talk.says(f"question {number}")
        before = await wired.rendered()
        await client.rendering(request)  # type: ignore[attr-defined]
        talk.takes(ModelStep((Text(f"answer {number}"),), wired.model, "end"))
        work[number] = await wired.rendered() - before
    assert work[500] == work[20] == 2  # the answer before and the new question
    assert sum(work.values()) == 999
    assert client.rendering.heads.built == 1  # type: ignore[attr-defined]


async def test_the_same_conversation_read_again_from_the_store_gives_the_same_bytes(
    wired: Rig,
) -> None:
    talk = Conversation(wired.model)
    wired.server.next(
        Turn(text="looking", thinking="hm", calls=(Call("Read", {"file_path": "a"}),))
    )
    for call in talk.takes((await wired.ask(talk.says("go"))).step):
        talk.result(call, "content")
    await wired.ask(talk.request())
    async with rig(wired.wire) as other:
        await other.ask(talk.request())
        assert other.server.asked[-1].raw == wired.server.asked[-1].raw


async def test_thinking_goes_back_byte_for_byte_and_only_to_who_made_it() -> None:
    async with rig("anthropic") as claude, rig("openai") as other:
        claude.server.next(Turn(thinking='so "it" \\ ist', text="well"))
        talk = Conversation(claude.model)
        step = (await claude.ask(talk.says("hello"))).step
        (thought,) = [block for block in step.blocks if isinstance(block, Thinking)]
        talk.takes(step)
        await claude.ask(talk.says("and?"))
        assert thought.opaque.encode() in claude.server.asked[-1].raw
        await other.ask(talk.request())
        assert b"thinking" not in other.server.asked[-1].raw


async def test_usage_is_counted(wired: Rig) -> None:
    wired.server.next(Turn(text="hi", usage={"output_tokens": 50, "cache_read_input_tokens": 10}))
    usage = (await wired.ask(Conversation(wired.model).says("hello"))).usage
    assert (usage.model, usage.purpose, usage.output, usage.cached) == (wired.model, "turn", 50, 10)
    assert usage.input > 0
    assert usage.micro_usd is None  # the chain adds what it cost


async def test_a_window_told_in_an_overflow_error_is_remembered(wired: Rig) -> None:
    wired.server.next(
        Turn(
            status=400,
            message=(
                "This model's maximum context length is 8192 tokens. However, you requested 9000"
                " tokens"
            ),
        )
    )
    with pytest.raises(TooLong):
        await wired.ask(Conversation(wired.model).says("hello"))
    assert wired.provider.window(wired.model) == 8192
