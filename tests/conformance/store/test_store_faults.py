"""Cuts: between any two statements, by SIGKILL at any time, between renewing and releasing."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_engines import sqlite_store
from store_words import (
    CHAT,
    COMMAND,
    OTHER,
    Clock,
    Scene,
    ask,
    card,
    closing,
    ident,
    model,
    result,
    row,
    said,
    told,
)

from ohmo.ambient import inert
from ohmo.contracts.messages import Usage
from ohmo.contracts.outbox import Ruling
from ohmo.contracts.turns import End
from ohmo.database.sql_store import SqlStore
from ohmo.store.statements import Driver, MakeOp, Moment, Op
from ohmo.storefile.open_store import open_sqlite


class Cut(Exception):
    """The power went away."""


class CuttingDriver:
    """Passes everything on; the next write ends after ``after`` statements, when asked."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.listeners = driver.listeners
        self.after: int | None = None

    async def write(self, make: MakeOp[Any], lock: str = "") -> Any:
        after, self.after = self.after, None
        return await self._driver.write(
            make if after is None else lambda at: cut(make, at, after), lock
        )

    async def read(self, make: MakeOp[Any], *, slow: bool = False, hot: bool = False) -> Any:
        return await self._driver.read(make, slow=slow, hot=hot)


def cut(make: MakeOp[Any], at: Moment, after: int) -> Op[Any]:
    op = make(at)
    try:
        statement = next(op)
        for _ in range(after):
            statement = op.send((yield statement))
    except StopIteration as stop:
        return stop.value
    raise Cut


async def picture(store: Any) -> Any:
    threads = await store.threads()
    return [
        threads,
        [await store.history(t.thread) for t in threads],
        await store.open_questions(),
        await store.usage(),
        await store.grants(),
    ]


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "finish": lambda s, c, t: s.finish(
        c, t, [model("x")], [row("final"), row("copy", at=OTHER)], End("done")
    ),
    "record": lambda s, c, t: s.record(
        c,
        t,
        [model("", ["1"]), result("1")],
        posts=[row("p")],
        usage=Usage("m", "turn", 1, 1, 1, 1, 1),
    ),
    "park": lambda s, c, t: s.park(
        c, t, [ask("q1", "1"), ask("q2", "2")], timeout=5, card=card, closing=closing
    ),
    "interrupt": lambda s, c, t: s.interrupt(c, t, closing),
    "stop": lambda s, c, t: s.stop(
        c.thread, 2, person="ada", fresh=True, posts=[row("ok")], closing=closing
    ),
    "steer": lambda s, c, t: s.steer(c, t, told),
    "accept": lambda s, c, t: s.accept(
        [(said("new"), COMMAND), (said("new2", at=OTHER, aliases=("alias",)), COMMAND)]
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_cut_after_any_statement_leaves_no_half_state(
    name: str, tmp_path: Path
) -> None:
    clock = Clock()
    async with open_sqlite(tmp_path / "ohmo.db", clock=clock, writer="w", failpoint=inert) as whole:
        driver = CuttingDriver(whole.driver)
        store = SqlStore(driver)
        scene = Scene(store, clock)
        await scene.hear(said("a"))
        await scene.hear(said("/stop"), seat=COMMAND)
        await scene.hear(said("b"))
        claim, work = await scene.begin()
        await store.draft(claim, work.turn, row("draft", kind="draft"))
        await scene.deliver("draft")
        before, statements = await picture(store), 0
        while True:
            driver.after = statements
            try:
                await CALLS[name](store, claim, work.turn)
            except Cut:
                assert await picture(store) == before, f"half state after {statements} statements"
                statements += 1
            else:
                break
        assert statements >= 3
        assert await picture(store) != before
        assert (await store.audit_report()).problems == ()


WORKER = """
import asyncio, sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from store_words import Clock, closing, ident, model, part, row, said, told, CHAT
from channels.contract import Address, ChatId
from ohmo.contracts.store import End, Seat
from ohmo.ambient import inert
from ohmo.ambient import IdSource
from ohmo.storefile.open_store import open_sqlite

async def main() -> None:
    new_id = IdSource()
    async with open_sqlite(Path(sys.argv[1]), clock=lambda: datetime.now(UTC), writer="w", failpoint=inert) as store:
        assert store.health.state in ("new", "sound"), store.health
        me = new_id()
        saying = defaultdict(asyncio.Lock)
        await store.reclaim(me)
        print("ready", flush=True)

        async def speak(chat: int) -> None:
            while True:
                text = new_id()
                await store.accept([(said(text, at=Address("slack", "T1", ChatId(f"C{chat}"))), SEAT)])
                print("in", text, flush=True)

        async def answer() -> None:
            while True:
                claims = await store.claim(me, limit=8, ttl=30)
                await asyncio.gather(*(turn(c) for c in claims))

        async def turn(claim) -> None:
            work = await store.work(claim, new_id(), collect=False, step=told)
            if work is None:
                return
            post = row(new_id(), " ".join(a.text for a in work.arrivals), at=claim.address)
            await store.record(claim, work.turn, [model("thinking")])
            await store.finish(claim, work.turn, [model("done")], [post], End("done"))
            async with saying[claim.thread]:  # in order, as delivery does
                for head in await store.outgoing("slack", "T1", [claim.thread]):
                    await store.sending(head.row.id, [part()])
                    await store.sent(head.row.id, [part(receipt="r")])
                    print("out", head.row.id, flush=True)

        await asyncio.gather(answer(), *(speak(chat) for chat in range(6)))

SEAT = Seat("", "message")
asyncio.run(main())
"""


@pytest.mark.timeout(300)
async def test_nothing_accepted_is_lost_when_the_process_is_killed_at_random(
    tmp_path: Path,
) -> None:
    """OHMO_TEST_KILLS: how often (the long campaign asks for more)."""
    path, chance = tmp_path / "ohmo.db", random.Random(7)
    accepted: set[str] = set()
    sent: set[str] = set()
    for _ in range(int(os.environ.get("OHMO_TEST_KILLS", "12"))):
        command = [sys.executable, "-c", WORKER, str(path), str(Path(__file__).parent)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            first = child.stdout.readline()
            assert first == "ready\n", child.stderr.read()
            lines = chance.randrange(1, 400)
            for _ in range(lines):
                kind, name = child.stdout.readline().split()
                (accepted if kind == "in" else sent).add(name)
            child.send_signal(signal.SIGKILL)
            for line in child.stdout.read().split("\n")[:-1]:  # said before the kill, read after it
                kind, name = line.split()
                (accepted if kind == "in" else sent).add(name)
    async with sqlite_store(path, Clock()) as store:
        report = await store.audit_report()
        known = {info.arrival.text for info in await store.inbox(limit=1_000_000)}
        posts = {r.row.id: r for r in await store.outbox(limit=1_000_000)}
        answered = {
            info.arrival.text for info in await store.inbox(state="answered", limit=1_000_000)
        }
    assert report.problems == ()
    assert accepted - known == set()
    assert sent - posts.keys() == set()
    assert all(posts[post].state == "sent" for post in sent)
    said_once = [text for post in posts.values() for text in post.row.outbound.text.split()]
    assert len(said_once) == len(set(said_once))
    assert set(said_once) == answered


async def test_releasing_defeats_a_renewal_that_is_on_its_way(scene: Scene) -> None:
    await scene.hear(said("a"))
    for _ in range(20):
        claim, work = await scene.begin()
        renewals = [asyncio.ensure_future(scene.store.renew([claim], 30)) for _ in range(3)]
        await scene.store.release(claim, work.turn)
        await asyncio.gather(*renewals)
        late = await scene.store.renew([claim], 30)
        assert late == {claim}
        assert (await scene.store.thread(claim.thread)).state == "ready"


async def test_two_answers_at_once_are_one(scene: Scene) -> None:
    await scene.hear(said("a"))
    claim, work = await scene.begin()
    await scene.store.park(
        claim, work.turn, [ask("q", "1")], timeout=60, card=card, closing=closing
    )
    calls = [
        scene.store.answer(Ruling(ident("q"), v, "ada"), card=card, closing=closing)
        for v in ("allowed", "denied", "allowed")
    ]
    assert sorted(await asyncio.gather(*calls)) == ["late", "late", "ok"]


async def test_the_same_message_twice_at_once_is_stored_once(scene: Scene) -> None:
    accepted = await asyncio.gather(
        *(scene.hear(said("a", key=f"k{n}", aliases=("same",))) for n in range(10))
    )
    assert sorted(a[0].duplicate for a in accepted) == [False] + [True] * 9
    assert len({(a[0].thread, a[0].seq) for a in accepted}) == 1


async def test_a_store_opened_again_goes_on(
    open_store: Any, request: pytest.FixtureRequest
) -> None:
    if "memory" in request.node.name:
        return  # the model keeps nothing
    clock = Clock()
    async with open_store(clock) as store:
        await Scene(store, clock).hear(said("a"))
        _, work = await Scene(store, clock, owner="first").begin()
    async with open_store(clock) as store:
        scene = Scene(store, clock, owner="second")
        assert await store.reclaim("second") == 1
        again, resumed = await scene.begin()
        assert (resumed.turn, resumed.starts, again.address) == (work.turn, 2, CHAT)
