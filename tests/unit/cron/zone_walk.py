"""Every change of every zone between 1970 and 2037, and what a job does around it: ``python -m
tests.unit.cron.zone_walk`` walks all zones.

The oracle knows a change as (instant, offset before, offset after) and never asks the product about
folds."""

from __future__ import annotations

import random
import sys
import zoneinfo
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from ohmo.cron.times import fields_of

FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2037, 12, 30, tzinfo=UTC)
DAY, AROUND = timedelta(days=1), timedelta(days=3)


@dataclass(frozen=True)
class Change:
    at: datetime
    before: timedelta
    after: timedelta


def shift(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def changes(zone: ZoneInfo) -> Iterator[Change]:
    at, step = FIRST, timedelta(hours=12)
    while at < LAST:
        if shift(zone, at) != shift(zone, at + step):
            low, high = at, at + step
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
                low, high = (
                    (low, middle) if shift(zone, middle) != shift(zone, at) else (middle, high)
                )
            yield Change(high, shift(zone, low), shift(zone, high))
        at += step


def expected(change: Change, wall: datetime) -> datetime | None:
    """When a wall-clock time around one change counts; None: its date was left out."""
    low, high = sorted(
        (
            change.at.replace(tzinfo=None) + change.before,
            change.at.replace(tzinfo=None) + change.after,
        )
    )
    if not low <= wall < high:
        return (wall - (change.before if wall < low else change.after)).replace(tzinfo=UTC)
    if change.after < change.before:
        return (wall - change.before).replace(tzinfo=UTC)
    midnight = wall.replace(hour=0, minute=0, second=0)
    left_out = low <= midnight and high >= midnight + DAY
    return None if left_out else change.at


def daily_problems(
    zone: ZoneInfo, change: Change, alone: bool, clock: tuple[int, int]
) -> list[str]:
    hour, minute = clock
    fields, found, at = (
        fields_of(f"{minute} {hour} * * *", zone),
        list[datetime](),
        change.at - AROUND,
    )
    while (at := fields.after(at) or LAST) <= change.at + AROUND:
        found.append(at)
    first, last = (change.at + edge for edge in (-AROUND, AROUND))
    days: list[date] = [(change.at + n * DAY).date() for n in range(-5, 6)]
    wanted = {
        expected(change, datetime(day.year, day.month, day.day, hour, minute))  # noqa: DTZ001
        for day in days
    }
    right = sorted(at for at in wanted if at is not None and first < at <= last)
    if alone and found != right:
        return [f"{zone.key} {change.at} at {hour:02}:{minute:02}: {found} is not {right}"]
    return (
        [f"{zone.key} {change.at} at {hour:02}:{minute:02}: not in order"]
        if sorted(set(found)) != found
        else []
    )


def elapsed_problems(zone: ZoneInfo, change: Change) -> list[str]:
    """Every quarter of an hour of the wall clock, by elapsed time: nothing is left out and nothing
    comes twice at one instant."""
    fields, found, at = (
        fields_of("*/15 * * * *", zone),
        list[datetime](),
        change.at - timedelta(hours=3),
    )
    end = change.at + timedelta(hours=3)
    probe, right = at.replace(second=0, microsecond=0), list[datetime]()
    while (at := fields.after(at) or LAST) <= end:
        found.append(at)
    start = change.at - timedelta(hours=3)
    while probe <= end:
        wall = probe.astimezone(zone)
        if wall.minute % 15 == 0 and wall.second == 0 and probe > start:
            right.append(probe)
        probe += timedelta(minutes=1)
    whole = shift(zone, start).seconds % 60 == 0 and shift(zone, end).seconds % 60 == 0
    return (
        [f"{zone.key} {change.at} every quarter: {found} is not {right}"]
        if whole and found != right
        else []
    )


def clocks(change: Change, draw: random.Random) -> list[tuple[int, int]]:
    """The times around the change, and one by chance."""
    near = [
        change.at + change.before,
        change.at + change.after,
        change.at + (change.before + change.after) / 2,
    ]
    return [
        *dict.fromkeys((at.hour, at.minute) for at in near),
        (draw.randrange(24), draw.randrange(60)),
    ]


def problems(name: str, draw: random.Random) -> tuple[int, list[str]]:
    """How many changes were walked, and what is wrong."""
    zone, found = ZoneInfo(name), list[str]()
    walked: Sequence[Change] = list(changes(zone))
    for number, change in enumerate(walked):
        neighbours = [*walked[max(0, number - 1) : number], *walked[number + 1 : number + 2]]
        alone = all(abs(other.at - change.at) > 2 * AROUND for other in neighbours)
        for clock in clocks(change, draw):
            found += daily_problems(zone, change, alone, clock)
        if alone:
            found += elapsed_problems(zone, change)
    return len(walked), found


def main() -> int:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    total, wrong = 0, list[str]()
    names = sorted(zoneinfo.available_timezones() - {"localtime"})
    for name in names:
        count, found = problems(name, random.Random(f"{seed} {name}"))
        total += count
        wrong += found
    print(f"seed {seed}: {len(names)} zones, {total} changes, {len(wrong)} wrong")
    print("\n".join(wrong[:50]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
