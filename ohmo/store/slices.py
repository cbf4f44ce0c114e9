"""Sums over a whole table, a slice at a time: what is sorted meanwhile stays small, however long
the table has become."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence

from ohmo.store.statements import Op, Row, Value

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
