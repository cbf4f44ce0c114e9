"""Who waits behind a question is told so: once, and once more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from channels.contract import Address, ChatId, Inbound, MessageId, Person, PersonId
from ohmo.contracts.outbox import Ask, Asked, PostRow
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Accepted, Seat
from ohmo.gateway.notices import QUESTION_AGAIN, WaitingNotice
from ohmo_testing.house import BIRTH, ManualClock

GROUP = Address("telegram", "1", ChatId("-5"))
ASKED = Asked(
    Ask("q1", "c1", Question("permission", "Run it?", "", (), "d"), "/w"),
    "t1",
    "turn",
    GROUP,
    "ada",
    "asked",
    BIRTH + timedelta(hours=1),
    BIRTH,
)
BOB = Inbound(
    key="k",
    address=GROUP,
    person=Person(PersonId("7"), "Bob"),
    at=BIRTH,
    order="1",
    message=MessageId("9"),
    text="and me?",
    private=False,
    addressed=True,
)


MESSAGE = Seat("", "message")


def lines(
    waiting: WaitingNotice, said: Inbound = BOB, seat: Seat = MESSAGE, thread: str = "t1"
) -> list[PostRow]:
    return waiting.lines([(Accepted(thread, 3, duplicate=False), said, seat)])


def test_the_line_answers_who_waits_and_is_said_once_and_once_more() -> None:
    clock = ManualClock()
    waiting = WaitingNotice(lambda _: (ASKED,), clock)
    (row,) = lines(waiting)
    assert (row.outbound.address, row.outbound.reply_to, row.outbound.mentions) == (
        GROUP,
        "9",
        ("7",),
    )
    assert "10:00 UTC" in row.outbound.text
    assert lines(waiting) == []
    clock.tick(QUESTION_AGAIN.total_seconds())
    (again,) = lines(waiting)
    assert again.id != row.id
    clock.tick(QUESTION_AGAIN.total_seconds())
    assert [one.id for one in lines(waiting)] == [again.id], "the store knows this one already"
    assert [one.id for one in lines(WaitingNotice(lambda _: (ASKED,), clock))] == [row.id], (
        "nor does a restart say it anew"
    )


@pytest.mark.parametrize(
    ("said", "seat", "thread"),
    [
        (replace(BOB, private=True), Seat("", "message"), "t1"),
        (BOB, Seat("", "answer"), "t1"),
        (BOB, Seat("", "command"), "t1"),
        (BOB, Seat("", "message", "noted"), "t1"),
        (BOB, Seat("", "message"), "another mind"),
    ],
)
def test_who_does_not_wait_behind_it_is_not_told(said: Inbound, seat: Seat, thread: str) -> None:
    assert lines(WaitingNotice(lambda _: (ASKED,), ManualClock()), said, seat, thread) == []
