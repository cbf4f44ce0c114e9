"""Every channel lives alone, and comes back by the word of its own failure."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gateway_words import SAFE, Clock, Odd, ended, ident, place, post, until

from channels.contract import Address, Answer, ChannelContext, Inbound, Person, PersonId
from channels.errors import AuthFailed, InUse, NotReady, RateLimited, Unavailable
from ohmo.bus import EventStream
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.turns import Accepted, CursorSave
from ohmo.gateway.connections import Connections, LinkSettings
from ohmo.gateway.drafts import DraftRows, Drafts
from ohmo.gateway.notices import Notices
from ohmo.gateway.sending import Pace, Rate, Sender
from ohmo.gateway.switchboard import LEASE, LISTENS, PROBE, BoardParts, Switchboard
from ohmo_testing.channels import FakePlatform
from tests.makers import inbound
from tests.still_time import Time
from tests.store_model.store import MemoryStore

HOUR = 3_600.0


async def settled(_: object = None) -> None:
    for _ in range(30):
        await asyncio.sleep(0)


class Adapter(Odd):
    """A channel whose listening half a test may break."""

    listens: Callable[[ChannelContext], Any] | None = None

    async def receive(self, context: ChannelContext) -> None:
        if self.listens is not None:
            return await self.listens(context)
        return await super().receive(context)

    def parse_address(self, text: str) -> Address:
        if text == "nowhere":
            raise ValueError("nowhere is no chat")
        return super().parse_address(text)


@dataclass
class Board:
    """A switchboard over fakes; ``links`` are built afresh for every connection, as the house
    does."""

    clock: Clock
    state: Path
    store: MemoryStore = field(init=False)
    time: Time = field(default_factory=lambda: Time(settled))
    platforms: dict[str, FakePlatform] = field(default_factory=dict[str, FakePlatform])
    published: list[Arrival] = field(default_factory=list[Arrival])
    refusals: int = 0  # publishes that find the store away
    owners: tuple[str, ...] = ()
    breaks: dict[str, Callable[[], Any]] = field(default_factory=dict[str, Callable[[], Any]])
    listens: Callable[[ChannelContext], Any] | None = None
    kind: type[Adapter] = Adapter

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.spoke: Callable[[str, str], Awaitable[datetime | None]] = self.store.last_delivery

    def link(self, label: str) -> LinkSettings:
        name = label.partition("/")[0]
        platform = self.platforms[label] = FakePlatform(name=name, clock=self.clock)

        def build() -> Adapter:
            if label in self.breaks:
                self.breaks[label]()
            adapter = self.kind(platform, SAFE)
            adapter.listens = self.listens
            return adapter

        return LinkSettings(name, label, build, self.state, (timedelta(hours=1), 100), heavy=False)

    async def publish(
        self, arrivals: Sequence[Arrival], cursor: CursorSave | None
    ) -> list[Accepted]:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("disk full")
        if cursor is not None:
            await self.store.accept([], cursor)
        known = {arrival.key for arrival in self.published}
        self.published += arrivals
        return [Accepted("t", 1, arrival.key in known) for arrival in arrivals]

    def make(self, *names: str, seed: int = 1) -> Switchboard:
        links = [self.link(name) for name in names]
        self.connections = connections = Connections(names)
        notices = Notices(
            self.store,
            self.owners,
            address_of=connections.address,
            new_id=counter("n"),
            clock=self.clock,
        )

        def sender(channel: Any) -> Sender:
            pace, clock = Pace(chat=Rate(0.0), account=Rate(0.0)), self.clock
            return Sender(channel, self.store, clock=clock, pace=pace, failpoint=lambda _: None)

        async def nothing(*_: Any) -> Any:
            return None

        def drafts(channel: Any, link: LinkSettings) -> Drafts:
            rows = DraftRows(nothing, counter("d"), nothing)
            return Drafts(channel, link.name, EventStream().listen, rows)

        parts = BoardParts(
            self.store,
            self.publish,
            notices,
            sender,
            drafts,
            [("stop", "stop it")],
            self.clock,
            "me",
            sleep=self.time.sleep,
            now=lambda: self.time.now,
            draw=random.Random(seed).random,
            storing=nothing,
            spoke=self.spoke,
        )
        return Switchboard(links, parts, connections)

    @asynccontextmanager
    async def running(self, *names: str, seed: int = 1) -> AsyncGenerator[Switchboard]:
        board = self.make(*names, seed=seed)
        task = asyncio.create_task(board.run())
        try:
            await self.time.run_to(self.time.now)
            yield board
            assert not task.done(), "the board outlives every channel"
        finally:
            await ended(task)

    def connects(self, name: str = "fake") -> int:
        return sum(call.method == "connect" for call in self.platforms[name].calls)

    async def notices(self) -> list[tuple[str, str]]:
        """Channel and text of what the owner is told."""
        rows = [row.row for row in await self.store.outbox() if row.row.kind == "notice"]
        return [(row.outbound.address.channel, row.outbound.text) for row in rows]


def counter(letter: str) -> Callable[[], str]:
    made: list[str] = []

    def new_id() -> str:
        made.append("")
        return ident(f"{letter}{len(made)}x")

    return new_id


@pytest.fixture
def board(clock: Clock, tmp_path: Path) -> Board:
    return Board(clock, tmp_path)


def state(board: Switchboard, name: str = "fake") -> str:
    return board.report()[name].state


# connecting


async def test_the_last_delivery_of_an_earlier_life_is_told(board: Board, clock: Clock) -> None:
    before = clock()

    async def spoke(channel: str, account: str) -> datetime | None:
        return before if (channel, account) == ("fake", "bot") else None

    board.spoke = spoke
    async with board.running("fake") as switch:
        assert switch.report()["fake"].last_delivery == before


async def test_a_store_that_cannot_tell_of_earlier_deliveries_ends_no_connection(
    board: Board,
) -> None:
    async def away(_channel: str, _account: str) -> datetime | None:
        raise Unavailable("away")

    board.spoke = away
    async with board.running("fake") as switch:
        assert (state(switch), switch.report()["fake"].last_delivery) == ("connected", None)


async def test_a_channel_that_connects_is_told_the_commands_and_reports_it(board: Board) -> None:
    async with board.running("fake") as switch:
        assert state(switch) == "connected"
        assert board.platforms["fake"].menu == (("stop", "stop it"),)


async def test_what_people_say_is_published_with_a_fenced_cursor(board: Board) -> None:
    async with board.running("fake"):
        await board.platforms["fake"].says("hello")
        await until(lambda: bool(board.published))
        assert [arrival.text for arrival in board.published if isinstance(arrival, Inbound)] == [
            "hello"
        ]
        assert await board.store.cursor("fake", "bot", "events") == "1"


@pytest.mark.parametrize("seed", range(5))
async def test_an_hours_outage_sees_at_most_a_hundred_tries_and_ends_within_a_minute(
    board: Board, seed: int
) -> None:
    switch = board.make("fake", "other", seed=seed)
    board.platforms["fake"].down(True)
    task = asyncio.create_task(switch.run())
    await board.time.run_to(HOUR)
    assert 60 <= board.connects() <= 100
    assert (state(switch), state(switch, "other")) == ("reconnecting", "connected")
    assert board.connects("other") == 1
    board.platforms["fake"].down(False)
    await board.time.run_to(HOUR + 61)
    assert state(switch) == "connected"
    assert [text.split(":")[0] for _, text in await board.notices()] == ["fake cannot be reached"]
    await ended(task)


async def test_eight_failures_of_different_kinds_keep_nobody_away_for_long(board: Board) -> None:
    """What platforms say in an outage of some seconds: refused, a limit of two seconds, 5xx."""
    failures = iter(([OSError("refused"), RateLimited(2.0), NotReady("502")] * 3)[:8])

    def fails() -> None:
        error = next(failures, None)
        if error is not None:
            raise error

    board.breaks["fake"] = fails
    async with board.running("fake") as switch:
        await board.time.run_to((1 + 2 + 4) + 3 * 2 + (1 + 2) + 1)
        assert state(switch) == "connected"


@pytest.mark.parametrize("kinds", [(OSError, NotReady, ValueError, KeyError), (RateLimited,)])
async def test_an_hour_of_any_failures_sees_at_most_a_hundred_tries(
    board: Board, kinds: tuple[Any, ...]
) -> None:
    tries = 0

    def fails() -> None:
        nonlocal tries
        tries += 1
        raise kinds[tries % len(kinds)](1.0)

    board.breaks["fake"] = fails
    async with board.running("fake"):
        await board.time.run_to(HOUR)
        assert 60 <= tries <= 100


async def test_what_the_platform_asks_for_is_the_pause(board: Board) -> None:
    tries: list[float] = []

    def limited() -> None:
        tries.append(board.time.now)
        if len(tries) < 4:
            raise RateLimited(20.0)

    board.breaks["fake"] = limited
    async with board.running("fake") as switch:
        await board.time.run_to(61)
        assert [round(at) for at in tries] == [0, 20, 40, 60]
        assert state(switch) == "connected"


async def test_a_young_outage_is_looked_at_every_fifteen_seconds_at_most(board: Board) -> None:
    switch = board.make("fake")
    board.platforms["fake"].down(True)
    task = asyncio.create_task(switch.run())
    await board.time.run_to(580)
    board.platforms["fake"].down(False)
    await board.time.run_to(596)
    assert state(switch) == "connected"
    await ended(task)


async def test_an_open_connection_is_asked_now_and_then_whether_it_is_still_known(
    board: Board,
) -> None:
    asked: list[float] = []

    class Proving(Adapter):
        async def probe(self) -> None:
            asked.append(board.time.now)
            if len(asked) == 2:
                raise NotReady("busy")
            if len(asked) == 3:
                raise AuthFailed("token_revoked")

    board.kind = Proving
    switch = board.make("fake")
    task = asyncio.create_task(switch.run())
    await board.time.run_to(2 * PROBE + 1)
    assert asked == [PROBE, 2 * PROBE]
    assert state(switch) == "connected"
    await board.time.run_to(3 * PROBE + 1)
    assert state(switch) == "auth_failed"
    assert "token_revoked" in switch.report()["fake"].detail
    await ended(task)


async def test_the_first_tries_come_quickly(board: Board) -> None:
    switch = board.make("fake")
    board.platforms["fake"].down(True)
    task = asyncio.create_task(switch.run())
    await board.time.run_to(10.0)
    assert board.connects() >= 4
    await ended(task)


async def test_a_connection_that_falls_at_once_each_time_is_slowed_down_too(board: Board) -> None:
    async def falls(context: ChannelContext) -> None:
        del context
        raise NotReady("closed")

    board.listens = falls
    async with board.running("fake"):
        await board.time.run_to(HOUR)
        assert board.connects() <= 100
        assert len(await board.notices()) == 1


async def test_a_connection_that_was_of_use_is_tried_again_soon_however_often_it_falls(
    board: Board,
) -> None:
    async def falls(context: ChannelContext) -> None:
        context.heard()
        await board.time.sleep(20.0)
        raise NotReady("closed")

    board.listens = falls
    async with board.running("fake"):
        await board.time.run_to(600.0)
        assert board.connects() >= 28  # twenty seconds each, and never more than one or two between
        assert await board.notices() == []


async def test_a_connection_on_which_nothing_was_ever_heard_was_of_no_use_however_long_it_stood(
    board: Board,
) -> None:
    async def falls(context: ChannelContext) -> None:
        del context
        await board.time.sleep(10.5)  # as long as one waits for a hello
        raise NotReady("no hello")

    board.listens = falls
    async with board.running("fake"):
        await board.time.run_to(HOUR)
        assert board.connects() <= 100


async def test_a_connection_that_brought_a_message_is_tried_again_soon_however_short_it_was(
    board: Board,
) -> None:
    said = iter(range(1000))

    async def falls(context: ChannelContext) -> None:
        await context.publish([inbound(place(), "hello", f"k{next(said)}", at=board.clock())])
        raise NotReady("closed by the platform")

    board.listens = falls
    async with board.running("fake"):
        await board.time.run_to(30.0)
        assert board.connects() >= 28


async def test_what_came_before_makes_no_connection_useful(board: Board) -> None:
    async def falls(context: ChannelContext) -> None:
        await context.publish([inbound(place(), "hello", "k1", at=board.clock())])
        raise NotReady("closed by the platform")

    board.listens = falls
    async with board.running("fake"):
        await board.time.run_to(HOUR)
        assert board.connects() <= 101


async def test_a_platform_that_asks_us_to_wait_before_connecting_is_left_alone_so_long(
    board: Board,
) -> None:
    async def limited(context: ChannelContext) -> None:
        del context
        raise RateLimited(40.0)

    board.listens = limited
    async with board.running("fake"):
        await board.time.run_to(39.0)
        assert board.connects() == 1
        await board.time.run_to(41.0)
        assert board.connects() == 2


async def test_refused_credentials_are_tried_every_five_minutes_and_told_once_through_another_door(
    board: Board,
) -> None:
    board.owners = ("fake:dm:ada", "other:dm:ada")
    switch = board.make("fake", "other")
    board.platforms["fake"].revoke()
    task = asyncio.create_task(switch.run())
    await board.time.run_to(HOUR)
    assert board.connects() <= 13
    assert state(switch) == "auth_failed"
    told = await board.notices()
    assert [channel for channel, _ in told] == ["other"]
    # the reason alone: a key file, too, is no token that could be put in
    assert told[0][1].startswith("fake cannot be used: ")
    assert "token into" not in told[0][1]
    await ended(task)


async def test_credentials_that_are_refused_while_speaking_keep_the_rows_and_are_told_once(
    board: Board,
) -> None:
    async with board.running("fake") as switch:
        board.platforms["fake"].revoke()
        await board.store.post([post("a", "hello")])
        await until(lambda: state(switch) == "auth_failed")
        await board.time.run_to(HOUR / 2)
        assert board.connects() <= 7
        assert [row.state for row in await board.store.outgoing("fake", "bot")] == ["ready"]
        assert len(await board.notices()) == 1
        board.platforms["fake"].revoke(False)
        await board.time.run_to(HOUR / 2 + 301)
        await until(lambda: len(board.platforms["fake"].chats.get("dm:ada", ())) == 1)


async def test_credentials_that_pass_the_door_and_fail_inside_are_told_once(board: Board) -> None:
    async def refused(context: ChannelContext) -> None:
        context.heard()
        raise AuthFailed("missing scope")

    board.listens = refused
    async with board.running("fake"):
        await board.time.run_to(HOUR)
        assert board.connects() <= 13
        assert len(await board.notices()) == 1


async def test_a_channel_that_somebody_else_uses_rests_and_the_owner_hears_of_it_elsewhere(
    board: Board,
) -> None:
    async def found(context: ChannelContext) -> None:
        raise InUse("another ohmo answers with this token (3 times in a row): stop the other one")

    def listening(how: Callable[[ChannelContext], Any] | None) -> Callable[[], None]:
        return lambda: setattr(board, "listens", how)

    board.breaks, board.owners = (
        {"fake": listening(found), "other": listening(None)},
        ("fake:dm:ada", "other:dm:ada"),
    )
    async with board.running("fake", "other") as switch:
        await board.time.run_to(HOUR)
        assert (state(switch), state(switch, "other")) == ("conflict", "connected")
        assert (
            switch.report()["fake"].detail
            == "another ohmo answers with this token (3 times in a row): stop the other one"
        )
        assert 12 <= board.connects() <= 13
        ((where, told),) = await board.notices()
        assert where == "other"
        assert told.endswith(
            "It is tried every five minutes and goes on once the other one is gone; what is to be"
            " said there waits."
        )


async def test_a_channel_that_stopped_for_somebody_else_says_nothing_until_it_has_listened_for_them(
    board: Board,
) -> None:
    others = [True]

    async def found(context: ChannelContext) -> None:
        context.heard()
        await board.time.sleep(0.5)
        if others:
            raise InUse("another ohmo answers with this token")
        await asyncio.Event().wait()

    board.listens = found
    async with board.running("fake") as switch:
        await board.time.run_to(1.0)
        await board.store.post([post("waits")])
        await board.time.run_to(HOUR)
        assert state(switch) == "conflict"
        assert 12 <= board.connects() <= 13
        assert [message.text for message in await board.platforms["fake"].visible()] == []
        others.clear()
        again = board.connects()
        await board.time.run_to(board.time.now + PROBE)
        assert board.connects() == again + 1
        await board.time.run_to(board.time.now + LISTENS)
        assert [message.text for message in await board.platforms["fake"].visible()] == ["waits"]


class Stopped(Adapter):
    """It remembers that it stopped for somebody else not long ago."""

    wary = True


async def listens_before_it_speaks(board: Board, switch: Switchboard) -> None:
    assert state(switch) == "connected"
    await board.time.run_to(board.time.now + LISTENS - 0.1)
    assert [message.text for message in await board.platforms["fake"].visible()] == []
    await board.time.run_to(board.time.now + 0.1)
    assert [message.text for message in await board.platforms["fake"].visible()] == ["waits"]


async def test_a_stop_that_another_life_left_behind_is_heeded_too(board: Board) -> None:
    board.kind = Stopped
    await board.store.post([post("waits")])
    async with board.running("fake") as switch:
        await listens_before_it_speaks(board, switch)


async def test_a_try_that_could_not_connect_leaves_the_next_one_to_listen_first(
    board: Board,
) -> None:
    lives = ["finds somebody", "cannot connect", "is alone"]

    async def listens(context: ChannelContext) -> None:
        context.heard()
        if lives.pop(0) == "finds somebody":
            raise InUse("another ohmo answers with this token")
        await asyncio.Event().wait()

    def connects() -> None:
        if lives[0] == "cannot connect":
            lives.pop(0)
            raise NotReady("the platform is away")

    board.listens, board.breaks = listens, {"fake": connects}
    async with board.running("fake") as switch:
        assert state(switch) == "conflict"
        await board.store.post([post("waits")])
        await board.time.run_to(PROBE + 60.0, lambda: state(switch) == "connected")
        assert lives == []
        await listens_before_it_speaks(board, switch)


# what breaks alone


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        ZeroDivisionError(),
        ImportError("no module named slack_sdk"),
        AssertionError(),
    ],
)
async def test_an_adapter_that_cannot_be_built_is_tried_again_and_harms_nobody(
    board: Board, error: Exception
) -> None:
    def fail() -> None:
        raise error

    switch = board.make("fake", "other")
    board.breaks["fake"] = fail
    task = asyncio.create_task(switch.run())
    await board.time.run_to(30.0)
    assert (state(switch), state(switch, "other")) == ("failed", "connected")
    assert type(error).__name__ in switch.report()["fake"].detail
    del board.breaks["fake"]
    await board.time.run_to(120.0)
    assert state(switch) == "connected"
    await ended(task)


async def test_nonsense_while_listening_restarts_that_channel_alone(board: Board) -> None:
    broken = [True]

    async def nonsense(context: ChannelContext) -> None:
        if broken.pop() if broken else False:
            raise ValueError("an event without a type")
        context.heard()
        await asyncio.Event().wait()

    board.listens = nonsense
    async with board.running("fake") as switch:
        assert state(switch) == "failed"
        await board.time.run_to(2.0)
        assert state(switch) == "connected"


async def test_a_channel_that_stops_listening_by_itself_is_connected_again(board: Board) -> None:
    rounds: list[int] = []

    async def once(context: ChannelContext) -> None:
        rounds.append(1)
        if len(rounds) > 1:
            context.heard()
            await asyncio.Event().wait()

    board.listens = once
    async with board.running("fake") as switch:
        assert (state(switch), switch.report()["fake"].detail) == (
            "reconnecting",
            "the connection ended",
        )
        await board.time.run_to(2.0)
        assert state(switch) == "connected"


async def test_a_store_that_is_away_costs_neither_the_connection_nor_a_message(
    board: Board,
) -> None:
    async with board.running("fake") as switch:
        board.refusals = 2
        await board.platforms["fake"].says("hello")
        await until(lambda: board.refusals == 1)
        assert state(switch) == "connected"
        await board.time.run_to(3.0)
        await until(lambda: bool(board.published))
        assert board.connects() == 1
        assert [arrival.text for arrival in board.published if isinstance(arrival, Inbound)] == [
            "hello"
        ]


async def test_a_malformed_owner_harms_nobody(board: Board) -> None:
    board.owners = ("other:nowhere", "other:dm:ada")
    switch = board.make("fake", "other")
    board.platforms["fake"].revoke()
    task = asyncio.create_task(switch.run())
    await board.time.run_to(2.0)
    assert not task.done()
    assert [channel for channel, _ in await board.notices()] == ["other"]
    await ended(task)


# one instance at a time


async def test_an_account_that_stands_in_the_configuration_twice_speaks_once_and_says_which_entry_is_too_many(
    board: Board,
) -> None:
    async with board.running("fake/a", "fake/b") as switch:
        await board.store.post([post("a")])
        await until(lambda: any(one.chats for one in board.platforms.values()))
        await board.time.run_to(60.0)
        assert [
            (name, one.connections, len(one.chats)) for name, one in board.platforms.items()
        ] == [("fake/a", 1, 1), ("fake/b", 0, 0)]
        assert (state(switch, "fake/a"), state(switch, "fake/b")) == ("connected", "auth_failed")
        assert "another entry" in switch.report()["fake/b"].detail
    assert not board.platforms["fake/a"].connections


async def test_an_instance_without_the_lease_stands_by_and_asks_the_platform_nothing(
    board: Board,
) -> None:
    await board.store.lease("channel:fake:bot", "somebody else", LEASE)
    async with board.running("fake") as switch:
        assert state(switch) == "standby"
        await board.time.run_to(HOUR)
        assert board.connects() == 1
        board.clock.tick(LEASE + 1)
        await board.time.run_to(HOUR + LEASE)
        assert state(switch) == "connected"


async def test_an_instance_that_lost_its_lease_stops_speaking(board: Board) -> None:
    async with board.running("fake") as switch:
        board.clock.tick(LEASE + 1)
        assert await board.store.lease("channel:fake:bot", "somebody else", HOUR) is not None
        await board.time.run_to(LEASE)
        assert state(switch) == "standby"
        assert board.platforms["fake"].connections == 0
        await board.store.post([post("a")])
        await settled()
        assert board.platforms["fake"].chats == {}


async def test_a_stopped_board_gives_its_leases_back(board: Board) -> None:
    async with board.running("fake"):
        assert await board.store.lease("channel:fake:bot", "somebody else", LEASE) is None
    assert await board.store.lease("channel:fake:bot", "somebody else", LEASE) is not None


class Fenced(MemoryStore):
    """Cannot be asked about leases for a while."""

    away = False

    async def lease(self, name: str, owner: str, ttl: float) -> int | None:
        if self.away:
            raise Unavailable("disk full")
        return await super().lease(name, owner, ttl)


@pytest.mark.parametrize(("seconds", "kept"), [(8.0, True), (LEASE, False)])
async def test_a_lease_that_cannot_be_renewed_is_kept_while_it_lasts_and_not_longer(
    board: Board, seconds: float, kept: bool
) -> None:
    board.store = Fenced(clock=board.clock)
    async with board.running("fake"):
        board.store.away = True
        await board.time.run_to(seconds)
        board.store.away = False
        await board.time.run_to(seconds + 30)
        assert (board.connects() == 1) is kept


# what others ask of it


async def test_what_a_connected_channel_takes_is_known_and_of_others_nothing(board: Board) -> None:
    async with board.running("fake"):
        assert board.connections.largest(Address("fake", "bot", place().chat)) == SAFE.max_file
        assert board.connections.largest(Address("other", "bot", place().chat)) is None


async def test_what_is_not_connected_is_not_ready(board: Board, tmp_path: Path) -> None:
    switch = board.make("fake")
    message = await board.platforms["fake"].sends_file("a.txt", b"abc")
    said = board.platforms["fake"].events[-1]
    assert isinstance(said, Inbound)
    assert message == said.message
    with pytest.raises(NotReady):
        await board.connections.fetch(said.address, said.attachments[0], tmp_path)
    task = asyncio.create_task(switch.run())
    await settled()
    assert (
        await board.connections.fetch(said.address, said.attachments[0], tmp_path)
    ).read_bytes() == b"abc"
    assert board.connections.address("fake", "dm:ada/7") == place("dm:ada", "7")
    await board.connections.acknowledge(pressed(said), "Thank you")
    assert board.platforms["fake"].acknowledged == [("t", "Thank you")]
    await ended(task)
    assert board.connections.address("fake", "dm:ada") is None


def pressed(said: Inbound) -> Answer:
    return Answer(
        key="p",
        address=said.address,
        person=Person(PersonId("ada"), "Ada"),
        at=said.at,
        order="9",
        message=said.message,
        choice="x",
        token="t",
    )


async def test_a_dead_letter_is_told_to_the_owner_and_a_dead_draft_is_not(board: Board) -> None:
    async with board.running("fake"):
        await board.store.post([post("a", ttl=-1.0), post("b", ttl=-1.0, kind="draft")])
        await until(
            lambda: (
                not [
                    row
                    for row in board.store.tables.posts.values()
                    if row.row.state == "ready" and row.row.row.kind != "notice"
                ]
            )
        )
        await settled()
        assert [channel for channel, _ in await board.notices()] == ["web"]
