"""What a house does for itself: old files go, backups come, memory that runs short is acted upon, and
a failure is told once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ohmo.config.load import Config, load
from ohmo.storefile.archive import backups
from ohmo.upkeep.housekeeping import keep_backups, let_go, sweep
from ohmo.upkeep.watches import MemoryWatch, memory_share
from tests.store_model.store import MemoryStore
from tests.unit.storefile.homes import furnished


class Told:
    """Notices, remembered."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.over_now: list[str] = []

    async def tell(self, incident: str, text: str) -> bool:
        self.lines.append(text)
        return True

    def over(self, incident: str) -> None:
        self.over_now.append(incident)


class Hours:
    """A clock that jumps to the end of every sleep, and ends the test after ``most`` of them."""

    def __init__(self, most: int) -> None:
        self.now = datetime(2026, 11, 21, tzinfo=UTC)
        self.left = most

    def __call__(self) -> datetime:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.left -= 1
        if self.left < 0:
            raise asyncio.CancelledError
        self.now += timedelta(seconds=seconds)


def config(home: Path, **environ: str) -> Config:
    found: Mapping[str, str] = {"HOME": str(home.parent), "OHMO_HOME": str(home), **environ}
    return load(environ=found)


async def days(home: Path, hours: Hours, told: Told, **environ: str) -> None:
    with pytest.raises(asyncio.CancelledError):
        await keep_backups(config(home, **environ), told, hours, hours.sleep)  # type: ignore[arg-type]


async def test_a_backup_a_day_and_the_newest_are_kept(home: Path) -> None:
    furnished(home)
    hours, told = Hours(24 * 4), Told()
    await days(home, hours, told, OHMO__BACKUPS__KEEP="2")
    found = backups(home / "backups")
    assert len(found) == 2
    assert found[1].made - found[0].made == timedelta(days=1)
    assert told.lines == []


YEAR = timedelta(days=365)


@pytest.mark.parametrize(
    "restarted", [False, True], ids=["while it runs", "and it was started anew"]
)
@pytest.mark.parametrize("by", [YEAR, -YEAR, timedelta(hours=30), -timedelta(hours=30)], ids=str)
async def test_a_clock_that_is_set_and_set_right_again_stops_no_backup_and_makes_no_burst(
    home: Path, by: timedelta, restarted: bool
) -> None:
    furnished(home)
    hours, told = Hours(30), Told()
    # so many looks of an hour, and by how much the clock is set before them
    steps = [(20, timedelta()), (50, by), (50, -by)]
    made: list[int] = []

    async def sleep(seconds: float) -> None:
        nonlocal number
        while number < len(steps) and steps[number][0] == 0:
            number += 1
            if number == len(steps):
                raise asyncio.CancelledError
            hours.now += steps[number][1]
            made.append(len(backups(home / "backups")))
            if restarted:
                raise asyncio.CancelledError
        steps[number] = (steps[number][0] - 1, steps[number][1])
        hours.now += timedelta(seconds=seconds)

    number = 0
    while number < len(steps):
        with pytest.raises(asyncio.CancelledError):
            await keep_backups(config(home, OHMO__BACKUPS__KEEP="9"), told, hours, sleep)  # type: ignore[arg-type]
    made.append(len(backups(home / "backups")))
    each = [later - earlier for earlier, later in zip([0, *made[:-1]], made, strict=True)]
    assert each[0] == 1
    assert all(2 <= count <= 4 for count in each[1:]), each  # fifty hours
    assert told.lines == []


async def test_what_a_wrong_clock_dated_in_the_future_goes_first_and_counts_as_oldest(
    home: Path,
) -> None:
    furnished(home)
    folder = home / "backups"
    for path in """
        ohmo-20991231T000000Z ohmo-20261120T000000Z-2 ohmo-20261120T000000Z ohmo-20261120T000000Z-10
    """.split():
        folder.mkdir(exist_ok=True)
        (folder / f"{path}.tar.gz").touch()
    hours = Hours(3)
    assert [
        one.path.name[5:9] for one in backups(folder, hours.now)
    ] == "2099 2026 2026 2026".split()
    assert backups(folder, hours.now)[-1].path.name == "ohmo-20261120T000000Z-10.tar.gz"
    await days(home, hours, Told(), OHMO__BACKUPS__KEEP="4")
    assert len(backups(folder)) == 4
    assert not list(folder.glob("ohmo-2099*"))


async def test_a_folder_that_cannot_be_looked_at_is_told_and_looked_at_again(home: Path) -> None:
    told = Told()
    # its name is too long for any file system
    await days(home, Hours(2), told, OHMO__BACKUPS__FOLDER=f"/{'x' * 300}")
    assert "No backup could be made" in told.lines[0]


async def test_what_a_killed_backup_left_goes_before_the_first_one_is_due(home: Path) -> None:
    left = home / "backups" / ".backup-killed"
    (left / "work").mkdir(parents=True)
    (left / "busy").touch()
    await days(home, Hours(0), Told())
    assert not left.exists()


async def test_a_restart_does_not_make_another_backup_before_it_is_due(home: Path) -> None:
    furnished(home)
    hours = Hours(2)
    await days(home, hours, Told())
    assert len(backups(home / "backups")) == 1
    hours.left = 12
    await days(home, hours, Told())
    assert len(backups(home / "backups")) == 1


async def test_a_backup_that_fails_is_told_and_tried_again(home: Path) -> None:
    database = furnished(home)
    sound = database.read_bytes()
    database.write_bytes(b"ruin" * 1000)
    hours, told = Hours(3), Told()
    await days(home, hours, told)
    assert "ohmo backup" in told.lines[0]
    database.write_bytes(sound)
    hours.left = 3
    await days(home, hours, told)
    assert len(backups(home / "backups")) == 1
    assert told.over_now == ["backup"]


def test_old_files_go_and_young_ones_stay(tmp_path: Path) -> None:
    old, young, log = tmp_path / "a" / "old", tmp_path / "b" / "young", tmp_path / "ohmo.jsonl"
    for path in (old, young, log):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    for path in (old, log, old.parent):
        os.utime(path, (1_000, 1_000))
    assert sweep(tmp_path, 500_000, log) == 1
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "ohmo.jsonl",
        "young",
    ]


async def test_files_put_into_the_page_go_with_the_other_files_people_sent(home: Path) -> None:
    furnished(home)
    shelf, hours = home / "state" / "web" / "files", Hours(1)
    shelf.mkdir(parents=True)
    for name in ("never sent", "fresh"):
        (shelf / name).write_text("x")
    os.utime(shelf / "never sent", (1_000, 1_000))

    with pytest.raises(asyncio.CancelledError):
        await let_go(
            config(home), MemoryStore(clock=hours), lambda span: hours() - span, hours.sleep
        )
    assert [path.name for path in shelf.iterdir()] == ["fresh"]


async def test_a_house_that_is_started_anew_every_five_minutes_lets_go_and_is_backed_up(
    home: Path,
) -> None:
    furnished(home)
    begun, five = datetime(2026, 11, 21, tzinfo=UTC), timedelta(minutes=5)
    for life in (
        lambda hours: let_go(
            config(home), MemoryStore(clock=hours), lambda span: hours() - span, hours.sleep
        ),
        lambda hours: keep_backups(config(home), Told(), hours, hours.sleep),
    ):
        hours = Hours(1)
        with pytest.raises(asyncio.CancelledError):
            await life(hours)
        assert hours() - begun < five
    assert backups(home / "backups", begun + five)


MIB = 1 << 20


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_group_counts_and_what_can_be_dropped_does_not(
    tmp_path: Path, version: int
) -> None:
    process, mount = tmp_path / "cgroup", tmp_path / "mount"
    process.write_text(
        "0::/ohmo.slice/ohmo.service\n"
        if version == 2
        else "9:cpu,cpuacct:/x\n4:memory:/ohmo.slice/ohmo.service\n"
    )
    top = mount if version == 2 else mount / "memory"
    limit, used, droppable = (
        ("max", "current", "inactive_file")
        if version == 2
        else ("limit_in_bytes", "usage_in_bytes", "total_inactive_file")
    )
    write(
        top / "ohmo.slice",
        **{
            f"memory__{limit}": str(1000 * MIB),
            f"memory__{used}": str(400 * MIB),
            "memory__stat": f"anon 1\n{droppable} {100 * MIB}",
        },
    )
    write(
        top / "ohmo.slice" / "ohmo.service",
        **{
            f"memory__{limit}": str(400 * MIB),
            f"memory__{used}": str(380 * MIB),
            "memory__stat": f"anon 1\n{droppable} {20 * MIB}",
        },
    )
    assert memory_share(process, mount) == pytest.approx(0.9)


def test_without_a_limit_or_without_groups_there_is_nothing_to_watch(tmp_path: Path) -> None:
    process, mount = tmp_path / "cgroup", tmp_path / "mount"
    assert memory_share(process, mount) is None
    process.write_text("0::/\n")
    assert memory_share(process, mount) is None
    write(mount, memory__max="max", memory__current="5", memory__stat="inactive_file 0")
    assert memory_share(process, mount) is None
    process.write_text("4:memory:/\n")
    write(
        mount / "memory",
        memory__limit_in_bytes=str((1 << 63) - 4096),
        memory__usage_in_bytes="5",
        memory__stat="total_inactive_file 0",
    )
    assert memory_share(process, mount) is None


class Pool:
    def __init__(self) -> None:
        self.widths: list[int | None] = []

    def narrow(self, width: int | None) -> None:
        self.widths.append(width)


class Notices:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, incident: str, text: str) -> bool:
        self.told.append(text)
        return True


async def test_one_turn_at_a_time_while_it_is_short_and_the_owner_hears_of_it_once() -> None:
    pool, notices, seen = Pool(), Notices(), list[tuple[str, ...]]()
    shares: Iterator[float | None] = iter([0.5, 0.86, 0.9, 0.8, 0.74, 0.8, None])

    async def sleep(_: float) -> None:
        seen.append(watch.warnings)
        await asyncio.sleep(0)

    watch = MemoryWatch(pool, notices, lambda: next(shares), sleep)  # pyright: ignore[reportArgumentType]
    await watch.run()
    assert pool.widths == [1, None]
    assert [bool(warnings) for warnings in seen] == [False, True, True, True, False, False]
    assert len(notices.told) == 1
    assert "86%" in notices.told[0]
