"""No statement of the daily path reads a whole table, whatever its history."""

from __future__ import annotations

import sqlite3
from contextlib import closing as closed
from datetime import timedelta
from pathlib import Path
from typing import Any

from store_words import (
    ANSWER,
    BIRTH,
    COMMAND,
    EDIT,
    OTHER,
    Clock,
    Scene,
    ask,
    card,
    closing,
    edited,
    ident,
    model,
    part,
    pressed,
    result,
    row,
    said,
    started,
    told,
    wake,
)

from ohmo.ambient import inert
from ohmo.contracts.messages import Usage
from ohmo.contracts.outbox import Ruling
from ohmo.contracts.provider import Payer
from ohmo.contracts.turns import CursorSave, End, Seat
from ohmo.database.sql_store import SqlStore
from ohmo.store.statements import Driver, MakeOp, Moment, Op
from ohmo.storefile.open_store import open_sqlite

# Small by nature, or read by a person who asked for everything.
SMALL = {"grants", "people", "leases", "meta"}


class Listening:
    """Writes down every statement that passes."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.listeners = driver.listeners
        self.statements: set[str] = set()

    async def write(self, make: MakeOp[Any], lock: str = "") -> Any:
        return await self._driver.write(lambda at: self._noted(make, at), lock)

    async def read(self, make: MakeOp[Any], *, slow: bool = False, hot: bool = False) -> Any:
        return await self._driver.read(lambda at: self._noted(make, at), slow=slow, hot=hot)

    def _noted(self, make: MakeOp[Any], at: Moment) -> Op[Any]:
        op = make(at)
        try:
            statement = next(op)
            while True:
                self.statements.add(statement[0])
                statement = op.send((yield statement))
        except StopIteration as stop:
            return stop.value


async def everyday(store: SqlStore, clock: Clock) -> None:
    scene = Scene(store, clock)
    await store.accept(
        [(said("a"), Seat("", "message")), (said("c", at=OTHER), Seat("", "message"))],
        CursorSave("slack", "T1", "c", "v"),
    )
    await scene.hear(said("album", album="x"), seat=Seat("", "message", hold=0.5))
    await scene.hear(wake("w", due=BIRTH), seat=Seat("", "wake"))
    await scene.hear(edited("a", "b", key="e"), seat=EDIT)
    claim, work = await scene.begin()
    await store.release(claim, work.turn, error="x")
    claim, work = await scene.begin()
    await store.renew([claim], 30)
    await store.record(
        claim,
        work.turn,
        [model("", ["1"]), started("1"), result("1")],
        usage=Usage("m", "t", 1, 1, 1, 1, 1),
    )
    await store.draft(claim, work.turn, row("draft", at=claim.address, kind="draft"))
    await scene.deliver("draft")
    clock.tick(1)
    await store.steer(claim, work.turn, told)
    await store.park(
        claim, work.turn, [ask("q1", "1"), ask("q2", "2")], timeout=60, card=card, closing=closing
    )
    press = (await scene.hear(pressed("yes", key="p"), seat=ANSWER))[0]
    ruling = Ruling(ident("q1"), "allowed", "ada", arrival=(press.thread, press.seq))
    await store.answer(ruling, posts=[row("ok")], card=card, closing=closing)
    await store.next_deadline()
    await store.open_questions()
    clock.tick(61)
    await store.expire(card, closing)
    claim, work = await scene.begin()
    await store.consume(claim, work.turn, "1", "d")
    await store.finish(claim, work.turn, [model("x")], [row("final", target=None)], End("done"))
    await store.outgoing("slack", "T1")
    for head in await store.outgoing("slack", "T1", [claim.thread]):
        await store.unsent(head.row.id, retry_after=1, error="x")
        await store.sending(head.row.id, [part()])
    command = (await scene.hear(said("/stop"), seat=COMMAND))[0]
    await store.unhandled()
    await store.stop(
        command.thread,
        command.seq,
        person="ada",
        fresh=True,
        posts=[row("stopped")],
        closing=closing,
    )
    await store.post([row("note")])
    await store.steps(claim.thread, 0)
    await store.history(claim.thread)
    await store.find_thread(OTHER)
    await store.inbox(state="dead")
    await store.outbox()
    await store.usage()
    await store.spent(Payer("t", claim.thread, "slack:ada", "j"))
    await store.counts()
    await store.cursor("slack", "T1", "c")
    await store.lease("l", "me", 5)
    await store.reclaim("me")
    await store.prune(clock.now - timedelta(days=1))


async def test_no_everyday_statement_reads_a_whole_table(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "ohmo.db"
    async with open_sqlite(path, clock=clock, writer="w", failpoint=inert) as whole:
        listening = Listening(whole.driver)
        await everyday(SqlStore(listening), clock)
    found: list[str] = []
    with closed(sqlite3.connect(path)) as connection:
        for sql in sorted(listening.statements):
            for *_, detail in connection.execute(
                f"EXPLAIN QUERY PLAN {sql}", (None,) * sql.count("?")
            ):
                # walking an index of what is open, or of what ended in order of its end, is bounded
                # by what is asked for
                if (
                    detail.startswith("SCAN")
                    and "INDEX" not in detail
                    and "CONSTANT ROWS" not in detail
                    and not any(detail.startswith(f"SCAN {name}") for name in SMALL)
                ):
                    found.append(f"{detail}: {sql}")
    assert len(listening.statements) > 60
    assert found == []
