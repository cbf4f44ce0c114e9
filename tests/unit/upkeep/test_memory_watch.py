"""Memory that runs short: read from control groups of both versions, acted upon once, and taken
back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ohmo.upkeep.watches import MemoryWatch, memory_share

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
