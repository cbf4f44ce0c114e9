"""kill -9 around the moment when what a call took is written: totals and rows never differ, and at
most the call that was hit is not counted."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
NOTHING = Turn(empty=True, usage={"output_tokens": 70})  # thrown away and asked again
WHOLE = Turn(text="done", usage={"output_tokens": 500})


def books(home: Keyboard) -> tuple[int, int, int, int]:
    """Tokens of all rows; of the totals of the day, of conversations and of turns."""
    with closing(sqlite3.connect(home.home / "ohmo.db")) as store:
        tokens = "SUM(input + cached + written + output)"
        (rows,) = store.execute(f"SELECT COALESCE({tokens}, 0) FROM usage").fetchone()
        totals = [
            store.execute(
                "SELECT COALESCE(SUM(tokens), 0) FROM spending WHERE scope = ?", (scope,)
            ).fetchone()[0]
            for scope in ("day", "thread", "turn")
        ]
    return rows, totals[0], totals[1], totals[2]


@pytest.mark.parametrize(
    ("point", "lost"),
    [("usage.before", 2), ("usage.counted", 1), ("outbox.before", 1), ("outbox.committed", 0)],
)
async def test_a_kill_while_spending_is_written_loses_the_call_it_hit_and_no_total(
    tmp_path: Path, point: str, lost: int
) -> None:
    server = ModelServer([NOTHING], default=lambda _: WHOLE)
    async with keyboard(
        tmp_path, server, running=False, budgets={"day": {"tokens": 900_000}}
    ) as home:
        await home.daemon.start(f"{point}=kill@1")
        asking = await home.start("-p", "hello")
        async with asyncio.timeout(60):
            while home.daemon.alive:
                await asyncio.sleep(0.05)
        await home.daemon.start()

        async def answered() -> bool:
            return "answered" in (await home.ohmo("inbox", "list")).out

        async with asyncio.timeout(60):
            while not await answered():
                await asyncio.sleep(0.2)
        await asking.wait()
        rows, *totals = books(home)
        assert totals == [rows] * 3
        missing = server.billed - rows
        kept = sorted(sum(bill.values()) for bill in server.bills)
        assert missing == {0: 0, 1: kept[-1], 2: kept[0] + kept[-1]}[lost]

        async def told() -> bool:  # what was spent today may be that of a moment ago
            return f"{rows} tokens of 900000" in (await home.ohmo("status")).out

        await until("the status tells what was spent", told)


async def test_32_turns_at_once_never_pass_the_budget_of_the_day(tmp_path: Path) -> None:
    """What is being asked is held beside what was spent, so that it is not even passed by the calls
    in flight; and most of it is used."""
    limit = 100_000
    server = ModelServer(default=lambda _: Turn(text="done", usage={"output_tokens": 3_000}))
    async with keyboard(tmp_path, server, budgets={"day": {"tokens": limit}}) as home:

        async def says(number: int) -> None:
            message = {"text": f"number {number}"}
            status, _ = await home.daemon.call("POST", "/api/v1/messages", message)
            assert status in (200, 202)

        await asyncio.gather(*map(says, range(32)))
        await until("all are answered or refused", home.daemon.idle)
        one = max(sum(bill.values()) for bill in server.bills)
        assert server.count < 32
        assert limit - one - 20_000 < server.billed <= limit  # the longest answer might have come
        rows, *totals = books(home)
        assert totals == [rows] * 3
        assert rows == server.billed
        turns = home.daemon.rows("SELECT state, COALESCE(reason, '') FROM turns")
        over = [reason for state, reason in turns if state == "failed"]
        assert len(turns) == 32
        assert len(over) == 32 - server.count
        assert all("the budget of a day is used up" in reason for reason in over)
