"""How punctual jobs are while people talk: ``python -m benchmarks.cron``. From a slot's instant to
its claim and to the start of its turn."""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from benchmarks.rig import FIRST_CHAT, Chats, bench, percentile, show

LATENESS = """SELECT o.at - o.due, u.began - o.due FROM occurrences o JOIN turns u
  ON u.turn = o.turn WHERE o.state = 'done'"""


def jobs(count: int) -> str:
    """As many jobs, every two to six seconds."""
    return json.dumps(
        {
            "jobs": [
                {
                    "name": f"job{n}",
                    "every": f"{2 + n % 5}s",
                    "prompt": f"tick {n}",
                    "catch_up": "none",
                }
                for n in range(count)
            ]
        }
    )


async def talk(chats: Chats, chat: int) -> None:
    number = 0
    while True:
        text = f"word {number} of {chat}"
        chats.says(chat, text)
        await chats.answered(chat, text)
        number += 1
        await asyncio.sleep(0.2)


def measured(root: Path) -> tuple[list[float], list[float]]:
    """Milliseconds from a slot to its claim, and to the start of its turn."""
    with closing(sqlite3.connect(next(root.rglob("ohmo.db")))) as store:
        rows = store.execute(LATENESS).fetchall()
    return [float(claimed) for claimed, _ in rows], [float(began) for _, began in rows]


async def main(count: int, people: int, seconds: float) -> None:
    async with bench(cron=jobs(count)) as one:
        await asyncio.sleep(3)
        talking = [
            asyncio.create_task(talk(one.chats, FIRST_CHAT + number)) for number in range(people)
        ]
        try:
            async with one.daemon.client() as session:
                await asyncio.sleep(seconds)
                lag = (await one.daemon.get("/api/v1/status", session))["cron"]["lag_seconds"]
        finally:
            for task in talking:
                task.cancel()
        await one.daemon.stop()
        claimed, began = measured(one.daemon.home)
    print(f"{count} jobs for {seconds:.0f} s, {len(claimed)} runs, {people} people talking")
    for label, values in (
        ("from the slot to its claim", claimed),
        ("from the slot to the start of its turn", began),
    ):
        show(f"{label}, p50", percentile(values, 0.5), "ms")
        show(f"{label}, p99", percentile(values, 0.99), "ms", "<= 100")
    show("lag that status names", 1e3 * float(lag), "ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--people", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    asyncio.run(main(given.jobs, given.people, given.seconds))
