"""One life of a store on a disk that fails (see test_store_disk.py): ``disk_life.py DATABASE
FIRST`` prints how it ended and what it acknowledged."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from channels.contract import Address, ChatId, Inbound, MessageId, Person, PersonId
from channels.errors import Unavailable
from ohmo.ambient import inert
from ohmo.contracts.turns import Seat
from ohmo.storefile.open_store import SqliteStore, open_sqlite

MANY = 30
TRIES = 5


def said(number: int) -> Inbound:
    return Inbound(
        key=f"e{number}",
        address=Address("telegram", "1", ChatId("7")),
        person=Person(PersonId("1"), "Ada"),
        at=datetime.now(UTC),
        order=f"{number:012}",
        message=MessageId(str(number)),
        text="x" * 2_000,
        private=True,
        addressed=True,
    )


async def stored(store: SqliteStore, number: int) -> bool:
    for _ in range(TRIES):
        try:
            await store.accept([(said(number), Seat("", "message"))])
        except Unavailable:
            if store.fatal.done():
                return False
        else:
            return True
    return False


async def live(database: Path, first: int) -> tuple[str, int]:
    number = first
    try:
        async with open_sqlite(
            database, clock=lambda: datetime.now(UTC), writer="w", failpoint=inert
        ) as store:
            while number < first + MANY:
                if not await stored(store, number):
                    return "fatal" if store.fatal.done() else "away", number
                number += 1
            return "replaced" if store.health.detail else "all", number
    except Unavailable:
        return "closed", number


if __name__ == "__main__":
    why, known = asyncio.run(live(Path(sys.argv[1]), int(sys.argv[2])))
    print(json.dumps({"ended": why, "acknowledged": known}))
