"""Who leaves word in the account's data, who answers it, and what is no answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from channels.competing_instance import CompetingInstance
from channels.errors import AuthFailed, InUse, NotReady, RateLimited, Rejected
from channels.matrix.account import TYPE, Doubles
from channels.matrix.client import Pace
from tests.channels.second import millis, stopped

CAME = datetime(2026, 11, 22, 12, tzinfo=UTC)
OLDER = {"life": "older", "since": millis(CAME - timedelta(hours=1))}
YOUNGER = {"life": "younger", "since": millis(CAME + timedelta(seconds=1))}


class Homeserver:
    """Keeps what was left."""

    pace = Pace(ask=0.0)

    def __init__(self) -> None:
        self.words: list[dict[str, Any]] = []
        self.refuses: list[Exception] = []
        self.changed = asyncio.Event()

    async def set_account_data(self, user: str, kind: str, content: dict[str, Any]) -> None:
        assert (user, kind) == ("@ohmo:here", TYPE)
        self.changed.set()
        if self.refuses:
            raise self.refuses.pop()
        self.words.append(content)


@pytest.fixture
def homeserver() -> Homeserver:
    return Homeserver()


@pytest.fixture
def doubles(homeserver: Homeserver, tmp_path: Path) -> Doubles:
    return Doubles(homeserver, "@ohmo:here", CompetingInstance(tmp_path, lambda: CAME))  # pyright: ignore[reportArgumentType]


async def left(doubles: Doubles, homeserver: Homeserver, count: int) -> None:
    """Until so many words were left."""
    task = asyncio.create_task(doubles.run())
    try:
        async with asyncio.timeout(20):
            while len(homeserver.words) < count:
                homeserver.changed.clear()
                await homeserver.changed.wait()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_third_answer_of_an_older_one_is_enough_and_each_is_asked_for(
    doubles: Doubles, homeserver: Homeserver
) -> None:
    await doubles.leave_word()
    for count in (2, 3):
        doubles.heard(OLDER)
        await left(doubles, homeserver, count)
    with pytest.raises(
        InUse, match=r"another ohmo is connected with this account \(3 times in a row\)"
    ):
        doubles.heard(OLDER)


async def test_one_that_comes_later_is_answered_for_ever(
    doubles: Doubles, homeserver: Homeserver
) -> None:
    for count in range(1, 6):
        doubles.heard(YOUNGER)
        await left(doubles, homeserver, count)
    assert {(word["life"], word["since"]) for word in homeserver.words} == {
        (homeserver.words[0]["life"], millis(CAME))
    }


@pytest.mark.parametrize(
    "word",
    [
        {},
        {"life": 3, "since": 4},
        {"life": "x"},
        {"since": 1},
        {"life": "x", "since": "long"},
        {"life": "x", "since": 1.5},
    ],
)
async def test_word_of_another_form_says_nothing(doubles: Doubles, word: dict[str, Any]) -> None:
    for _ in range(4):
        doubles.heard(word)


async def test_our_own_word_says_nothing(doubles: Doubles, homeserver: Homeserver) -> None:
    await doubles.leave_word()
    for _ in range(4):
        doubles.heard(homeserver.words[0])


async def test_a_homeserver_that_takes_no_word_only_leaves_us_blind(
    doubles: Doubles, homeserver: Homeserver
) -> None:
    homeserver.refuses = [Rejected("M_UNRECOGNIZED")]
    await doubles.leave_word()
    for _ in range(4):
        doubles.heard(OLDER)  # it may be of a home that is gone: nothing of ours came before it
    assert homeserver.words == []


@pytest.mark.parametrize(
    "refusal", [RateLimited(0.0), NotReady("away"), AuthFailed("M_UNKNOWN_TOKEN")]
)
async def test_word_that_could_not_be_left_is_told_and_whoever_asks_later_is_still_answered(
    doubles: Doubles, homeserver: Homeserver, refusal: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    homeserver.refuses = [refusal]
    doubles.heard(YOUNGER)
    task = asyncio.create_task(doubles.run())
    try:
        async with asyncio.timeout(20):
            await homeserver.changed.wait()
            doubles.heard(YOUNGER)
            while not homeserver.words:
                homeserver.changed.clear()
                await homeserver.changed.wait()
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert f"word of this connection could not be left: {refusal}" in caplog.text


@pytest.mark.parametrize("refusal", [RateLimited(0.0), NotReady("away")])
async def test_word_that_could_not_be_left_is_left_later(
    doubles: Doubles, homeserver: Homeserver, refusal: Exception
) -> None:
    homeserver.refuses = [refusal]
    await doubles.leave_word()
    await left(doubles, homeserver, 1)


async def test_a_homeserver_that_never_takes_our_word_is_asked_ever_more_rarely_and_told_once(
    doubles: Doubles, homeserver: Homeserver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    homeserver.pace = Pace(ask=5.0)
    for _ in range(9):
        homeserver.refuses = [NotReady("502")]
        await doubles.leave_word()
    said = [
        (record.levelname, record.getMessage().rpartition(" (")[2]) for record in caplog.records
    ]
    assert said[0] == ("WARNING", "again in 5 s)")
    assert said[1:4] == [("INFO", f"again in {seconds} s)") for seconds in (10, 20, 40)]
    assert said[4:] == [("INFO", "again in 60 s)")] * 5


async def test_a_lost_connection_costs_no_place(homeserver: Homeserver, tmp_path: Path) -> None:
    """The house is older than the other one, its connection is younger; and word of its connection
    before says nothing, also after a stop."""
    house = CAME - timedelta(hours=2)
    stopped(tmp_path, ago=(datetime.now(UTC) - house).total_seconds() + 600)
    doubles = Doubles(homeserver, "@ohmo:here", CompetingInstance(tmp_path, lambda: CAME, house))  # pyright: ignore[reportArgumentType]
    await doubles.leave_word()
    for count in range(2, 6):
        doubles.heard({"life": "of the connection before", "since": millis(house)})
        doubles.heard(OLDER)
        await left(doubles, homeserver, count)
    assert {word["since"] for word in homeserver.words} == {millis(house)}
