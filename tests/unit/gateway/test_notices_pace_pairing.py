"""The small rooms of the gateway: what the owner hears, how fast one may speak, and how strangers
become people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from gateway_words import BIRTH, Clock, ident, place

from channels.contract import Address, ChatId, Inbound, MessageId
from channels.errors import Unavailable
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import PersonRow
from ohmo.gateway import people
from ohmo.gateway.notices import AGAIN, DASHBOARD, Notices, owners_of
from ohmo.gateway.sending import Pace, Rate
from tests.makers import inbound
from tests.store_model.store import MemoryStore


class Away(MemoryStore):
    away = False

    async def post(self, rows: Sequence[PostRow]) -> None:
        if self.away:
            raise Unavailable("disk full")
        await super().post(rows)


def notices(store: MemoryStore, clock: Clock, *owners: str) -> Notices:
    numbers = iter(range(1_000))

    def address(channel: str, rest: str) -> Address | None:
        if rest == "?":
            raise ValueError("no such place")
        return None if channel == "offline" else Address(channel, "bot", ChatId(rest))

    return Notices(
        store, owners, address_of=address, new_id=lambda: ident(f"n{next(numbers)}x"), clock=clock
    )


async def told(store: MemoryStore) -> list[tuple[str, str, str]]:
    return [
        (row.row.outbound.address.channel, row.row.outbound.address.chat, row.row.outbound.text)
        for row in await store.outbox()
    ]


async def test_an_incident_is_told_once_until_it_is_over(clock: Clock) -> None:
    store = MemoryStore(clock=clock)
    voice = notices(store, clock, "slack:U1")
    assert [await voice.tell("down:x", "x is down") for _ in range(3)] == [True, False, False]
    voice.over("down:x")
    assert await voice.tell("down:x", "x is down")
    assert await told(store) == [("slack", "U1", "x is down")] * 2


async def test_an_incident_that_lasts_is_told_again_after_hours(clock: Clock) -> None:
    store = MemoryStore(clock=clock)
    voice = notices(store, clock, "slack:U1")
    await voice.tell("a", "text")
    clock.tick(AGAIN.total_seconds())
    assert await voice.tell("a", "text")


@pytest.mark.parametrize(
    ("owners", "chosen"),
    [
        (("slack:U1", "matrix:@a:b"), ("slack", "U1")),
        (("offline:1", "matrix:@a:b"), ("matrix", "@a:b")),
        (("slack:?", "matrix:@a:b"), ("matrix", "@a:b")),
        (("broken:1", "slack:U1"), ("slack", "U1")),
        ((), (DASHBOARD.channel, DASHBOARD.chat)),
        (("broken:1",), (DASHBOARD.channel, DASHBOARD.chat)),
        (("nonsense",), ("nonsense", "")),
    ],
)
async def test_the_first_door_that_leads_to_an_owner_is_taken_and_never_the_broken_one(
    clock: Clock, owners: tuple[str, ...], chosen: tuple[str, str]
) -> None:
    store = MemoryStore(clock=clock)
    await notices(store, clock, *owners).tell("a", "text", not_through="broken")
    assert [(channel, chat) for channel, chat, _ in await told(store)] == [chosen]


@pytest.mark.parametrize(
    ("owners", "chosen"),
    [
        (("slack:U1",), ("slack", "U1")),
        (("slack:U1", "matrix:@a:b"), ("matrix", "@a:b")),
        (("slack:C9", "slack:U1"), ("slack", "U1")),
        (("slack:C9",), (DASHBOARD.channel, DASHBOARD.chat)),
    ],
)
async def test_of_a_chat_that_cannot_be_written_to_an_owner_hears_elsewhere_if_need_be_on_the_same_platform(
    clock: Clock, owners: tuple[str, ...], chosen: tuple[str, str]
) -> None:
    store = MemoryStore(clock=clock)
    await notices(store, clock, *owners).tell(
        "a", "text", not_at=Address("slack", "bot", ChatId("C9"))
    )
    assert [(channel, chat) for channel, chat, _ in await told(store)] == [chosen]


async def test_a_line_for_a_chat_is_said_there(clock: Clock) -> None:
    store = MemoryStore(clock=clock)
    await notices(store, clock, "slack:U1").tell("a", "text", at=place("group"))
    assert [(channel, chat) for channel, chat, _ in await told(store)] == [("fake", "group")]


async def test_what_could_not_be_written_may_be_told_again(clock: Clock) -> None:
    store = Away(clock=clock)
    voice = notices(store, clock)
    store.away = True
    assert not await voice.tell("a", "text")
    store.away = False
    assert await voice.tell("a", "text")


async def test_what_came_before_the_owner_could_be_reached_is_told_once_they_can_be(
    clock: Clock,
) -> None:
    store, up = Away(clock=clock), list[str]()
    numbers = iter(range(1_000))

    def address(channel: str, rest: str) -> Address | None:
        return Address(channel, "bot", ChatId(rest)) if channel in up else None

    voice = Notices(
        store,
        ("slack:U1", "telegram:1"),
        address_of=address,
        new_id=lambda: ident(f"m{next(numbers)}x"),
        clock=clock,
    )
    await voice.tell("store", "the store was mended")
    await voice.tell("down:slack", "slack cannot be reached", not_through="slack")
    await voice.connected()
    up.append("slack")
    store.away = True
    await voice.connected()
    store.away = False
    for _ in range(2):
        await voice.connected()
    assert [one for one in await told(store) if one[0] != "web"] == [
        ("slack", "U1", "the store was mended")
    ]
    up.append("telegram")
    for _ in range(2):
        await voice.connected()
    assert [one for one in await told(store) if one[0] == "telegram"] == [
        ("telegram", "1", "slack cannot be reached")
    ]
    await voice.tell("b", "later")
    await voice.connected()
    assert [text for channel, _, text in await told(store) if channel == "web"] == [
        "the store was mended",
        "slack cannot be reached",
    ]


async def test_what_was_told_in_a_chat_before_a_restart_is_not_told_there_again(
    clock: Clock,
) -> None:
    """A job that still fails is looked at when ohmo starts, before any channel is connected."""
    store, up = MemoryStore(clock=clock), ["slack"]

    def address(channel: str, rest: str) -> Address | None:
        return Address(channel, "bot", ChatId(rest)) if channel in up else None

    def life() -> Notices:
        return Notices(
            store, ("slack:U1",), address_of=address, new_id=lambda: ident("never"), clock=clock
        )

    await life().tell("failed", "the job failed", once=ident("once"))
    for _ in range(2):
        up.clear()
        voice = life()
        await voice.tell("failed", "the job failed", once=ident("once"))
        up.append("slack")
        await voice.connected()
    assert [text for channel, _, text in await told(store) if channel == "slack"] == [
        "the job failed"
    ]


def test_owners_are_the_list_and_then_the_roles_each_once() -> None:
    assert owners_of(
        ("slack:U1",), {"slack:U2": "owner", "slack:U3": "admin", "slack:U1": "owner"}
    ) == ("slack:U1", "slack:U2")


# pace


def test_without_a_rate_nothing_waits() -> None:
    pace = Pace(Rate(0.0), Rate(0.0))
    for _ in range(100):
        pace.take("a", 0.0)
    assert pace.wait("a", 0.0) == 0.0


@pytest.mark.parametrize("burst", [1, 3])
def test_a_burst_goes_at_once_and_then_one_an_interval(burst: int) -> None:
    pace = Pace(Rate(2.0, burst), Rate(0.0))
    sent, now = list[float](), 0.0
    while len(sent) < burst + 3:
        now += pace.wait("a", now)
        pace.take("a", now)
        sent.append(now)
    assert sent == [0.0] * burst + [2.0, 4.0, 6.0]


def test_the_account_has_a_rate_of_its_own() -> None:
    pace = Pace(Rate(0.0), Rate(1.0))
    pace.take("a", 0.0)
    assert (pace.wait("b", 0.0), pace.wait("b", 1.0)) == (1.0, 0.0)


def test_a_chat_that_asked_to_wait_has_no_burst_left() -> None:
    pace = Pace(Rate(1.0, 10), Rate(0.0))
    pace.block("a", 5.0)
    assert (pace.wait("a", 0.0), pace.wait("b", 0.0)) == (5.0, 0.0)
    pace.take("a", 5.0)
    assert pace.wait("a", 5.0) == 1.0


def test_a_block_is_for_its_chat_and_ends() -> None:
    pace = Pace(Rate(0.0), Rate(0.0))
    pace.block("a", 30.0)
    assert (pace.wait("a", 10.0), pace.wait("b", 10.0), pace.wait("a", 31.0)) == (20.0, 0.0, 0.0)


# pairing


def said(person: str = "eve") -> Inbound:
    return inbound(
        place(f"dm:{person}"), "hello", "k", person, at=BIRTH, order="1", message=MessageId("m")
    )


def asked(at: Clock, known: PersonRow | None = None) -> tuple[PersonRow, str]:
    found = people.pairing_request(said(), known, at())
    assert found is not None
    return found


def test_a_code_is_short_unlike_every_other_and_without_letters_that_look_alike() -> None:
    codes = {people.new_code() for _ in range(500)}
    assert len(codes) == 500
    assert all(len(code) == 8 for code in codes)
    assert not set("".join(codes)) & set("ILO01")


def test_a_code_lets_in_whoever_was_told_it_in_any_spelling(clock: Clock) -> None:
    row, code = asked(clock)
    typed = f" {code[:4].lower()}-{code[4:]} "
    admitted = people.admitted([row], typed, "user", "owner", clock())
    assert admitted is not None
    assert (admitted.person, admitted.role, admitted.by, admitted.code_hash, admitted.expires) == (
        "eve",
        "user",
        "owner",
        None,
        None,
    )


def test_a_code_lives_for_an_hour_and_then_a_new_one_is_told(clock: Clock) -> None:
    row, code = asked(clock)
    assert people.pairing_request(said(), row, clock() + timedelta(minutes=59)) is None
    assert people.admitted([row], code, "user", "owner", clock() + timedelta(hours=1)) is None
    clock.tick(3_600)
    again, other = asked(clock, row)
    assert other != code
    assert people.admitted([again], code, "user", "owner", clock()) is None


def test_a_code_opens_only_while_it_is_asked_for(clock: Clock) -> None:
    row, code = asked(clock)
    inside = people.admitted([row], code, "user", "owner", clock())
    assert inside is not None
    assert people.admitted([inside], code, "admin", "owner", clock()) is None
    assert people.admitted([row], "", "user", "owner", clock()) is None
    assert people.admitted([], code, "user", "owner", clock()) is None


def test_a_stranger_is_told_who_they_are_and_what_to_do() -> None:
    text = people.pairing_text(said(), "ABCD2345")
    assert "fake:eve" in text
    assert "ohmo pairing approve ABCD2345" in text
