"""The chain around a model call, with scripted calls and a clock that stands still."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.ambient import IdSource
from ohmo.contracts.errors import (
    BadKey,
    CutOff,
    Empty,
    NoSuchModel,
    Overloaded,
    ProviderError,
    Refused,
    TimedOut,
    TooLong,
)
from ohmo.contracts.messages import (
    UNREADABLE,
    CallResult,
    Json,
    ModelStep,
    Step,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserStep,
)
from ohmo.contracts.provider import (
    Began,
    Call,
    Delta,
    ModelEvent,
    ModelRequest,
    Notice,
    Reply,
    Restarted,
    ToolSpec,
)
from ohmo.providers.middleware.fallback import fallback
from ohmo.providers.middleware.judgement import judge, tool_name
from ohmo.providers.middleware.link import Alternative, Patience, linked
from ohmo.providers.middleware.recovery import RECOVERY, Fault, fault_of
from ohmo.providers.middleware.repair import DECLINED, Repair
from ohmo.providers.middleware.retry import retry
from ohmo.providers.middleware.unprefixed import unprefixed
from ohmo.providers.middleware.waiting import waiting
from ohmo.providers.wire_parts import says_something

REQUEST = ModelRequest(
    "m-1", (), (ToolSpec("Read", "", {}), ToolSpec("WebFetch", "", {})), (), 100, None, "turn"
)
USAGE = Usage("m-1", "turn", 1, 0, 0, 1, 0)


def reply(*blocks: Text | Thinking | ToolCall, stop: str = "end") -> Reply:
    return Reply(ModelStep(blocks or (Text("done"),), "m-1", stop), USAGE)  # type: ignore[arg-type]


class Scripted:
    """One list of events per call; an error in the list is raised there."""

    def __init__(self, *answers: Sequence[ModelEvent | ProviderError]) -> None:
        self.answers = list(answers)
        self.models: list[str] = []
        self.closed = 0

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.models.append(request.model)
        try:
            for item in self.answers.pop(0):
                if isinstance(item, ProviderError):
                    raise item
                yield item
        finally:
            self.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def patience(self) -> Patience:
        return Patience(sleep=self.sleep, clock=lambda: self.now, jitter=lambda: 1.0)


async def collect(call: Call) -> list[ModelEvent]:
    return [event async for event in call(REQUEST)]


@pytest.mark.parametrize("error", [Overloaded(), TimedOut(), CutOff()])
async def test_what_may_pass_is_tried_again(error: ProviderError) -> None:
    clock, model = Clock(), Scripted([error], [reply()])
    assert (await collect(linked([retry(clock.patience())], model)))[-1] == reply()
    assert clock.slept == [1.0]


@pytest.mark.parametrize("error", [TooLong(), Refused(), BadKey()])
async def test_what_cannot_pass_is_not_tried_again(error: ProviderError) -> None:
    model = Scripted([error], [reply()])
    with pytest.raises(type(error)):
        await collect(linked([retry(Clock().patience())], model))
    assert len(model.models) == 1


async def test_four_tries_are_all() -> None:
    clock, model = Clock(), Scripted(*[[Overloaded("busy")] for _ in range(9)])
    with pytest.raises(Overloaded):
        await collect(linked([retry(clock.patience())], model))
    assert len(model.models) == 4
    assert clock.slept == [1.0, 2.0, 4.0]


async def test_the_endpoints_own_wait_is_honoured_and_told() -> None:
    clock, model = Clock(), Scripted([Overloaded("busy", retry_after=17)], [reply()])
    events = await collect(linked([retry(clock.patience())], model))
    assert clock.slept == [17]
    assert [event.line for event in events if isinstance(event, Notice)] == [
        "busy Trying again in 17 s (2 of 4)."
    ]


async def test_no_try_begins_after_the_deadline() -> None:
    clock, model = (
        Clock(),
        Scripted([Overloaded(retry_after=400)], [Overloaded(retry_after=400)], [reply()]),
    )
    with pytest.raises(Overloaded):
        await collect(linked([retry(clock.patience())], model))
    assert clock.slept == [400]


async def test_time_before_anything_was_tried_is_no_time_of_trying() -> None:
    clock = Clock()
    model = Scripted([Overloaded("503")], [reply()])

    async def queueing(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        clock.now += 700 if not model.models else 0
        async for event in model(request):
            yield event

    assert (await collect(linked([retry(clock.patience())], queueing)))[-1] == reply()
    assert clock.slept == [1.0]


async def test_an_answer_that_takes_longer_than_the_deadline_is_not_asked_for_again() -> None:
    clock = Clock()

    async def slow(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        clock.now += 700
        yield Began()
        clock.now += 601
        raise CutOff

    with pytest.raises(CutOff):
        await collect(linked([retry(clock.patience())], slow))
    assert clock.slept == []


async def test_a_short_name_that_is_refused_too_is_not_taken_for_the_right_one() -> None:
    names: list[str] = []

    async def refusing(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        names.append(request.model)
        yield Began()
        raise NoSuchModel

    call = linked([unprefixed()], refusing)
    for _ in range(2):
        with pytest.raises(NoSuchModel):
            _ = [event async for event in call(replace(REQUEST, model="a/b"))]
    assert names == ["a/b", "b"] * 2


async def test_an_answer_that_begins_anew_says_so_and_an_unbegun_one_does_not() -> None:
    model = Scripted([CutOff()], [Delta("ha"), CutOff()], [Delta("hello"), reply()])
    events = [
        event
        for event in await collect(linked([retry(Clock().patience())], model))
        if not isinstance(event, Notice)
    ]
    assert events == [Delta("ha"), Restarted(), Delta("hello"), reply()]


async def test_a_notice_and_a_new_beginning_are_no_text() -> None:
    for event in (Notice("wait"), Restarted()):
        assert not isinstance(event, Delta)
        assert not says_something(event)
    assert [says_something(event) for event in (Delta(""), Delta("a"))] == [False, True]


async def test_the_next_profile_is_asked_with_its_own_model_and_the_person_is_told() -> None:
    first, second = Scripted([Delta("ha"), BadKey("no key.")]), Scripted([reply()])
    events = await collect(linked([fallback([Alternative(second, "two", "m-2")])], first))
    assert events == [Delta("ha"), Restarted(), Notice(line="no key. Asking two instead."), reply()]
    assert (first.models, second.models) == (["m-1"], ["m-2"])


@pytest.mark.parametrize("error", [TooLong(), Refused()])
async def test_a_request_that_is_wrong_by_itself_is_not_carried_to_the_next_profile(
    error: ProviderError,
) -> None:
    second = Scripted([reply()])
    with pytest.raises(type(error)):
        await collect(linked([fallback([Alternative(second, "two")])], Scripted([error])))
    assert second.models == []


async def test_the_last_profiles_error_is_the_error() -> None:
    with pytest.raises(BadKey):
        await collect(
            linked([fallback([Alternative(Scripted([BadKey()]), "two")])], Scripted([TimedOut()]))
        )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Read", "Read"),
        ("read", "Read"),
        ("functions.Read", "Read"),
        ("web_fetch", "WebFetch"),
        ("Web-Fetch", "WebFetch"),
        ("readfile", "readfile"),
        ("", ""),
    ],
)
def test_tool_names_are_put_right_only_when_there_is_no_doubt(said: str, meant: str) -> None:
    assert tool_name(said, ["Read", "WebFetch", "Write"]) == meant


async def test_every_call_gets_an_id_of_the_house_and_keeps_the_models() -> None:
    calls = tuple(ToolCall("a", "read", {"n": number}, "a") for number in range(3))
    ids = iter(["id1", "id2", "id3"])
    step = (
        await collect(linked([Repair(lambda: next(ids))], Scripted([reply(*calls, stop="tools")])))
    )[-1]
    assert isinstance(step, Reply)
    assert [
        (block.id, block.foreign, block.name)
        for block in step.step.blocks
        if isinstance(block, ToolCall)
    ] == [("id1", "a", "Read"), ("id2", "a", "Read"), ("id3", "a", "Read")]


@pytest.mark.parametrize("blocks", [(Text(" \n"),), (Thinking("anthropic", "{}"),)])
async def test_an_empty_answer_is_a_cut_off_one(blocks: tuple[Text | Thinking, ...]) -> None:
    with pytest.raises(CutOff):
        await collect(linked([Repair(IdSource())], Scripted([reply(*blocks)])))


async def test_a_refusal_without_words_is_made_visible_and_its_thinking_is_kept() -> None:
    thought = Thinking("anthropic", "{}")
    (event,) = await collect(
        linked([Repair(IdSource())], Scripted([reply(thought, stop="refusal")]))
    )
    assert isinstance(event, Reply)
    assert event.step.blocks == (thought, Text(DECLINED))


def opened_by(gate: asyncio.Event) -> Call:
    async def call(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await gate.wait()
        yield Delta("at last")
        yield reply()

    return call


async def test_a_person_hears_that_the_model_is_silent_and_then_the_answer_whole() -> None:
    gate = asyncio.Event()
    events = waiting(first=0.01, then=0.01)(REQUEST, opened_by(gate))
    first = await anext(events)
    assert isinstance(first, Notice)
    assert "m-1 has not answered" in first.line
    gate.set()
    rest = [event async for event in events if not isinstance(event, Notice)]
    assert rest == [Delta("at last"), reply()]


async def test_silence_after_a_notice_or_a_new_beginning_is_told_again() -> None:
    gates = [asyncio.Event(), asyncio.Event()]

    async def call(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield Notice(line="overloaded")
        await gates[0].wait()
        yield Delta("ha")
        yield Restarted()
        await gates[1].wait()
        yield reply()

    told = 0
    async for event in waiting(first=0.01, then=0.01)(REQUEST, call):
        if isinstance(event, Notice) and "not answered" in event.line and not gates[told].is_set():
            gates[told].set()
            told = min(told + 1, 1)
    assert all(gate.is_set() for gate in gates)


async def test_who_stops_waiting_leaves_nothing_running() -> None:
    model: list[str] = []

    async def call(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            await asyncio.Event().wait()
            yield Delta("never")
        finally:
            model.append("closed")

    task = asyncio.create_task(collect(linked([waiting()], call)))
    while not [each for each in asyncio.all_tasks() if each not in (task, asyncio.current_task())]:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model == ["closed"]


async def test_every_piece_closes_the_call_it_leaves() -> None:
    pieces = [retry(Clock().patience()), Repair(IdSource()), waiting(), fallback([])]
    for piece in pieces:
        model = Scripted([Delta("a"), Delta("b"), reply()])
        events = piece(REQUEST, model)
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]
        assert model.closed == 1


@pytest.mark.parametrize(
    ("error", "fault", "tries", "elsewhere"),
    [
        (Empty(), Fault.EMPTY, 2, True),
        (Overloaded(), Fault.OVERLOAD, 2, True),
        (TimedOut(), Fault.OVERLOAD, 2, True),
        (CutOff(), Fault.OVERLOAD, 2, True),
        (TooLong(), Fault.OVERFLOW, 1, False),
        (Refused(), Fault.REFUSAL, 1, False),
        (BadKey(), Fault.UNUSABLE, 1, True),
    ],
)
async def test_each_class_of_error_has_its_row(
    error: ProviderError, fault: Fault, tries: int, *, elsewhere: bool
) -> None:
    first, second = Scripted(*[[error] for _ in range(4)]), Scripted([reply()])
    patience = replace(Clock().patience(), tries=2)
    chain = linked([fallback([Alternative(second, "two")]), retry(patience)], first)
    if elsewhere:
        assert (await collect(chain))[-1] == reply()
    else:
        with pytest.raises(type(error)):
            await collect(chain)
    assert fault_of(error) is fault
    assert (len(first.models), len(second.models)) == (tries, int(elsewhere))


SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}},
    "required": ["file_path"],
    "additionalProperties": False,
}
READ = ToolCall("a", "Read", {"file_path": "x"}, "a")
PAST: tuple[Step, ...] = (
    ModelStep((READ,), "m-1", "tools"),
    CallResult(ToolResult("a", "same")),
    CallResult(ToolResult("a", "same")),
)


@pytest.mark.parametrize(
    ("fault", "answer", "steps"),
    [
        (Fault.MALFORMED, ToolCall("a", "Read", {UNREADABLE: '{"file_path": "x'}, "a"), ()),
        (Fault.UNKNOWN_TOOL, ToolCall("a", "Fly", {}, "a"), ()),
        (Fault.ARGUMENTS, ToolCall("a", "Read", {}, "a"), ()),
        (Fault.PROSE, Text('I would send Read(file_path="x").'), ()),
        (Fault.LOOP, READ, PAST),
    ],
)
async def test_each_class_of_answer_is_asked_again_in_its_own_words(
    fault: Fault, answer: ToolCall | Text, steps: tuple[Step, ...]
) -> None:
    asked: list[ModelRequest] = []

    async def model(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        asked.append(request)
        yield reply(answer) if len(asked) == 1 else reply(Text("done"))

    request = replace(REQUEST, tools=(ToolSpec("Read", "", SCHEMA),), steps=steps)
    ask = linked([Repair(IdSource(), lambda _: True)], model)
    last = [event async for event in ask(request)][-1]
    assert isinstance(last, Reply)
    assert last.usage == USAGE  # what was thrown away is counted where it was asked
    assert len(asked) == 2
    assert RECOVERY[fault].told in str(asked[1].steps[-1])
    assert fault is Fault.PROSE or last.step.blocks == (Text("done"),)


@pytest.mark.parametrize("source", ["message", "steer", "wake"])
def test_a_call_is_no_loop_once_somebody_has_spoken_again(
    source: Literal["message", "steer", "wake"],
) -> None:
    request = replace(REQUEST, tools=(ToolSpec("Read", "", SCHEMA),), steps=PAST)
    answer = ModelStep((READ,), "m-1", "tools")
    assert judge(answer, request, IdSource()).fault is Fault.LOOP
    said = UserStep((Text("look again"),), "ada", source)
    later = replace(request, steps=(*PAST, said))
    assert judge(answer, later, IdSource()).fault is None
    notice = UserStep((Text("the day has changed"),), "house", "notice")
    still = replace(request, steps=(*PAST, notice))
    assert judge(answer, still, IdSource()).fault is Fault.LOOP


_WORDS = st.text("abcXYZ09_./ -'\"{}", min_size=1, max_size=20)


@given(
    name=st.sampled_from(["Read", "Fly", "read", "Rea", "functions.Read"]) | _WORDS,
    path=_WORDS,
    around=st.sampled_from(
        ["{}", "<tool_call>{}</tool_call>", "```json\n{}\n```", "so: {}", "[TOOL_CALLS]{}"]
    ),
    quoted=st.booleans(),
)
def test_nothing_runs_that_is_no_tool_or_was_quoted(
    name: str, path: str, around: str, *, quoted: bool
) -> None:
    text = around.replace("{}", json.dumps({"name": name, "arguments": {"file_path": path}}))
    past: tuple[Step, ...] = (CallResult(ToolResult("a", f"see {text} there")),) if quoted else ()
    request = replace(REQUEST, tools=(ToolSpec("Read", "", SCHEMA),), steps=past)
    judged = judge(ModelStep((Text(text),), "m-1", "end"), request, IdSource())
    calls = [block for block in judged.step.blocks if isinstance(block, ToolCall)]
    assert [call.name for call in calls] in ([], ["Read"])
    assert all(call.arguments == {"file_path": path} for call in calls)
    assert not (quoted and calls)
