"""In order within a thread, side by side otherwise, whatever the platform or the store does
meanwhile."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from gateway_words import RISK, Stage, ended, place, post, until

from channels.errors import Ambiguous, AuthFailed, NotReady, Rejected, Unavailable
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.store import Hint
from ohmo.gateway.delivery import POISON, RISKY_WIDTH, Pauses
from ohmo_testing.channels import MARK
from tests.store_model.store import MemoryStore

NEVER = Pauses(poll=0.02, whole=3_600.0, grace=0.2)  # hints alone


@asynccontextmanager
async def delivering(
    stage: Stage, *, pauses: Pauses | None = None, store: Any = None
) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(stage.delivery(store, pauses=pauses).run())
    try:
        yield task
    finally:
        await ended(task)


async def test_a_thread_is_said_in_order_although_its_head_has_to_wait(stage: Stage) -> None:
    await stage.store.post([post("a"), post("b"), post("c")])
    stage.platform.limit_next(60.0)
    async with delivering(stage):
        await until(lambda: len(stage.keys()) == 1)
        assert stage.texts() == []
        stage.clock.tick(61)
        stage.pace.block("dm:ada", 0.0)
        await until(lambda: len(stage.shown) == 3)
    assert stage.texts() == ["a", "b", "c"]


async def test_a_chat_that_is_limited_delays_no_other(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    threads = [
        post(f"t{number}", at=place("dm:ada", str(number))) for number in range(RISKY_WIDTH + 2)
    ]
    await stage.store.post(threads[:1])
    stage.platform.limit_next(600.0)
    async with delivering(stage):
        await until(lambda: len(stage.keys()) == 1)
        await stage.store.post([*threads[1:], post("b", at=place("dm:bob"))])
        await until(lambda: stage.shown == ["b"])
    assert stage.texts() == []
    assert stage.sleeps.asked == []


async def test_at_most_four_sends_are_in_flight_where_a_kill_may_repeat_them(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    await stage.store.post([post(f"r{number}", at=place(f"dm:{number}")) for number in range(10)])
    stage.platform.hold()
    async with delivering(stage):
        await until(lambda: len(stage.keys()) == RISKY_WIDTH)
        await asyncio.sleep(0.1)  # time enough for a fifth
        assert len(stage.keys()) == RISKY_WIDTH
        assert (
            sum(one.row.state == "sending" for one in stage.store.tables.posts.values())
            == RISKY_WIDTH
        )
        stage.platform.release()
        await until(lambda: len(stage.shown) == 10)


class Deaf(MemoryStore):
    """Its hints get lost; it counts how often everything is asked for."""

    whole = 0
    single = 0

    def listen(self, hear: Any) -> Any:
        del hear
        return lambda: None

    async def outgoing(
        self, channel: str, account: str, threads: Collection[str] | None = None
    ) -> list[OutRow]:
        if threads is None:
            self.whole += 1
        else:
            self.single += 1
        return await super().outgoing(channel, account, threads)


async def test_rows_are_found_although_their_hints_are_lost(stage: Stage) -> None:
    stage.store = Deaf(clock=stage.clock)
    async with delivering(stage):
        await asyncio.sleep(0.05)
        await stage.store.post([post("a")])
        await until(lambda: stage.shown == ["a"])


async def test_a_hint_asks_for_its_thread_only(stage: Stage) -> None:
    class Heard(Deaf):
        def listen(self, hear: Any) -> Any:
            def without_rows(hints: Sequence[Hint]) -> None:
                hear([replace(hint, row=None) for hint in hints])

            return MemoryStore.listen(self, without_rows)

    store = stage.store = Heard(clock=stage.clock)
    async with delivering(stage, pauses=NEVER):
        for number in range(5):
            await store.post([post(f"r{number}", at=place(f"dm:{number}"))])
            await until(lambda count=number: len(stage.shown) == count + 1)
    assert store.whole == 1
    assert store.single >= 4  # the first may be among all


async def test_what_its_hint_carries_is_sent_without_a_look(stage: Stage) -> None:
    class Heard(Deaf):
        def listen(self, hear: Any) -> Any:
            return MemoryStore.listen(self, hear)

    store = stage.store = Heard(clock=stage.clock)
    async with delivering(stage, pauses=NEVER):
        await until(lambda: store.whole == 1)
        for number in range(5):
            await store.post([post(f"r{number}", at=place(f"dm:{number}"))])
            await until(lambda count=number: len(stage.shown) == count + 1)
    assert (store.whole, store.single) == (1, 0)


async def test_who_waits_for_room_goes_as_soon_as_there_is_some(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    async with delivering(stage, pauses=Pauses(poll=3_600.0, whole=3_600.0)):
        await asyncio.sleep(0.05)
        rows = [post(f"r{number:02}x", at=place(f"dm:{number}")) for number in range(30)]
        await stage.store.post(rows)
        await until(lambda: len(stage.shown) == len(rows))


async def test_two_at_once_in_a_thread_keep_their_order(stage: Stage) -> None:
    names = [f"r{number:02}x" for number in range(30)]
    async with delivering(stage, pauses=NEVER):
        for first, second, third in zip(names[::3], names[1::3], names[2::3], strict=True):
            await stage.store.post([post(first), post(second)])
            await asyncio.sleep(0)
            await stage.store.post([post(third)])
        await until(lambda: len(stage.shown) == len(names))
    assert stage.shown == names


class Loud(Deaf):
    """A test says the hints."""

    hear: Any = None

    def listen(self, hear: Any) -> Any:
        self.hear = hear
        return lambda: None


async def test_a_hint_for_another_account_asks_for_nothing(stage: Stage) -> None:
    store = stage.store = Loud(clock=stage.clock)
    async with delivering(stage, pauses=NEVER):
        await until(lambda: store.whole == 1)
        store.hear(
            [
                Hint("post", "t", "slack", "bot"),
                Hint("post", "t", "fake", "other"),
                Hint("ready", "t"),
            ]
        )
        await asyncio.sleep(0.1)
        assert (store.whole, store.single) == (1, 0)
        store.hear([Hint("any")])
        await until(lambda: store.whole == 2)


class Away(MemoryStore):
    """Cannot be read for a while."""

    away = 3

    async def outgoing(
        self, channel: str, account: str, threads: Collection[str] | None = None
    ) -> list[OutRow]:
        if self.away:
            self.away -= 1
            raise Unavailable("disk full")
        return await super().outgoing(channel, account, threads)


async def test_a_store_that_is_away_is_asked_again(stage: Stage) -> None:
    stage.store = Away(clock=stage.clock)
    await stage.store.post([post("a")])
    async with delivering(stage):
        await until(lambda: stage.shown == ["a"])


class Slow(MemoryStore):
    """Answers with what it knew before the last send."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock)
        self.stage = stage
        self.late = False

    async def outgoing(
        self, channel: str, account: str, threads: Collection[str] | None = None
    ) -> list[OutRow]:
        rows = await super().outgoing(channel, account, threads)
        if self.late:
            self.late = False
            self.stage.platform.release()
            await until(lambda: self.stage.shown == ["a"])
        return rows


async def test_a_head_that_was_read_before_its_send_ended_is_not_sent_again(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    store = stage.store = Slow(stage)
    await store.post([post("a", "hello")])
    stage.platform.hold()
    async with delivering(stage):
        await until(lambda: len(stage.keys()) == 1)
        store.late = True
        await store.post([post("b", at=place("dm:bob"))])
        await until(lambda: len(stage.shown) == 2)
        await asyncio.sleep(0.1)  # time enough to send it again
    assert stage.texts() == ["hello"]


async def test_a_row_in_doubt_is_held_back_and_settled_later(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    await stage.store.post([post("a", "hello"), post("b", at=place("dm:bob"))])
    stage.platform.fail("send", Ambiguous("lost"), times=2)
    async with delivering(stage):
        await until(lambda: stage.shown != [])
        assert "b" in stage.shown or "a" in stage.shown
        await until(lambda: len(stage.shown) == 2)
    assert set(stage.texts() + stage.texts("dm:bob")) <= {
        "hello",
        "b",
        f"hello ({MARK})",
        f"b ({MARK})",
    }


async def test_refused_credentials_end_the_delivery_and_leave_the_rows(stage: Stage) -> None:
    await stage.store.post([post("a")])
    stage.platform.revoke()
    with pytest.raises(AuthFailed):
        await asyncio.wait_for(stage.delivery().run(), 30)
    assert (await stage.head()).state == "ready"
    assert stage.dead == []


async def test_a_dead_letter_is_told_and_the_thread_goes_on(stage: Stage) -> None:
    await stage.store.post([post("a"), post("b")])
    stage.platform.fail("send", Rejected("never"), times=2)
    async with delivering(stage):
        await until(lambda: stage.shown == ["b"])
    assert [name for name, _ in stage.dead] == ["a"]


async def test_a_row_on_which_the_channel_breaks_is_buried_after_a_few_tries(stage: Stage) -> None:
    await stage.store.post([post("a")])
    stage.channel.nonsense = ZeroDivisionError("in render")
    async with delivering(stage):
        await until(lambda: stage.dead != [])
    assert len(stage.channel.rendered) == POISON
    assert stage.dead == [("a", "ZeroDivisionError: in render")]


async def test_an_answer_waits_out_a_machine_that_is_short_of_something(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ohmo.gateway.delivery.backoff", lambda tries, most: 0.01)
    await stage.store.post([post("a")])
    stage.channel.nonsense = OSError(errno.EMFILE, "Too many open files")
    async with delivering(stage):
        await until(lambda: len(stage.channel.rendered) > 2 * POISON)
        assert stage.dead == []
        stage.channel.nonsense = None
        await until(lambda: stage.shown == ["a"])


async def test_a_row_that_was_away_goes_out_when_its_time_comes(stage: Stage) -> None:
    await stage.store.post([post("a")])
    stage.platform.fail("send", NotReady("away"))
    async with delivering(stage):
        await until(lambda: len(stage.keys()) == 1)
        stage.clock.tick(60)
        await until(lambda: stage.shown == ["a"])


async def test_a_send_in_flight_comes_to_its_receipt_when_the_connection_ends(stage: Stage) -> None:
    stage.channel.capabilities = RISK
    await stage.store.post([post("a", "hello")])
    stage.platform.hold()
    task = asyncio.create_task(
        stage.delivery(pauses=Pauses(poll=0.02, whole=0.1, grace=20.0)).run()
    )
    await until(lambda: len(stage.keys()) == 1)
    task.cancel()
    stage.platform.release()
    await asyncio.gather(task, return_exceptions=True)
    assert (await stage.row("a")).state == "sent"


async def test_a_send_that_hangs_does_not_hold_up_the_end(stage: Stage) -> None:
    await stage.store.post([post("a", "hello")])
    stage.platform.hold()
    async with delivering(stage):
        await until(lambda: len(stage.keys()) == 1)
    assert (await stage.row("a")).state == "sending"
