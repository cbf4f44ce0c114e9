"""Who calls in a shared place and is not heard is told so: alone, and not all the time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from channels.contract import Address, ChatId, Inbound, MessageId, Person, PersonId
from channels.errors import NotReady
from ohmo.contracts.turns import Seat
from ohmo.gateway.notices import WAITING, EphemeralNotice

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
    return Inbound(
        key=f"{chat}/{person}/{at}",
        address=place,
        person=who,
        at=at,
        order="1",
        message=MessageId("1"),
        text="hi",
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
