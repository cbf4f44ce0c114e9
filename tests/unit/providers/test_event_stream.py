"""Event streams are read as the SDKs read them, however the bytes come in pieces."""

from __future__ import annotations

import pytest
from anthropic._streaming import SSEDecoder
from hypothesis import given
from hypothesis import strategies as st

from ohmo.providers.sdk.event_stream import LONGEST, EventDecoder

PIECES = [b"data", b"event", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"{}", b"x", "é".encode()]


def as_the_sdk(stream: bytes) -> list[tuple[bytes, bytes]]:
    """Events with data, as the SDK goes on with no other."""
    events = SSEDecoder().iter_bytes(iter([stream]))
    return [((one.event or "").encode(), one.data.encode()) for one in events if one.data]


def in_pieces(stream: bytes, cuts: set[int]) -> list[tuple[bytes, bytes]]:
    decoder = EventDecoder()
    events: list[tuple[bytes, bytes]] = []
    ends = [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in zip([0, *ends], ends, strict=False):
        events += decoder.feed(stream[start:end])
    return events


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.sets(st.integers(0, 120)))
def test_events_are_those_of_the_sdk_wherever_the_stream_is_cut(
    pieces: list[bytes], cuts: set[int]
) -> None:
    stream = b"".join(pieces)
    assert in_pieces(stream, cuts) == [event for event in as_the_sdk(stream) if event[1]]


def test_an_event_is_told_as_soon_as_its_last_byte_is_there() -> None:
    decoder = EventDecoder()
    assert decoder.feed(b"event: a\r\ndata: one\r\ndata: two\r\n") == []
    assert decoder.feed(b"\r") == [(b"a", b"one\ntwo")]
    assert decoder.feed(b"\ndata: three\n\n: a comment\n\ndata: half") == [(b"", b"three")]
    assert decoder.feed(b" of it\n\n") == [(b"", b"half of it")]


def test_a_line_in_many_pieces_is_joined_once() -> None:
    decoder = EventDecoder()
    decoder.feed(b"data: ")
    for _ in range(20_000):
        assert decoder.feed(b"x" * 50) == []
    (event,) = decoder.feed(b"\n\n")
    assert event == (b"", b"x" * 1_000_000)


def test_a_line_that_never_ends_is_given_up() -> None:
    decoder = EventDecoder()
    decoder.feed(b"x" * (LONGEST - 1))
    decoder.feed(b"x")
    with pytest.raises(ValueError, match="a line of more than"):
        decoder.feed(b"x")
