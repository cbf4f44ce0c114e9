"""The writing thread: groups, bad neighbours, full disks, failed fsyncs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from channels.errors import Unavailable
from ohmo.contracts.errors import Conflict, Damaged
from ohmo.contracts.store import Hint
from ohmo.database.writer import Writer
from ohmo.store.statements import Instance, Moment, Op, Undo

moment = Instance(lambda: datetime.fromtimestamp(0, UTC), "w").moment


class Bench:
    """A writer over one small table, with its doors to the outside."""

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        # type: ignore[var-annotated]
        self.path = path
        self.heard = []
        self.died = asyncio.Event()
        self.writer = Writer(str(path), connect, self.hear, lambda _: self.died.set())

    def hear(self, hints: Sequence[Hint]) -> None:
        self.heard.append(list(hints))

    async def put(self, key: str, body: str = "x") -> str:
        return await self.writer.submit(lambda at: put(at, key, body), moment())

    def keys(self) -> list[str]:
        with sqlite3.connect(self.path) as connection:
            return [row[0] for row in connection.execute("SELECT key FROM item ORDER BY rowid")]


def put(at: Moment, key: str, body: str) -> Op[str]:
    yield "INSERT INTO item (key, body) VALUES (?, ?)", (key, body)
    at.ready(key)
    return key


def pragma(text: str) -> Op[None]:
    yield text, ()


@asynccontextmanager
async def bench(
    path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> AsyncGenerator[Bench]:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, factory=factory
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS item (key TEXT PRIMARY KEY, body TEXT)")
        return connection

    made = Bench(path, connect)
    made.writer.start()
    try:
        yield made
    finally:
        await made.writer.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "item.db"


async def hold_back(writer: Writer) -> threading.Event:
    """The writer is busy until the event is set, so that what is submitted meanwhile becomes one
    group."""
    entered, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(at: Moment) -> Op[None]:
        loop.call_soon_threadsafe(entered.set)
        assert go.wait(10)
        yield "SELECT 1", ()

    waiting = asyncio.ensure_future(writer.submit(wait, moment()))
    await entered.wait()
    waiting.add_done_callback(lambda task: task.result())
    return go


async def test_a_bad_operation_does_not_fail_its_neighbours(path: Path) -> None:
    def broken(at: Moment) -> Op[None]:
        yield from put(at, "half", "")
        raise RuntimeError("bug")

    def changed_its_mind(at: Moment) -> Op[str]:
        yield from put(at, "undone", "")
        raise Undo("nothing")

    async with bench(path) as b:
        go = await hold_back(b.writer)
        calls = [
            b.put("a"),
            b.put("a"),
            b.writer.submit(broken, moment()),
            b.writer.submit(changed_its_mind, moment()),
            b.put("b"),
        ]
        together = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0)
        go.set()
        first, doubled, bug, undone, last = await together
        assert (first, undone, last) == ("a", "nothing", "b")
        assert isinstance(doubled, Conflict)
        assert isinstance(bug, RuntimeError)
        assert b.keys() == ["a", "b"]
        assert [[h.thread for h in hints] for hints in b.heard if hints] == [["a", "b"]]


async def test_alone_an_operation_fails_and_undoes_like_in_a_group(path: Path) -> None:
    def changed_its_mind(at: Moment) -> Op[str]:
        yield from put(at, "undone", "")
        raise Undo("nothing")

    async with bench(path) as b:
        assert await b.put("a") == "a"
        with pytest.raises(Conflict):
            await b.put("a")
        assert await b.writer.submit(changed_its_mind, moment()) == "nothing"
        assert await b.put("b") == "b"
        assert b.keys() == ["a", "b"]
        assert [hints for hints in b.heard if hints] == [[Hint("ready", "a")], [Hint("ready", "b")]]


async def test_a_cancelled_caller_hurts_nobody(path: Path) -> None:
    async with bench(path) as b:
        go = await hold_back(b.writer)
        gone, stays = asyncio.ensure_future(b.put("gone")), asyncio.ensure_future(b.put("stays"))
        await asyncio.sleep(0)
        gone.cancel()
        go.set()
        assert await stays == "stays"
        assert gone.cancelled()


async def test_a_full_disk_is_unavailable_and_heals_without_a_restart(path: Path) -> None:
    async with bench(path) as b:
        await b.put("before")
        await b.writer.submit(lambda _: pragma("PRAGMA max_page_count = 30"), moment())
        filling = (b.put(f"big{n}", "x" * 20_000) for n in range(100))
        outcomes = await asyncio.gather(*filling, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        assert "the disk is full" in str(outcomes[0])
        with pytest.raises(Unavailable):
            await b.put("still", "x" * 200_000)
        assert not b.died.is_set()
        await b.writer.submit(lambda _: pragma("PRAGMA max_page_count = 100000"), moment())
        assert await b.put("after", "x" * 200_000) == "after"
        assert b.keys()[0] == "before"
        assert b.keys()[-1] == "after"


def failing(code: int, only: str) -> type[sqlite3.Connection]:
    """A disk that fails at one kind of statement, once."""

    class Failing(sqlite3.Connection):
        failed = False

        def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
            if sql == only and not self.failed and self.total_changes > 1:
                self.failed = True
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = code  # pyright: ignore
                raise error
            return super().execute(sql, values)

    return Failing


async def test_an_io_error_is_unavailable_and_the_writer_lives_on(path: Path) -> None:
    async with bench(path, failing(sqlite3.SQLITE_IOERR_WRITE, "COMMIT")) as b:
        await b.put("a")
        with pytest.raises(Unavailable, match="disk failed"):
            await b.put("b")
        assert await b.put("c") == "c"
        assert b.keys() == ["a", "c"]
        assert not b.died.is_set()


@pytest.mark.parametrize(
    ("code", "error"),
    [(sqlite3.SQLITE_IOERR_FSYNC, Unavailable), (sqlite3.SQLITE_CORRUPT, Damaged)],
)
async def test_what_only_a_restart_can_mend_is_told_and_nothing_more_is_written(
    path: Path, code: int, error: type[Exception]
) -> None:
    async with bench(path, failing(code, "COMMIT")) as b:
        await b.put("a")
        with pytest.raises(error):
            await b.put("b")
        await asyncio.wait_for(b.died.wait(), 10)
        with pytest.raises(Unavailable):
            await b.put("c")
        assert b.keys() == ["a"]


async def test_what_was_submitted_before_the_end_is_committed(path: Path) -> None:
    async with bench(path) as b:
        calls = [asyncio.ensure_future(b.put(f"k{n:04}")) for n in range(1000)]
        await asyncio.sleep(0)
    await asyncio.gather(*calls)
    assert b.keys() == [f"k{n:04}" for n in range(1000)]
    with pytest.raises(Unavailable, match="closed"):
        await b.put("late")


async def test_a_store_that_cannot_be_opened_says_so_to_every_caller(tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "no" / "such" / "folder.db")

    made = Bench(tmp_path, connect)
    made.writer.start()
    try:
        with pytest.raises(Unavailable, match="cannot be opened"):
            await made.put("a")
        await asyncio.wait_for(made.died.wait(), 10)
    finally:
        await made.writer.close()
