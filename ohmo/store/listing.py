"""Lists of the store, newest first, in pages: a page goes on behind a spot, so what arrives
meanwhile moves nothing out of it."""

# statements are put together from constants of this room, values are always bound

from __future__ import annotations

from collections.abc import Sequence

from ohmo.contracts.reports import ArrivalInfo, Spot, ThreadInfo
from ohmo.contracts.store import OutRow
from ohmo.contracts.turns import Shelf
from ohmo.store.outbox import out_row
from ohmo.store.reports import ARRIVAL, POST, THREAD, arrival_info, thread_info
from ohmo.store.statements import Moment, Op, Row, Value

GROUPS = {"waiting": 0, "taken": 1, "ended": 2}  # of arrivals, in the order they are listed


_SHELVED = ("pinned", "archived", "deleted")


def _on(shelf: str) -> str:
    """The settings are JSON without spaces, and a quote inside a title is escaped."""
    return f"""t.settings LIKE '%"shelf":"{shelf}"%'"""


def threads(
    at: Moment,
    *,
    limit: int = 100,
    channel: str | None = None,
    after: Spot | None = None,
    shelf: Shelf | None = None,
) -> Op[list[ThreadInfo]]:
    """A thread nobody spoke in yet has no time and stands last on neither engine: there is none, a
    thread is made by its first arrival."""
    conditions, values = ["1 = 1"], list[Value]()
    if channel is not None:
        conditions.append("t.channel = ?")
        values.append(channel)
    if shelf == "open":
        conditions += [f"NOT {_on(other)}" for other in _SHELVED]
    elif shelf is not None:
        conditions.append(_on(shelf))
    if after is not None:
        conditions.append("(t.last_at < ? OR (t.last_at = ? AND t.thread > ?))")
        values += [after.at, after.at, after.id]
    rows = yield (
        f"{THREAD} WHERE {' AND '.join(conditions)} ORDER BY t.last_at DESC, t.thread LIMIT ?",
        (*values, limit),
    )
    return [thread_info(row, at.now) for row in rows]


def free_threads(at: Moment) -> Op[list[ThreadInfo]]:
    rows = yield f"""{THREAD} WHERE t.settings LIKE '%"free_until":%' ORDER BY t.thread""", ()
    return [info for row in rows if (info := thread_info(row, at.now)).settings.mode == "full_auto"]


def inbox(
    *, state: str | None = None, limit: int = 100, after: Spot | None = None
) -> Op[list[ArrivalInfo]]:
    """``state``: a state or an ending."""
    rows: list[Row] = []
    for name, group in GROUPS.items():
        ending = state if name == "ended" and state not in (None, *GROUPS) else None
        if (
            (state in (None, name) or ending is not None)
            and (after is None or group >= after.group)
            and len(rows) < limit
        ):
            behind = after if after is not None and after.group == group else None
            rows += yield from _arrivals(name, ending, behind, limit - len(rows))
    return [arrival_info(row) for row in rows]


def _arrivals(state: str, ending: str | None, after: Spot | None, limit: int) -> Op[list[Row]]:
    time = "ended_at" if state == "ended" else "at"
    condition, values = (
        f"state = '{state}'" + (" AND ended_at IS NULL" if state != "ended" else ""),
        list[Value](),
    )
    if ending is not None:
        condition += " AND ending = ?"
        values.append(ending)
    if after is not None:
        condition += f" AND {time} <= ? AND ({time} < ? OR thread > ? OR (thread = ? AND seq < ?))"
        values += [after.at, after.at, after.id, after.id, after.seq]
    return (
        yield (
            f"{ARRIVAL} WHERE {condition} ORDER BY {time} DESC, thread, seq DESC LIMIT ?",
            (*values, limit),
        )
    )


def outbox(
    *, state: str | None = None, limit: int = 100, after: Spot | None = None
) -> Op[list[OutRow]]:
    rows: list[Row] = []
    if state in (None, "ready", "sending") and (after is None or after.group == 0):
        chosen = "o.ended_at IS NULL" + (f" AND o.state = '{state}'" if state is not None else "")
        rows += yield from _posts(chosen, (), "o.at", after, limit)
    if state not in ("ready", "sending") and len(rows) < limit:
        chosen, values = (
            ("o.ended_at IS NOT NULL", ())
            if state is None
            else ("o.ended_at IS NOT NULL AND o.state = ?", (state,))
        )
        behind = after if after is not None and after.group == 1 else None
        rows += yield from _posts(chosen, values, "o.ended_at", behind, limit - len(rows))
    return [out_row(row) for row in rows]


def _posts(
    condition: str, values: Sequence[Value], time: str, after: Spot | None, limit: int
) -> Op[list[Row]]:
    bound = list(values)
    if after is not None:
        condition += f" AND {time} <= ? AND ({time} < ? OR o.id > ?)"
        bound += [after.at, after.at, after.id]
    return (yield f"{POST} WHERE {condition} ORDER BY {time} DESC, o.id LIMIT ?", (*bound, limit))


def posts(ids: Sequence[str]) -> Op[list[OutRow]]:
    rows: list[Row] = []
    for one in ids:
        rows += yield f"{POST} WHERE o.id = ?", (one,)
    return [out_row(row) for row in rows]
