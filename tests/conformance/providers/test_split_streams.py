"""An answer is the same wherever its bytes are cut on the way, on every wire."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.contracts.messages import UserStep
from ohmo.contracts.provider import ModelRequest, Reply
from ohmo.providers.anthropic.client import Reading
from ohmo.providers.openai.client import CompletionsReading
from ohmo.providers.openai.responses_wire import ResponsesReading
from ohmo.providers.sdk.event_stream import EventDecoder
from tests.platforms.model import anthropic_wire, openai_wire, responses_wire
from tests.platforms.model.script import Call, Turn

REQUEST = ModelRequest("m", (), (), (UserStep((), "ada", "message"),), 10, None, "turn")
Read = Callable[[list[bytes]], tuple[str, Reply]]


def read_with(
    made: Callable[[ModelRequest], CompletionsReading | ResponsesReading | Reading],
) -> Read:
    def read(pieces: list[bytes]) -> tuple[str, Reply]:
        decoder, reading, shown = EventDecoder(), made(REQUEST), ""
        for piece in pieces:
            for name, data in decoder.feed(piece):
                if name != b"ping":
                    shown += reading.feed(json.loads(data))
        return shown, reading.reply()

    return read


def sent(wire: str, turn: Turn, text: str) -> bytes:
    match wire:
        case "anthropic":
            events = anthropic_wire.events(turn, text, "m", 7)
            return b"".join(anthropic_wire.frame(name, data) for name, data in events)
        case "openai":
            chunks = openai_wire.chunks(turn, text, "m", 7, with_usage=True)
            return b"".join(map(openai_wire.frame, chunks))
        case _:
            return b"".join(map(responses_wire.frame, responses_wire.events(turn, text, "m", 7)))


READERS: dict[str, Read] = {
    "anthropic": read_with(Reading),
    "openai": read_with(CompletionsReading),
    "responses": read_with(ResponsesReading),
}
CUTS = st.sets(st.integers(0, 4_000), max_size=12)
CALLS = st.lists(
    st.builds(Call, st.just("Read"), st.dictionaries(st.text(), st.text())), max_size=3
)


@pytest.mark.parametrize("wire", READERS)
@given(text=st.text(), thinking=st.none() | st.text(min_size=1), calls=CALLS, cuts=CUTS)
def test_an_answer_is_the_same_wherever_its_bytes_are_cut(
    wire: str, text: str, thinking: str | None, calls: list[Call], cuts: set[int]
) -> None:
    stream = sent(wire, Turn(thinking=thinking, calls=tuple(calls)), text)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges)]
    shown, reply = READERS[wire](pieces)
    assert (shown, reply) == READERS[wire]([stream])
    assert shown == text
