"""How much of a conversation is sent: whole exchanges, the oldest left out first, the same after a
restart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ohmo.context.window import Window, step_tokens, tokens_of
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.sessions.transcript import Transcript


def exchange(
    number: int, size: int, *, calls: int = 0, notice: bool = False, steer: bool = False
) -> list[Step]:
    steps: list[Step] = [UserStep((Text(f"q{number} " + "x" * size),), "ada", "message")]
    if notice:
        steps.append(UserStep((Text("(a file is missing)"),), "house", "notice"))
    for call in range(calls):
        name = f"{number}.{call}"
        steps += [
            ModelStep((ToolCall(name, "Look", {}, name),), "m", "tools"),
            CallStarted(name, ""),
            CallResult(ToolResult(name, "r" * size)),
        ]
        if steer:
            steps.append(UserStep((Text("quick"),), "ada", "steer"))
    return [*steps, ModelStep((Text(f"a{number}"),), "m", "end")]


EXCHANGES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.booleans(), st.booleans()),
    min_size=1,
    max_size=20,
)


def conversation(shape: list[tuple[int, int, bool, bool]]) -> list[Step]:
    return [
        step
        for number, (size, calls, notice, steer) in enumerate(shape)
        for step in exchange(number, size, calls=calls, notice=notice, steer=steer)
    ]


@given(EXCHANGES, st.integers(50, 1500))
def test_what_is_sent_begins_with_a_person_and_keeps_the_last_exchange(
    shape: list[tuple[int, int, bool, bool]], budget: int
) -> None:
    steps = conversation(shape)
    transcript = Transcript(0, budget)
    transcript.add(list(enumerate(steps)))
    sent = transcript.visible()
    assert list(sent) == steps[len(steps) - len(sent) :]
    assert isinstance(sent[0], UserStep)
    assert sent[0].source == "message"
    last = max(
        index
        for index, step in enumerate(steps)
        if isinstance(step, UserStep) and step.source == "message"
    )
    assert len(sent) >= len(steps) - last
    assert sum(map(step_tokens, sent)) <= budget or len(sent) == len(steps) - last
    assert transcript.cut == (len(sent) < len(steps))


@given(EXCHANGES, st.integers(50, 1500), st.data())
def test_a_transcript_read_again_sends_what_the_old_one_sent(
    shape: list[tuple[int, int, bool, bool]], budget: int, data: st.DataObject
) -> None:
    numbered = list(enumerate(conversation(shape)))
    grown, read = Transcript(0, budget), Transcript(0, budget)
    start = 0
    while start < len(numbered):
        end = data.draw(st.integers(start + 1, len(numbered)))
        grown.add(numbered[max(0, start - 1) : end])  # known ones are passed over
        start = end
    read.add(numbered)
    assert grown.visible() == read.visible()
    assert grown.weight == read.weight


@given(EXCHANGES)
def test_shrinking_leaves_out_whole_exchanges_until_one_is_left(
    shape: list[tuple[int, int, bool, bool]],
) -> None:
    transcript = Transcript(0)
    transcript.add(list(enumerate(conversation(shape))))
    while transcript.shrink():
        first = transcript.visible()[0]
        assert isinstance(first, UserStep)
        assert first.source == "message"
    left = [
        step
        for step in transcript.visible()
        if isinstance(step, UserStep) and step.source == "message"
    ]
    assert len(left) == 1


def test_another_model_decides_anew_where_the_conversation_begins() -> None:
    numbered = list(enumerate(conversation([(300, 0, False, False)] * 6)))
    transcript = Transcript(0, 200)
    transcript.add(numbered)
    assert transcript.cut
    transcript.refit(100_000)
    transcript.add(numbered)
    assert len(transcript.visible()) == len(numbered)
    assert not transcript.cut


def test_an_old_session_takes_no_more_memory_than_a_young_one() -> None:
    transcript = Transcript(0, 2_000)
    weights = []
    for number in range(400):
        transcript.add(list(enumerate(exchange(number, 100), start=number * 2)))
        weights.append(transcript.weight)
    assert max(weights[200:]) <= max(weights[:200])


def test_calls_of_a_turn_that_is_over_are_found_and_those_of_a_running_one_are_not() -> None:
    call = ModelStep((ToolCall("c", "Look", {}, "c"),), "m", "tools")
    transcript = Transcript(0)
    transcript.add([(0, UserStep((Text("go"),), "ada", "message")), (1, call)])
    assert transcript.abandoned_calls() == ()
    assert [one.call.id for one in transcript.open_calls()] == ["c"]
    transcript.add([(2, UserStep((Text("something else"),), "ada", "message"))])
    assert [one.call.id for one in transcript.abandoned_calls()] == ["c"]
    transcript.add([(3, CallResult(ToolResult("c", "stopped", error=True)))])
    assert transcript.abandoned_calls() == ()


def test_wide_letters_count_as_a_token_each() -> None:
    assert tokens_of("你好世界" * 100) >= 400
    assert tokens_of("word " * 100) < 200


def test_a_window_without_anybody_speaking_never_cuts() -> None:
    window = Window(10)
    window.add(ModelStep((Text("x" * 1000),), "m", "end"))
    assert window.forget() == 0
