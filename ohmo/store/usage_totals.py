"""What calls of models cost, summed a slice of the table at a time: what is sorted meanwhile stays
small, however long the table has become."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from ohmo.contracts.reports import Share, ThreadTotal, TurnUsage, UsageTotal
from ohmo.store.codec import from_column
from ohmo.store.statements import Moment, Op, Row, Value, instant

SLICE = 2_000  # rows; SQLite keeps them all while it puts them into groups


def sums(
    source: str,
    key: Sequence[str],
    after: Sequence[Value],
    groups: Sequence[str],
    numbers: str,
    *,
    size: int = SLICE,
) -> Op[dict[Row, list[int]]]:
    """``numbers`` (aggregates that add up, as COUNT and SUM) for each of the ``groups`` (columns,
    expressions) in ``source`` (tables and a WHERE).

    The slices follow ``key``, columns of an index, and begin behind the values ``after``; rows with
    equal keys are in the same slice."""
    columns = ", ".join(key)
    marks = ", ".join("?" * len(key))
    group = ", ".join(groups)
    behind = f"FROM {source} AND ({columns}) > ({marks})"
    slice_end = f"SELECT {columns} {behind} ORDER BY {columns} LIMIT 1 OFFSET {size - 1}"
    last_slice = f"SELECT {group}, {numbers} {behind} GROUP BY {group}"
    slice_ = f"SELECT {group}, {numbers} {behind} AND ({columns}) <= ({marks}) GROUP BY {group}"
    totals: dict[Row, list[int]] = {}
    start: tuple[Value, ...] | None = tuple(after)
    while start is not None:
        ends = yield slice_end, start
        if ends:
            end = tuple(ends[0])
            rows = yield slice_, (*start, *end)
            start = end
        else:
            rows = yield last_slice, start
            start = None
        for row in rows:
            name, counted = tuple(row[: len(groups)]), row[len(groups) :]
            total = totals.setdefault(name, [0] * len(counted))
            for place, number in enumerate(counted):
                total[place] += int(number)
    return totals


def first_day(at: Moment, days: int) -> str:
    """Of so many UTC days up to this one."""
    return (instant(at.now) - timedelta(days=days - 1)).date().isoformat()


# The columns of ``Spent``.
_SPENT = (
    "COUNT(*), SUM(input), SUM(cached), SUM(written), SUM(output), COALESCE(SUM(micro_usd), 0),"
    " COUNT(*) - COUNT(micro_usd)"
)


def _spent(at: Moment, days: int, *groups: str) -> Op[dict[Row, list[int]]]:
    return sums("usage WHERE TRUE", ("day", "id"), (first_day(at, days), ""), groups, _SPENT)


_SPEAKER = ("COALESCE(u.person, '')", "COALESCE(t.channel, '')", "COALESCE(t.account, '')")


_PLACED = "usage u LEFT JOIN threads t ON t.thread = u.thread WHERE TRUE"


def usage(at: Moment, *, days: int = 30, by_person: bool = False) -> Op[list[UsageTotal]]:
    if not by_person:
        totals = yield from _spent(at, days, "day", "model")
        return [
            UsageTotal(*numbers, day=day, model=from_column(model))
            for (day, model), numbers in sorted(totals.items())
        ]
    totals = yield from sums(
        _PLACED, ("day", "id"), (first_day(at, days), ""), ("day", "model", *_SPEAKER), _SPENT
    )
    return [
        UsageTotal(
            *numbers,
            day=day,
            model=from_column(model),
            person=from_column(person),
            channel=channel,
            account=account,
        )
        for (day, model, person, channel, account), numbers in sorted(totals.items())
    ]


_SHARES = {"day": "day", "purpose": "purpose", "job": "COALESCE(job, '')"}


def usage_by(
    at: Moment, what: Literal["day", "purpose", "job"], *, days: int = 30
) -> Op[list[Share]]:
    spent = yield from _spent(at, days, _SHARES[what])
    shares = [Share(*numbers, name=from_column(name)) for (name,), numbers in spent.items()]
    if what == "day":
        return sorted(shares, key=lambda share: share.name)
    return sorted(shares, key=lambda share: (-share.micro_usd, -share.tokens, share.name))


def thread_totals(at: Moment, *, days: int = 30, limit: int = 50) -> Op[list[ThreadTotal]]:
    spent = yield from _spent(at, days, "COALESCE(thread, '')")
    totals = [ThreadTotal(*numbers, thread=thread) for (thread,), numbers in spent.items()]
    totals.sort(
        key=lambda total: (
            -total.micro_usd,
            -(total.input + total.cached + total.written + total.output),
            total.thread,
        )
    )
    return totals[:limit]


def thread_usage(thread: str, *, since: datetime | None = None) -> Op[list[TurnUsage]]:
    first = "" if since is None else since.astimezone(UTC).date().isoformat()
    rows = yield (
        f"""SELECT turn, model, {_SPENT} FROM usage
        WHERE day >= ? AND thread = ? AND turn IS NOT NULL GROUP BY turn, model
        ORDER BY turn, model""",
        (first, thread),
    )
    return [
        TurnUsage(*map(int, numbers), turn=turn, model=from_column(model))
        for turn, model, *numbers in rows
    ]
