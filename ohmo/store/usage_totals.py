"""What calls of models cost, summed a slice of the table at a time: what is sorted meanwhile stays
small, however long the table has become."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from ohmo.contracts.reports import ThreadTotal, TurnUsage, UsageTotal
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
    columns, marks = ", ".join(key), ", ".join("?" * len(key))
    end = (
        f"SELECT {columns} FROM {source} AND ({columns}) > ({marks}) ORDER BY {columns} LIMIT 1"
        f" OFFSET {size - 1}"
    )
    slice_ = f"SELECT {', '.join(groups)}, {numbers} FROM {source} AND ({columns}) > ({marks})"
    grouped = f" GROUP BY {', '.join(groups)}"
    found: dict[Row, list[int]] = {}
    start: tuple[Value, ...] | None = tuple(after)
    while start is not None:
        ends = yield end, start
        if ends:
            rows = yield f"{slice_} AND ({columns}) <= ({marks}){grouped}", (*start, *ends[0])
        else:  # the last one
            rows = yield slice_ + grouped, start
        start = tuple(ends[0]) if ends else None
        for row in rows:
            known = found.setdefault(tuple(row[: len(groups)]), [0] * (len(row) - len(groups)))
            known[:] = [old + int(new) for old, new in zip(known, row[len(groups) :], strict=True)]
    return found


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
        found = yield from _spent(at, days, "day", "model")
        return [
            UsageTotal(*numbers, day=day, model=from_column(model))
            for (day, model), numbers in sorted(found.items())
        ]
    found = yield from sums(
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
        for (day, model, person, channel, account), numbers in sorted(found.items())
    ]


def thread_totals(at: Moment, *, days: int = 30, limit: int = 50) -> Op[list[ThreadTotal]]:
    found = yield from _spent(at, days, "COALESCE(thread, '')")
    totals = [ThreadTotal(*numbers, thread=thread) for (thread,), numbers in found.items()]
    return sorted(
        totals,
        key=lambda one: (
            -one.micro_usd,
            -(one.input + one.cached + one.written + one.output),
            one.thread,
        ),
    )[:limit]


def thread_usage(thread: str, *, since: datetime | None = None) -> Op[list[TurnUsage]]:
    rows = yield (
        f"""SELECT turn, model, {_SPENT} FROM usage
        WHERE day >= ? AND thread = ? AND turn IS NOT NULL GROUP BY turn, model
        ORDER BY turn, model""",
        ("" if since is None else since.astimezone(UTC).date().isoformat(), thread),
    )
    return [
        TurnUsage(*map(int, numbers), turn=turn, model=from_column(model))
        for turn, model, *numbers in rows
    ]
