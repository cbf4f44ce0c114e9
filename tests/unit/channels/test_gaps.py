"""What is said about messages that were not read: a number, a time, the fence and its key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from channels.gaps import in_place, left_out

TIMES = [datetime(2026, 3, 1, 10, minute, tzinfo=UTC) for minute in range(3)]
FENCE = (timedelta(hours=24), 100)


def test_the_number_the_time_and_the_fence_are_said() -> None:
    assert (
        left_out(TIMES, FENCE, zone=UTC, where="here", key="channels.slack.catch_up")
        == "Not read: 3 messages said here between 2026-03-01 10:00 and 2026-03-01 10:02 UTC while"
        " ohmo was away. It looks back 24 h and takes the newest 100 of a conversation"
        " (channels.slack.catch_up). Please say again what still needs an answer."
    )


def test_the_times_are_those_of_the_zone_that_is_named() -> None:
    said = left_out(TIMES, FENCE, zone=ZoneInfo("Asia/Kolkata"), where="here", key="k")
    assert (
        "said here between 2026-03-01 15:30 and 2026-03-01 15:32 IST (Asia/Kolkata) while" in said
    )


def test_one_is_one_and_what_nobody_counted_is_said_to_be_more() -> None:
    assert left_out(TIMES[:1], FENCE, zone=UTC, where="here", key="k").startswith(
        "Not read: 1 message said here between"
    )
    assert left_out(TIMES[:1], FENCE, zone=UTC, where="here", key="k", more=True).startswith(
        "Not read: 1 messages or more said here between"
    )
    assert left_out([], FENCE, zone=UTC, where="in C1", key="k", more=True).startswith(
        "Not read: messages said in C1 while ohmo was away."
    )


def test_part_of_an_hour_is_no_whole_one() -> None:
    assert "looks back 1.5 h" in left_out(
        TIMES, (timedelta(minutes=90), 5), zone=UTC, where="here", key="k"
    )


def test_what_is_left_out_and_comes_by_itself_is_told_before_what_was_said_after_it() -> None:
    rows = [("1", "a"), ("2", "b"), ("3", "c")]
    assert in_place(rows, ["d"], {"3", "1", "9", ""}) == (["b"], ["a", "c", "d"])
    assert in_place(rows, ["d"], set()) == (["a", "b", "c"], ["d"])
