"""Several instances on one PostgreSQL."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack

import pytest
from store_engines import postgres_store
from store_words import Clock, Scene, ident, model, row, said, told

from channels.contract import Address, ChatId
from channels.errors import Unavailable
from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import End, Seat

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.timeout(180)]
CHATS, EACH = 12, 6


def place(chat: int) -> Address:
    return Address("slack", "T1", ChatId(f"C{chat:02}"))


async def test_four_instances_answer_every_message_once_and_in_order(clean_postgres: str) -> None:
    clock = Clock()
    order: dict[str, list[str]] = defaultdict(list)
    done = 0

    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(postgres_store(clean_postgres, clock)) for _ in range(4)
        ]

        async def speak(number: int) -> None:
            store = stores[number]
            for n in range(EACH):
                for chat in range(number, CHATS, 2):
                    # every chat is spoken to through two instances at once; the other delivers the
                    # same thing again
                    await store.accept(
                        [
                            (
                                said(f"{chat}.{n}", order=f"{n:03}", at=place(chat)),
                                Seat("", "message"),
                            )
                        ]
                    )

        async def answer(number: int) -> None:
            nonlocal done
            store, owner = stores[number], f"instance{number}"
            while done < CHATS * EACH:
                claims = await store.claim(owner, limit=3, ttl=30)
                for claim in claims:
                    work = await store.work(
                        claim,
                        ident(f"t{number}x{claim.generation}x{claim.thread[:8]}x"),
                        collect=False,
                        step=told,
                    )
                    if work is None:
                        continue
                    order[claim.thread] += [a.text for a in work.arrivals]
                    other = place((int(work.arrivals[0].text.split(".")[0]) + 1) % CHATS)
                    posts = [
                        row(f"{work.arrivals[0].text}a", at=claim.address),
                        row(f"{work.arrivals[0].text}b", at=other),
                    ]
                    await store.finish(claim, work.turn, [model("x")], posts, End("done"))
                    done += len(work.arrivals)
                if not claims:
                    await asyncio.sleep(0.01)

        await asyncio.wait_for(
            asyncio.gather(speak(0), speak(1), speak(2), speak(3), *(answer(n) for n in range(4))),
            120,
        )
        report = await stores[0].audit_report()
    assert (report.problems, dict(report.endings), report.waiting + report.taken) == (
        (),
        {"answered": CHATS * EACH},
        0,
    )
    assert all(
        texts == sorted(texts, key=lambda t: int(t.split(".")[1])) for texts in order.values()
    )
    assert report.posts["ready"] == 2 * CHATS * EACH


async def test_a_zombie_on_another_instance_writes_nothing(clean_postgres: str) -> None:
    clock = Clock()
    async with (
        postgres_store(clean_postgres, clock) as one,
        postgres_store(clean_postgres, clock) as two,
    ):
        await Scene(one, clock).hear(said("a"))
        claim, work = await Scene(one, clock, owner="one").begin()
        clock.tick(31)
        _, resumed = await Scene(two, clock, owner="two").begin()
        assert (resumed.turn, resumed.starts) == (work.turn, 2)
        with pytest.raises(LeaseLost):
            await one.finish(claim, work.turn, [], [row("zombie")], End("done"))
        assert await one.outbox() == []


async def test_threads_are_shared_and_never_owned_by_two(clean_postgres: str) -> None:
    clock = Clock()
    async with (
        postgres_store(clean_postgres, clock) as one,
        postgres_store(clean_postgres, clock) as two,
    ):
        await one.accept([(said(f"{n}", at=place(n)), Seat("", "message")) for n in range(20)])
        claimed = await asyncio.gather(
            *(
                store.claim(name, limit=4, ttl=30)
                for _ in range(4)
                for store, name in ((one, "one"), (two, "two"))
            )
        )
        threads = [claim.thread for claims in claimed for claim in claims]
        assert len(threads) == len(set(threads)) == 20


async def test_one_instance_hears_what_another_commits(clean_postgres: str) -> None:
    clock = Clock()
    async with (
        postgres_store(clean_postgres, clock) as one,
        postgres_store(clean_postgres, clock) as two,
    ):
        heard = asyncio.Event()
        two.listen(lambda hints: heard.set() if Hint("any") in hints else None)
        await one.accept([(said("a"), Seat("", "message"))])
        await asyncio.wait_for(heard.wait(), 10)


async def test_a_cut_connection_is_unavailable_at_most_once(clean_postgres: str) -> None:
    import asyncpg

    clock = Clock()
    async with postgres_store(clean_postgres, clock) as store:
        await store.accept([(said("a"), Seat("", "message"))])
        connection = await asyncpg.connect(clean_postgres)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ohmo'"
        )
        await connection.close()
        try:
            await store.accept([(said("b"), Seat("", "message"))])
        except Unavailable:
            await store.accept([(said("b"), Seat("", "message"))])
        try:
            assert len(await store.inbox()) == 2
        except Unavailable:
            assert len(await store.inbox()) == 2
