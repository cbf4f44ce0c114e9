"""The start: made, brought forward, refused, or put aside; never silently empty."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.contract import Address, ChatId, Inbound, MessageId, Person, PersonId
from ohmo.ambient import inert
from ohmo.contracts.turns import Seat
from ohmo.database.migrations import MIGRATIONS, NewerSchema, newest
from ohmo.storefile.inspection import WholeCheck
from ohmo.storefile.open_store import SqliteStore, open_sqlite
from ohmo.storefile.recovery import Health, bring_forward, create, examine, suspicion
from tests.makers import inbound

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(n: int) -> tuple[Inbound, Seat]:
    where = Address("slack", "T1", ChatId(f"C{n % 7}"))
    return (
        inbound(
            where,
            "x" * 200,
            f"k{n}",
            person=Person(PersonId("a"), "A"),
            at=NOW,
            order=f"{n:05}",
            message=MessageId(str(n)),
        ),
        Seat("", "message"),
    )


async def filled(path: Path, count: int = 300) -> None:
    async with open_sqlite(path, clock=lambda: NOW, writer="w", failpoint=inert) as store:
        await store.accept([message(n) for n in range(count)])


def look(path: Path) -> Health:
    return examine(path, lambda: NOW, inert, MIGRATIONS)


async def reopened(path: Path) -> tuple[Health, int, tuple[str, ...]]:
    async with open_sqlite(path, clock=lambda: NOW, writer="w", failpoint=inert) as store:
        report = await store.audit_report()
        await store.accept([message(100_000)])
        assert await store.claim("me", limit=1, ttl=30)
        return store.health, report.accepted, report.problems


async def test_a_new_store_is_made_and_then_sound(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.db"
    assert look(path).state == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    await filled(path)
    assert look(path) == Health("sound")


async def test_a_newer_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.db"
    await filled(path, 3)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match=f"schema 99, this ohmo knows {newest(MIGRATIONS)}"):
        look(path)
    assert path.read_bytes() == before
    assert not (tmp_path / "quarantine").exists()


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def zeroed_start(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes(200) + data[200:])


def noise_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = random.Random(1).randbytes(3000)
    path.write_bytes(data)


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


def no_database(path: Path) -> None:
    path.write_text("Dear diary, " * 500)


def only_its_log(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"left over")
    path.unlink()


@pytest.mark.parametrize(
    "damage",
    [truncated, emptied, zeroed_start, noise_in_the_middle, foreign, no_database, only_its_log],
    ids=lambda d: d.__name__,
)
async def test_a_damaged_store_is_put_aside_and_said(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "ohmo.db"
    await filled(path)
    damage(path)  # pyright: ignore
    hurt = path.read_bytes() if path.exists() else None
    health, accepted, problems = await reopened(path)
    assert health.state == "replaced"
    assert health.quarantined is not None
    assert str(health.quarantined) in health.detail
    assert hurt is None or (health.quarantined / "ohmo.db").read_bytes() == hurt
    assert (accepted, problems) == ((health.saved or {}).get("inbox", 0), ())
    assert look(path) == Health("sound")


async def test_what_can_be_read_is_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.db"
    await filled(path, 2000)
    noise_in_the_middle(path)
    _, accepted, problems = await reopened(path)
    assert accepted > 1000
    assert problems == ()


@pytest.mark.parametrize("seed", range(12))
async def test_random_damage_is_never_silent(tmp_path: Path, seed: int) -> None:
    path, chance = tmp_path / "ohmo.db", random.Random(seed)
    await filled(path, 400)
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 20, 400])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    health, accepted, problems = await reopened(path)
    assert problems == ()
    assert health.state == "replaced" or accepted == 400


def test_a_migration_cut_at_any_statement_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.db"
    create(path, inert, MIGRATIONS)
    following = newest(MIGRATIONS) + 1
    newer = {
        **MIGRATIONS,
        following: (
            "ALTER TABLE meta ADD COLUMN note TEXT",
            "CREATE TABLE extra (a TEXT)",
            "INSERT INTO extra VALUES ('x')",
        ),
    }

    class Cut(Exception):
        pass

    for statement in range(1, 5):
        hits = 0

        def failpoint(name: str, last: int = statement) -> None:
            nonlocal hits
            assert name == "migrate.step"
            hits += 1
            if hits == last:
                raise Cut

        with pytest.raises(Cut):
            bring_forward(path, failpoint, newer)
        assert examine(path, lambda: NOW, inert, MIGRATIONS) == Health("sound")
    bring_forward(path, inert, newer)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone() == (
            str(following),
        )
        assert connection.execute("SELECT a FROM extra").fetchall() == [("x",)]
    with pytest.raises(NewerSchema):
        look(path)


def test_a_first_start_cut_at_any_statement_is_a_first_start_again(tmp_path: Path) -> None:
    class Cut(Exception):
        pass

    def cut(name: str) -> None:
        raise Cut

    path = tmp_path / "ohmo.db"
    with pytest.raises(Cut):
        examine(path, lambda: NOW, cut, MIGRATIONS)
    assert look(path).state == "new"


async def test_a_replacement_that_was_cut_off_before_its_last_step_is_finished_and_said(
    tmp_path: Path,
) -> None:
    """A start that died here used to find nothing the next time, and began empty without a word."""
    path = tmp_path / "ohmo.db"
    await filled(path)
    noise_in_the_middle(path)
    whole = look(path)
    path.rename(path.with_name("ohmo.db.whole"))
    again = look(path)
    assert (again.state, again.detail, again.quarantined) == (
        "replaced",
        whole.detail,
        whole.quarantined,
    )
    assert look(path) == Health("sound")


async def test_a_new_store_that_looks_damaged_is_kept_when_it_is_all_there_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ohmo.db"
    await filled(path)
    noise_in_the_middle(path)
    look(path)
    path.rename(path.with_name("ohmo.db.whole"))
    noise_in_the_middle(path.with_name("ohmo.db.whole"))
    left = path.with_name("ohmo.db.whole").read_bytes()
    assert look(path).state == "replaced"
    assert [
        kept.read_bytes() for kept in tmp_path.glob("quarantine/ohmo.db.whole-*/ohmo.db.whole")
    ] == [left]


async def test_one_flipped_bit_in_a_state_is_a_damage_and_not_a_message_that_waits_for_ever(
    tmp_path: Path,
) -> None:
    """A read-only connection checks no CHECK constraint: the start once called such a store sound,
    and nobody ever looked for "waitinf"."""
    path = tmp_path / "ohmo.db"
    await filled(path, 3)
    raw = path.read_bytes()
    at = raw.rindex(b"waiting", 0, len(raw))
    while b"xxxx" not in raw[at - 300 : at]:  # a row of the inbox, not the schema
        at = raw.rindex(b"waiting", 0, at)
    path.write_bytes(raw[: at + 6] + b"f" + raw[at + 7 :])
    found = look(path)
    assert found.state == "replaced"
    assert "CHECK constraint failed in inbox" in found.detail


@asynccontextmanager
async def as_if_large(path: Path) -> AsyncGenerator[SqliteStore]:
    """A store too large to be read whole before anybody uses it."""
    async with open_sqlite(
        path, clock=lambda: NOW, writer="w", failpoint=inert, reading=WholeCheck(0, 0)
    ) as store:
        yield store


def pages_of(path: Path, table: str) -> tuple[int, int]:
    """Where the first page of a table lies in the file, and how long a page is."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    return (root - 1) * size, size


async def test_a_large_store_is_used_at_once_and_its_damage_is_found_later_and_mended_by_the_next_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ohmo.db"
    await filled(path)
    at, size = pages_of(path, "usage")
    raw = bytearray(path.read_bytes())
    raw[at : at + size] = bytes([7]) * size
    path.write_bytes(raw)
    async with as_if_large(path) as store:
        assert store.health == Health("sound", whole=False)
        assert "damaged" in await asyncio.wait_for(store.fatal, 20)
    async with as_if_large(path) as store:
        assert store.health.state == "replaced"
        assert "put aside" in store.health.detail
        assert (await store.audit_report()).accepted == 300
    assert not suspicion(path).exists()
    async with as_if_large(path) as store:
        assert store.health == Health("sound", whole=False)


async def test_a_large_store_can_be_closed_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ohmo.db"
    await filled(path, 3_000)
    async with as_if_large(path) as store:
        await store.accept([message(100_001)])
        await asyncio.sleep(0)
    assert not suspicion(path).exists()
    assert look(path) == Health("sound")


async def test_a_large_store_without_its_threads_is_put_aside_before_anybody_uses_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ohmo.db"
    await filled(path)
    at, size = pages_of(path, "threads")
    raw = bytearray(path.read_bytes())
    raw[at : at + size] = bytes([7]) * size
    path.write_bytes(raw)
    async with as_if_large(path) as store:
        assert store.health.state == "replaced"
