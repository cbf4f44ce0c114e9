"""Who waits behind a question is told so once, and once more; who calls in a shared place and is not
heard is told so alone, and not all the time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from channels.contract import Address, ChatId, Inbound, MessageId, Person, PersonId
from channels.errors import NotReady
from ohmo.contracts.outbox import Ask, Asked, PostRow
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Accepted, Seat
from ohmo.gateway.notices import QUESTION_AGAIN, WAITING, EphemeralNotice, WaitingNotice
from ohmo_testing.house import BIRTH, ManualClock
from tests.makers import inbound

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
BOB = inbound(
    GROUP,
    "and me?",
    "k",
    person=Person(PersonId("7"), "Bob"),
    at=BIRTH,
    order="1",
    message=MessageId("9"),
    private=False,
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


NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
REFUSED = Seat("", "message", "refused", "U1 is not in channels.fake.allow.people")


def said(
    person: str = "U1",
    *,
    chat: str = "C1",
    at: datetime = NOW,
    addressed: bool = True,
    private: bool = False,
    bot: bool = False,
) -> Inbound:
    place, who = Address("fake", "acc", ChatId(chat)), Person(PersonId(person), person, bot)
    return inbound(
        place,
        "hi",
        f"{chat}/{person}/{at}",
        person=who,
        at=at,
        order="1",
        message=MessageId("1"),
        private=private,
        addressed=addressed,
    )


class House:
    def __init__(self) -> None:
        self.now = NOW
        self.told: list[tuple[str, str, str]] = []
        self.broken = False
        self.enough = asyncio.Event()
        self.notice = EphemeralNotice(self.whisper, lambda: self.now)

    async def whisper(self, address: Address, person: PersonId, text: str) -> None:
        self.told.append((address.chat, person, text))
        self.enough.set()
        if self.broken:
            raise NotReady("no line")

    async def after(self, count: int) -> list[tuple[str, str, str]]:
        """Everything that was whispered, once there are ``count``, and nothing more is due."""
        running = asyncio.create_task(self.notice.run())
        async with asyncio.timeout(20):
            while len(self.told) < count:
                self.enough.clear()
                await self.enough.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return self.told


async def test_the_reason_is_told_once_an_hour_to_each_person_of_each_place() -> None:
    house = House()
    house.notice.hear(said(), REFUSED)
    house.notice.hear(said(), REFUSED)
    house.notice.hear(said("U2"), REFUSED)
    house.notice.hear(said(chat="C2"), REFUSED)
    house.now += timedelta(hours=1)
    house.notice.hear(said(at=house.now), REFUSED)
    told = await house.after(4)
    assert [(chat, person) for chat, person, _ in told] == [
        ("C1", "U1"),
        ("C1", "U2"),
        ("C2", "U1"),
        ("C1", "U1"),
    ]
    assert "U1 is not in channels.fake.allow.people" in told[0][2]


async def test_only_a_fresh_call_of_a_person_in_a_shared_place_that_was_refused_is_answered_so() -> (
    None
):
    house = House()
    house.notice.hear(said("a", private=True), REFUSED)
    house.notice.hear(said("b", addressed=False), REFUSED)
    house.notice.hear(said("c", bot=True), REFUSED)
    house.notice.hear(said("d"), Seat("", "message"))
    house.notice.hear(said("e", at=NOW - timedelta(hours=1)), REFUSED)
    house.notice.hear(said("last"), REFUSED)
    assert [person for _, person, _ in await house.after(1)] == ["last"]


async def test_a_platform_that_fails_costs_only_its_whisper_and_a_crowd_is_not_kept_waiting_for_ever() -> (
    None
):
    house = House()
    house.broken = True
    for number in range(WAITING + 20):
        house.notice.hear(said(f"U{number}"), REFUSED)
    assert len(await house.after(WAITING)) == WAITING
