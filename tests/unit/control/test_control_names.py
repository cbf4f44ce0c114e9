"""What conversations are called, and people whose ids stand in the books."""

from __future__ import annotations

from dataclasses import replace

import pytest

from channels.contract import Address, ChatId
from ohmo.contracts.reports import Beginning, Spender, ThreadInfo, UsageTotal
from ohmo.contracts.turns import PersonRow, ThreadSettings
from ohmo.control.ports import Names, title_of
from tests.unit.control.small_house import SmallHouse

ONE = UsageTotal(1, 100, 50, 10, 20, 1500, 0, day="2026-01-05", model="small")


def spent(channel: str, person: str, account: str = "T1", calls: int = 1) -> UsageTotal:
    return replace(ONE, channel=channel, account=account, person=person, calls=calls)


@pytest.fixture
def names(house: SmallHouse) -> Names:
    return Names(house, house)


async def told(names: Names, *totals: UsageTotal) -> list[tuple[str, str]]:
    return [(one.who, one.id) for _, one in await names.of(totals)]


async def test_who_was_let_in_is_called_so_and_who_spoke_as_the_platform_says(
    house: SmallHouse, names: Names
) -> None:
    house.persons.append(PersonRow("slack", "T1", "U1", "Ada", "user"))
    house.called = {Spender("slack", "T1", "U1"): "ada.l", Spender("slack", "T1", "U2"): "Grace"}
    found = await told(
        names,
        spent("slack", "U1"),
        spent("slack", "U2"),
        spent("slack", "U3"),
        spent("web", "owner", "local"),
        spent("", "", ""),
    )
    assert found == [
        ("Ada", "slack:U1"),
        ("Grace", "slack:U2"),
        ("slack:U3", "slack:U3"),
        ("owner", "owner"),
        ("ohmo itself", ""),
    ]


async def test_one_id_in_two_channels_is_two_people(house: SmallHouse, names: Names) -> None:
    house.persons.append(PersonRow("telegram", "bot", "42", "Ada", "user"))
    assert await told(names, spent("telegram", "42", "bot"), spent("discord", "42", "1")) == [
        ("Ada", "telegram:42"),
        ("discord:42", "discord:42"),
    ]


async def test_a_name_that_two_people_bear_stands_with_their_ids(
    house: SmallHouse, names: Names
) -> None:
    house.called = {
        Spender("slack", "T1", "U1"): "Ada",
        Spender("slack", "T2", "U1"): "Ada",
        Spender("discord", "1", "9"): "Ada",
        Spender("slack", "T1", "U3"): "owner",
        Spender("slack", "T1", "U4"): "ohmo itself",
    }
    found = await told(
        names,
        spent("slack", "U1"),
        spent("slack", "U1", "T2"),
        spent("discord", "9", "1"),
        spent("slack", "U3"),
        spent("slack", "U4"),
    )
    assert [who for who, _ in found] == [
        "Ada (slack:U1) in T1",
        "Ada (slack:U1) in T2",
        "Ada (discord:9)",
        "owner (slack:U3)",
        "ohmo itself (slack:U4)",
    ]


async def test_nobody_takes_the_label_of_somebody_else_for_a_name(
    house: SmallHouse, names: Names
) -> None:
    house.called = {
        Spender("slack", "T1", "U1"): "Ada",
        Spender("slack", "T1", "U2"): "Ada",
        Spender("slack", "T1", "U3"): "Ada (slack:U1)",
        Spender("slack", "T1", "U4"): "slack:U5 in T1",
    }
    people = [("U1", "T1"), ("U2", "T1"), ("U3", "T1"), ("U4", "T1"), ("U5", "T1"), ("U5", "T2")]
    found = await told(names, *(spent("slack", person, account) for person, account in people))
    assert [who for who, _ in found] == [
        "Ada (slack:U1)",
        "Ada (slack:U2)",
        "Ada (slack:U1) (slack:U3)",
        "slack:U5 in T1 (slack:U4)",
        "slack:U5 in T1",
        "slack:U5 in T2",
    ]


async def test_a_job_spends_for_the_person_who_made_it_wherever_it_runs(
    house: SmallHouse, names: Names
) -> None:
    house.persons.append(PersonRow("slack", "T1", "U2", "Grace", "user"))
    house.called = {
        Spender("slack", "T1", "U1"): "Ada",
        Spender("matrix", "@bot:x", "@ada:example.org"): "Ada of Matrix",
    }
    found = await told(
        names,
        spent("slack", "U1"),
        spent("house", "slack:U1", "local"),
        spent("house", "slack:U2", "local"),
        spent("house", "hook:ci", "local"),
        spent("matrix", "@ada:example.org", "@bot:x"),
        spent("slack", "slack:U1"),
    )
    ada = ("Ada", "slack:U1")
    assert found == [
        ada,
        ("Grace", "slack:U2"),
        ("hook:ci", "hook:ci"),
        ("Ada of Matrix", "matrix:@ada:example.org"),
    ]


async def test_a_job_of_an_id_that_two_accounts_know_is_nobodys_by_name(
    house: SmallHouse, names: Names
) -> None:
    house.persons += [
        PersonRow("slack", "T1", "U1", "Ada", "user"),
        PersonRow("slack", "T2", "U1", "Bob", "user"),
    ]
    assert await told(names, spent("house", "slack:U1", "local")) == [("slack:U1", "slack:U1")]


async def test_what_one_person_spent_in_several_places_is_one_sum(names: Names) -> None:
    found = await names.of(
        [
            spent("web", "owner", "local"),
            spent("house", "owner", "local", calls=3),
            replace(ONE, person="owner", day="2026-01-06"),
        ]
    )
    assert [(one.who, total.day, total.calls, total.input) for total, one in found] == [
        ("owner", "2026-01-05", 4, 200),
        ("owner", "2026-01-06", 1, 100),
    ]


@pytest.mark.parametrize(
    ("channel", "chat", "words", "title"),
    [
        ("house", "cron:nightly", "Look at the night.", "nightly"),
        ("house", "cron:nightly:telegram:7@bot", "Look at the night.", "nightly"),
        ("house", "hook:deploy:abc:def", "Look at the night.", "deploy"),
        ("house", "notices", "Look at the night.", "Notices"),
        ("web", "notices", "", "Notices"),
        ("web", "reports", "", "reports"),
        ("web", "reports", "Hello.", "Hello."),
        ("telegram", "notices", "", ""),
    ],
)
def test_a_conversation_is_called_by_what_speaks_there_or_by_its_first_words(
    channel: str, chat: str, words: str, title: str
) -> None:
    place = Address(channel, "local", ChatId(chat))
    info = ThreadInfo("t1", place, "", None, 0, None, "idle", ThreadSettings(), Beginning(words))
    assert title_of(info) == title
    assert title_of(replace(info, title="as it was named")) == "as it was named"
