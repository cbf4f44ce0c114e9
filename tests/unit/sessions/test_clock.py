"""A clock that is set is noticed against one that never is, and not believed before what waits was
moved along; drift and time that passes are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.errors import Unavailable
from ohmo.ambient import IdSource
from ohmo.sessions.clock import Clockwatch, HeldClock, MarkFile
from ohmo_testing.house import BIRTH, ManualClock

YEAR, HOUR = 365 * 86_400.0, 3_600.0
JUMPS = [HOUR, -HOUR, YEAR, (datetime(1970, 1, 1, tzinfo=UTC) - BIRTH).total_seconds()]


class Store:
    """Something that waits until ``deadline``. ``away``: how many writes fail."""

    def __init__(self, clock: Callable[[], datetime], seconds: float = 600.0) -> None:
        self.clock = clock
        self.away = 0
        self.deadline = clock() + timedelta(seconds=seconds)
        self.moved: list[float | None] = []

    @property
    def left(self) -> float:
        return (self.deadline - self.clock()).total_seconds()

    async def rebase(self, seconds: float | None) -> float:
        if self.away:
            self.away -= 1
            raise Unavailable("away")
        self.moved.append(seconds)
        assert self.left > 0, "it looked overdue before it was moved"
        self.deadline += timedelta(seconds=seconds or 0.0)
        return seconds or 0.0


class Machine:
    """A wall clock that somebody sets, one that nobody sets, and one that counts the machine's
    sleep as well."""

    def __init__(self) -> None:
        self.wall = ManualClock()
        self.slept = 0.0
        self.clock = HeldClock(
            self.wall, steady=self.wall.steady, elapsed=lambda: self.wall.steady() + self.slept
        )
        self.store = Store(self.clock)
        self.watch = Clockwatch(self.clock, self.store.rebase)

    def restarts(self, mark: Path, boot: str = "one") -> Clockwatch:
        """Another process in the same home."""
        self.clock = HeldClock(
            self.wall, steady=self.wall.steady, elapsed=lambda: self.wall.steady() + self.slept
        )
        self.store.clock = self.clock
        return Clockwatch(self.clock, self.store.rebase, marks=MarkFile(mark, boot))

    def sets(self, by: float) -> None:
        self.wall.set(self.wall() + timedelta(seconds=by))

    def sleeps(self, seconds: float) -> None:
        self.sets(seconds)
        self.slept += seconds


@pytest.mark.parametrize("by", JUMPS)
async def test_whoever_sets_the_clock_makes_nothing_overdue_and_nothing_last_longer(
    by: float,
) -> None:
    machine = Machine()
    machine.wall.tick(100)
    machine.sets(by)
    assert machine.store.left == 500  # the house has not looked yet
    machine.wall.tick(5)
    assert machine.store.left == 495
    await machine.watch.look()
    assert machine.store.moved == [by]
    assert machine.clock() == machine.wall()
    assert machine.store.left == 495


async def test_corrections_of_minutes_are_believed_at_once_and_move_nothing_until_they_add_up() -> (
    None
):
    machine = Machine()
    machine.sets(200)
    assert machine.clock() == machine.wall()
    await machine.watch.look()
    assert machine.store.moved == []
    machine.sets(200)
    await machine.watch.look()
    assert machine.store.moved == [400.0]


async def test_time_that_passes_moves_nothing() -> None:
    machine = Machine()
    machine.wall.tick(500)
    await machine.watch.look()
    assert (machine.store.moved, machine.store.left) == ([], 100)


@pytest.mark.parametrize("by", [HOUR, -HOUR])
async def test_a_jump_while_the_store_is_away_is_not_forgotten(by: float) -> None:
    machine = Machine()
    machine.store.away = 2
    machine.sets(by)
    for _ in range(4):
        await machine.watch.look()
        assert machine.store.left >= 600
    assert machine.store.moved == [by]
    assert machine.store.left == 600


async def test_two_jumps_that_cross_while_the_store_is_away_are_both_counted() -> None:
    machine = Machine()
    machine.store.away = 1
    machine.sets(-HOUR)
    await machine.watch.look()
    machine.sets(3 * HOUR)
    for _ in range(2):
        await machine.watch.look()
    assert machine.store.moved == [-HOUR, 3 * HOUR]
    assert machine.store.left == 600


async def test_what_the_machine_slept_extends_a_deadline_but_counts_as_time() -> None:
    machine = Machine()
    said = machine.clock()
    machine.sleeps(8 * HOUR)
    await machine.watch.look()
    assert machine.store.left == 600
    assert machine.clock.set_since(said) == timedelta()
    machine.sets(YEAR)
    await machine.watch.look()
    assert machine.clock.set_since(said) == timedelta(seconds=YEAR)
    assert machine.clock.set_since(machine.clock()) == timedelta()
    machine.sets(-YEAR)
    await machine.watch.look()
    assert machine.clock.set_since(said) == timedelta()


async def test_what_is_old_is_not_older_for_a_clock_that_was_set_and_grows_old_again_afterwards() -> (
    None
):
    machine, month = Machine(), timedelta(days=30)
    assert machine.clock.before(month) == BIRTH - month
    machine.sets(YEAR)
    await machine.watch.look()
    machine.wall.tick(HOUR)
    # as if nobody had set it
    assert machine.clock.before(month) == BIRTH - month + timedelta(seconds=HOUR)
    machine.wall.tick(30 * 86_400.0)
    # all that is younger was written by the new clock
    assert machine.clock.before(month) == machine.clock() - month
    assert machine.clock.before(timedelta(days=36_500)) < BIRTH - timedelta(days=36_000)


@pytest.mark.parametrize("by", JUMPS)
async def test_a_clock_that_is_set_while_nobody_runs_is_noticed_at_the_next_start_and_what_was_set_before_is_known(
    tmp_path: Path, by: float
) -> None:
    machine, mark = Machine(), tmp_path / "clock.json"
    await machine.restarts(mark).look()
    machine.wall.tick(10)
    machine.sleeps(100)
    machine.sets(by)
    machine.wall.tick(10)
    watch = machine.restarts(mark)
    assert machine.store.left == 480  # not believed yet
    await watch.look()
    assert machine.store.moved == [by]
    assert (machine.store.left, machine.clock()) == (480, machine.wall())
    assert machine.clock.set_since(BIRTH) == timedelta(seconds=max(by, 0.0))
    watch = machine.restarts(mark)
    await watch.look()
    assert machine.store.moved == [by]
    assert machine.clock.set_since(BIRTH) == timedelta(seconds=max(by, 0.0))
    machine.restarts(mark, "another start of the machine")
    assert machine.clock.set_since(BIRTH) == timedelta()


class Dies(BaseException):
    """Between the store's commit and the next line."""


@pytest.mark.parametrize("by", JUMPS)
async def test_who_dies_right_after_the_rows_were_moved_moves_them_no_second_time(
    tmp_path: Path, by: float
) -> None:
    machine, mark = Machine(), tmp_path / "clock.json"
    await machine.restarts(mark).look()
    move = machine.store.rebase

    async def dying(seconds: float | None) -> float:
        await move(seconds)
        raise Dies

    watch = Clockwatch(machine.clock, dying, marks=MarkFile(mark, "one"))
    machine.sets(by)
    with pytest.raises(Dies):
        await watch.look()
    await machine.restarts(mark).look()
    assert (machine.store.moved, machine.store.left) == ([by], 600)


@pytest.mark.parametrize("by", [HOUR, -HOUR])
async def test_a_clock_that_is_set_while_the_store_is_away_is_known_after_a_restart(
    tmp_path: Path, by: float
) -> None:
    machine, mark = Machine(), tmp_path / "clock.json"
    watch = machine.restarts(mark)
    await watch.look()
    machine.store.away = 2
    machine.sets(by)
    for _ in range(2):
        await watch.look()
    await machine.restarts(mark).look()
    assert (machine.store.moved, machine.store.left) == ([by], 600)


async def test_a_mark_that_could_not_be_written_is_written_as_soon_as_it_can_be_and_an_old_one_is_not_believed(
    tmp_path: Path,
) -> None:
    machine, mark = Machine(), tmp_path / "clock.json"
    watch = machine.restarts(mark)
    await watch.look()
    machine.sets(HOUR)
    (tmp_path / "clock.new").mkdir()  # nobody can write there
    await watch.look()
    await machine.restarts(mark).look()
    assert machine.store.moved == [HOUR]
    (tmp_path / "clock.new").rmdir()
    await watch.look()
    machine.sets(HOUR)
    await machine.restarts(mark).look()
    assert machine.store.moved == [HOUR, HOUR]


async def test_a_store_that_is_away_at_the_first_look_of_a_machine_is_asked_for_its_newest_row_later(
    tmp_path: Path,
) -> None:
    machine, looks = Machine(), list[float]()

    async def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 4:
            raise asyncio.CancelledError

    machine.store.away = 2
    watch = Clockwatch(
        machine.clock,
        machine.store.rebase,
        sleep=sleep,
        marks=MarkFile(tmp_path / "clock.json", "one"),
    )
    with pytest.raises(asyncio.CancelledError):
        await watch.run()
    assert machine.store.moved == [None]


def test_no_span_is_too_long() -> None:
    moments = iter(range(1_000))
    clock = HeldClock(lambda: BIRTH + timedelta(microseconds=next(moments)), steady=lambda: 0.0)
    assert clock.before(timedelta.max) < BIRTH - timedelta(days=700_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"boot": "one"}',
        '{"boot": "one", "zero": "x", "ahead": 0, "until": 0}',
        '{"boot": "one", "zero": 1e300}',
    ],
)
def test_a_mark_that_cannot_be_read_is_no_mark(tmp_path: Path, text: str) -> None:
    (tmp_path / "clock.json").write_text(text)
    assert MarkFile(tmp_path / "clock.json", "one").read() is None


def test_ids_stay_unique_and_in_order_however_the_clock_is_set() -> None:
    times = iter([0, 10**12, 10**12, 5, 10**12 + YEAR * 1_000, 7, 10**12])
    new_id = IdSource(lambda: int(next(times, 0)))
    ids = [new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))
