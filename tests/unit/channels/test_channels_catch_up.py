"""One chat after the other: what was missed first, then live events, in their order, each once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels import catch_up
from channels.catch_up import Backlog, CatchUp, Missed, left_out
from channels.contract import (
    Address,
    Arrival,
    ChatId,
    Cursor,
    Edited,
    Inbound,
    MessageId,
    Person,
    PersonId,
)
from channels.errors import NotReady, Rejected, Unavailable
from channels.payloads import Malformed, Quarantine
from ohmo_testing.channels import FakeContext

CHATS = ("a", "b", "c", "d", "e", "f", "")  # "": events of no chat
SLOW = st.integers(0, 3)  # turns of the event loop


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class House:
    """Stores events chat by chat, slowly, and writes down what happens."""

    def __init__(self, slow: Sequence[int], fails_at: int | None = None) -> None:
        self.log: list[tuple[str, str, int]] = []  # what, chat, event
        self.reading = self.most_reading = 0
        self._slow = list(slow)
        self._fails_at = fails_at

    async def pause(self) -> None:
        await turns(self._slow.pop() if self._slow else 1)

    async def deliver(self, chat: str, events: list[int]) -> None:
        for event in events:
            self.log.append(("taken", chat, event))
        await self.pause()
        if self._fails_at is not None and self._fails_at in events:
            raise Unavailable
        for event in events:
            self.log.append(("stored", chat, event))
        await self.pause()
        for event in events:
            self.log.append(("acknowledged", chat, event))

    async def read(self, chat: str) -> None:
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        await self.pause()
        self.reading -= 1
        self.log.append(("caught up", chat, 0))

    def of(self, what: str) -> dict[str, list[int]]:
        found = defaultdict[str, list[int]](list)
        for kind, chat, event in self.log:
            if kind == what:
                found[chat].append(event)
        return found


@given(
    events=st.lists(st.tuples(st.sampled_from(CHATS), SLOW), max_size=30),
    listed_after=st.integers(0, 30),
    missed_in=st.sets(st.sampled_from(CHATS[:-1])),
    again_after=st.integers(0, 30),
    slow=st.lists(SLOW, max_size=40),
)
def test_each_event_once_in_order_behind_its_catch_up_and_acknowledged_after_it_was_stored(
    events: list[tuple[str, int]],
    listed_after: int,
    missed_in: set[str],
    again_after: int,
    slow: list[int],
) -> None:
    house = House(slow)
    said = defaultdict[str, list[int]](list)

    async def scene() -> None:
        async with asyncio.TaskGroup() as group:
            backlog = Backlog(house.deliver, house.read, group)
            for number, (chat, pause) in enumerate(events):
                if number == listed_after:
                    backlog.catch_up(missed_in)
                if number == again_after:
                    backlog.catch_up(["a"])
                said[chat].append(number)
                backlog.line_up(chat, number)
                await turns(pause)
            backlog.catch_up(missed_in)
        assert list(backlog.not_stored()) == []

    asyncio.run(scene())
    assert house.of("stored") == house.of("acknowledged") == said
    assert house.most_reading <= catch_up.READERS
    for chat in missed_in & said.keys():
        first = house.log.index(("taken", chat, said[chat][0]))
        assert first > house.log.index(("caught up", chat, 0)) or again_after < listed_after


@given(
    events=st.lists(st.sampled_from(CHATS), min_size=1, max_size=20),
    fails_at=st.integers(0, 19),
    slow=st.lists(SLOW, max_size=40),
)
def test_what_cannot_be_stored_is_not_acknowledged_and_nothing_after_it_in_its_chat(
    events: list[str], fails_at: int, slow: list[int]
) -> None:
    fails_at %= len(events)
    house = House(slow, fails_at)
    left: list[Callable[[], Iterator[int]]] = []

    async def scene() -> None:
        async with asyncio.TaskGroup() as group:
            backlog = Backlog(house.deliver, house.read, group)
            left.append(backlog.not_stored)
            backlog.catch_up(())
            for number, chat in enumerate(events):
                backlog.line_up(chat, number)

    with pytest.raises(ExceptionGroup):
        asyncio.run(scene())
    chat = events[fails_at]
    later = {number for number, where in enumerate(events) if where == chat and number >= fails_at}
    assert not later & set(house.of("acknowledged")[chat])
    stored = {number for numbers in house.of("stored").values() for number in numbers}
    assert set(left[0]()) | stored == set(range(len(events))), "nothing is lost in between"


async def test_what_no_history_holds_waits_for_no_catch_up() -> None:
    house = House([])
    async with asyncio.TaskGroup() as group:
        backlog = Backlog(house.deliver, house.read, group)
        backlog.line_up("a", 1)
        backlog.line_up("a", 2, waits=False)
        await turns(9)
        assert house.of("acknowledged") == {"a": [2]}
        backlog.catch_up(["a"])
    assert house.of("acknowledged") == {"a": [2, 1]}


async def test_chats_in_which_somebody_speaks_are_read_first() -> None:
    order: list[str] = []

    async def read(chat: str) -> None:
        order.append(chat)
        await turns(2)

    async with asyncio.TaskGroup() as group:
        backlog = Backlog(House([]).deliver, read, group)
        backlog.line_up("7", 1)
        backlog.catch_up(str(number) for number in range(9))
    assert order[0] == "7"
    assert sorted(order) == [str(number) for number in range(9)]


async def test_a_chat_that_is_named_again_while_it_is_delivered_waits_again() -> None:
    house = House([])
    async with asyncio.TaskGroup() as group:
        backlog = Backlog(house.deliver, house.read, group)
        backlog.catch_up(())
        backlog.line_up("a", 1)
        await turns(1)
        backlog.catch_up(["a"])
        backlog.line_up("a", 2)
    assert house.log.index(("caught up", "a", 0)) < house.log.index(("taken", "a", 2))


async def test_what_a_lost_connection_still_said_is_stored_but_for_what_waits() -> None:
    house = House([])

    async def take() -> None:
        raise NotReady("lost")

    async with asyncio.TaskGroup() as group:
        backlog = Backlog(house.deliver, house.read, group)
        backlog.line_up("a", 1)
        backlog.line_up("", 2)
        with pytest.raises(NotReady):
            await asyncio.wait_for(backlog.next(take), 1)
        assert house.of("acknowledged") == {"": [2]}
        assert list(backlog.not_stored()) == [1]
        backlog.catch_up(())


async def test_no_more_is_taken_while_too_much_is_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catch_up, "MOST_WAITING", 2)
    stored = asyncio.Event()

    async def deliver(chat: str, events: list[int]) -> None:
        await stored.wait()

    async with asyncio.TaskGroup() as group:
        backlog = Backlog[int](deliver, House([]).read, group, listed=True)
        backlog.line_up("a", 1)
        await asyncio.wait_for(backlog.room(), 1)
        backlog.line_up("b", 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backlog.room(), 0.01)
        stored.set()
        await asyncio.wait_for(backlog.room(), 1)


# what was missed in one chat

NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
HERE = Address("slack", "T1", ChatId("a"))


class Rows:
    """A history of numbers: the minute at which each was said; negative: a bot's."""

    title = "Slack"

    def __init__(
        self, missed: Missed[int] | Rejected | None, notice_to: Address | None, state: Path
    ) -> None:
        self._missed = missed
        self._notice_to = notice_to
        self.context = FakeContext(state)

    def name(self, chat: str) -> str:
        return f"#{chat}"

    async def missed(self, chat: str) -> Missed[int] | None:
        if isinstance(self._missed, Rejected):
            raise self._missed
        return self._missed

    def arrival(self, chat: str, row: int, *, changed: bool) -> Arrival | None:
        if row == 13:
            raise Malformed("its ts is no time")
        if row < 0:
            return None
        at = NOW + timedelta(minutes=row)
        person = Person(PersonId("U1"), "Ada\u202e")
        message, order = MessageId(str(row)), f"{row:03d}"
        if changed:
            return Edited(
                key=f"e{row}", address=HERE, person=person, at=at, order=order, message=message,
                text="x",
            )  # fmt: skip
        return Inbound(
            key=str(row), address=HERE, person=person, at=at, order=order, message=message,
            text="x", private=True, addressed=True,
        )  # fmt: skip

    def said_at(self, row: int) -> datetime | None:
        return NOW + timedelta(minutes=row) if row >= 0 else None

    def notice_to(self, chat: str, missed: Missed[int]) -> Address | None:
        return self._notice_to

    async def store(self, chat: str, missed: Missed[int], arrivals: Sequence[Arrival]) -> None:
        await self.context.publish(arrivals, Cursor(chat, "1"))


async def test_what_was_missed_is_stored_in_order_and_clean_and_what_cannot_be_read_is_kept_aside(
    tmp_path: Path,
) -> None:
    rows = Rows(Missed(said=[5, -1, 13, 7], changed=[2]), None, tmp_path)
    aside = Quarantine(tmp_path / "malformed", "slack")
    await CatchUp(rows, rows.context, aside).read("a")
    assert [arrival.key for arrival in rows.context.arrivals] == ["e2", "5", "7"]
    assert {arrival.person.name for arrival in rows.context.arrivals} == {"Ada"}
    assert aside.count == 1


@pytest.mark.parametrize("address", [HERE, None])
async def test_what_was_left_out_is_told_in_its_chat_or_to_the_owner(
    address: Address | None, tmp_path: Path
) -> None:
    rows = Rows(Missed(left=[1, -2, 3]), address, tmp_path)
    await CatchUp(rows, rows.context, Quarantine(tmp_path, "slack")).read("a")
    ((notice, where),) = rows.context.gaps
    assert where == address
    there = "here" if address else "on Slack in #a"
    assert notice.startswith(f"Not read: 2 messages said {there} between 2026-03-01 10:01 and")
    assert "(channels.slack.catch_up)" in notice


async def test_of_bots_words_that_were_left_out_nothing_is_told(tmp_path: Path) -> None:
    rows = Rows(Missed(left=[-1]), HERE, tmp_path)
    await CatchUp(rows, rows.context, Quarantine(tmp_path, "slack")).read("a")
    assert rows.context.gaps == []


async def test_a_history_that_is_not_ours_to_read_is_told_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    rows = Rows(Rejected("Slack: not_in_channel"), None, tmp_path)
    await CatchUp(rows, rows.context, Quarantine(tmp_path, "slack")).read("a")
    assert rows.context.gaps == [
        ("Slack: not_in_channel. What was said on Slack while ohmo was away may be missing.", None)
    ]
    assert rows.context.batches == []


@given(
    count=st.integers(0, 12),
    old=st.integers(0, 12),
    most=st.integers(1, 6),
    coming=st.sets(st.integers(0, 11)),
)
def test_the_fence_tells_the_newest_and_what_comes_live_anyhow(
    count: int, old: int, most: int, coming: set[int]
) -> None:
    rows = list(range(count))
    missed = Missed[int]()
    missed.fence(rows, min(old, count), most)
    missed.take_back({str(row) for row in coming}, str)
    assert missed.said == sorted(missed.said)
    assert sorted(missed.said + missed.left) == rows
    newest = set(rows[min(old, count) :][-most:])
    assert set(missed.said) == newest | (coming & set(rows))


# how it is told

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
