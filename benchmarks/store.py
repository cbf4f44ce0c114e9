"""What the store costs: CPU and bytes per message alone and grouped, with and without history.
``python benchmarks/store.py [--messages N]``."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from channels.contract import (
    Address,
    ChatId,
    Inbound,
    MessageId,
    Outbound,
    Part,
    Person,
    PersonId,
    Receipt,
)
from ohmo.ambient import IdSource, inert
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.messages import ModelStep, Text, UserStep
from ohmo.contracts.outbox import PartState, PostRow
from ohmo.contracts.turns import Claim, End, Seat
from ohmo.storefile.open_store import SqliteStore, open_sqlite

TEXT = (
    "Could you look at the build of last night and tell me what broke? " * 7
)  # about 450 characters
ADA = Person(PersonId("ada"), "Ada")
new_id = IdSource()


def message(n: int, chats: int) -> tuple[Arrival, Seat]:
    where = Address("telegram", "bot", ChatId(f"chat{n % chats}"))
    return (
        Inbound(
            key=f"m:{n % chats}:{n:09d}",
            address=where,
            person=ADA,
            at=datetime.now(UTC),
            order=f"{n:09d}",
            message=MessageId(str(n)),
            text=TEXT,
            private=True,
            addressed=True,
        ),
        Seat("", "message"),
    )


def told(_: Arrival) -> UserStep:
    return UserStep((Text(TEXT),), "ada", "message")


ANSWER = ModelStep((Text(TEXT),), "model", "end")


async def whole(store: SqliteStore, claim: Claim) -> None:
    """From the claim to the receipt: work, finish, sending, sent."""
    work = await store.work(claim, new_id(), collect=False, step=told)
    assert work is not None
    post = PostRow(new_id(), "message", Outbound(claim.address, TEXT))
    await store.finish(claim, work.turn, [ANSWER], [post], End("done"))
    await store.sending(post.id, [PartState(Part("post", TEXT))])
    await store.sent(post.id, [PartState(Part("post", TEXT), Receipt(MessageId("1")))])


async def one_by_one(store: SqliteStore, start: int, count: int) -> None:
    """One chat, each message alone: six transactions."""
    for n in range(start, start + count):
        await store.accept([message(n, 1)])
        (claim,) = await store.claim("me", limit=1, ttl=30)
        await whole(store, claim)


async def at_once(store: SqliteStore, start: int, count: int, chats: int) -> None:
    """Many chats: whatever waits is committed together."""

    async def chat(index: int) -> None:
        for n in range(start + index, start + count, chats):
            await store.accept([message(n, chats)])

    async def work() -> None:
        done = 0
        while done < count:
            claims = await store.claim("me", limit=chats, ttl=30)
            await asyncio.gather(*(whole(store, claim) for claim in claims))
            done += len(claims)

    await asyncio.gather(work(), *(chat(i) for i in range(chats)))


async def accept_only(store: SqliteStore, start: int, count: int) -> None:
    await asyncio.gather(*(store.accept([message(n, 100)]) for n in range(start, start + count)))


def written() -> int:
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


async def measure(label: str, work: object, count: int) -> float:
    wall, cpu, bytes_before = time.perf_counter(), time.process_time(), written()
    await work  # pyright: ignore[reportGeneralTypeIssues]
    wall, cpu, total = (
        time.perf_counter() - wall,
        time.process_time() - cpu,
        written() - bytes_before,
    )
    print(
        f"{label:44} {count / wall:8.0f} messages/s {1000 * cpu / count:7.3f} ms CPU"
        f" {1000 * wall / count:7.3f} ms wall {total / count / 1024:6.1f} KB written"
    )
    return cpu / count


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("OHMO_BENCH_DIR")) as folder:
        async with open_sqlite(
            Path(folder) / "ohmo.db", clock=lambda: datetime.now(UTC), writer="b", failpoint=inert
        ) as store:
            await one_by_one(store, 1_000_000_000, 20)
            early = await measure(
                "whole message, one chat, early", one_by_one(store, 0, count // 4), count // 4
            )
            await measure(
                "accept only, grouped", accept_only(store, 10_000_000, count * 4), count * 4
            )
            await measure(
                "accepted backlog answered, grouped", at_once(store, 20_000_000, count, 100), count
            )
            await measure(
                "whole message, 100 chats, grouped", at_once(store, 30_000_000, count, 100), count
            )
            late = await measure(
                "whole message, one chat, late", one_by_one(store, 500_000, count // 4), count // 4
            )
            print(f"late / early CPU: {late / early:.2f}")
            size = (Path(folder) / "ohmo.db").stat().st_size
            start = time.perf_counter()
            report = await store.audit_report()
            print(
                f"{size / 1e6:.0f} MB, {report.accepted} arrivals, problems {len(report.problems)},"
                f" audit in {time.perf_counter() - start:.2f} s"
            )
            await measure("counts()", store.counts(), 1)
        start = time.perf_counter()
        async with open_sqlite(
            Path(folder) / "ohmo.db", clock=lambda: datetime.now(UTC), writer="b", failpoint=inert
        ):
            print(f"opened again, checked: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=2000)
    asyncio.run(main(parser.parse_args().messages))
