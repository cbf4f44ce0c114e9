"""What the store holds, for whoever looks: counts, one thread or arrival, a history, and lists.

Lists are newest first. A page of a list goes on behind a spot, so what arrives meanwhile
moves nothing out of it."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from channels.contract import Address, ChatId
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.messages import Step, Text, UserStep
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import (
    ArrivalInfo,
    Counts,
    HistoryItem,
    SessionInfo,
    Spot,
    StepInfo,
    ThreadInfo,
)
from ohmo.contracts.turns import NO_SESSION, Shelf
from ohmo.store.codec import Unreadable, column, from_column, read_arrival, read_settings, read_step
from ohmo.store.known_people import beginning
from ohmo.store.outbox import COLUMNS, OPEN, out_row
from ohmo.store.statements import Moment, Op, Row, Value, instant
from ohmo.store.threads import TURN_OPEN, address_of
from ohmo.store.usage_totals import sums

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
    threads = [thread_info(row, at.now) for row in rows]
    return [info for info in threads if info.settings.mode == "full_auto"]


def inbox(
    *, state: str | None = None, limit: int = 100, after: Spot | None = None
) -> Op[list[ArrivalInfo]]:
    """``state``: a state or an ending."""
    rows: list[Row] = []
    for name, group in GROUPS.items():
        ending = state if name == "ended" and state not in (None, *GROUPS) else None
        if state not in (None, name) and ending is None:
            continue
        if len(rows) >= limit or (after is not None and group < after.group):
            continue
        behind = after if after is not None and after.group == group else None
        rows += yield from _arrivals(name, ending, behind, limit - len(rows))
    return [arrival_info(row) for row in rows]


def _arrivals(state: str, ending: str | None, after: Spot | None, limit: int) -> Op[list[Row]]:
    time = "ended_at" if state == "ended" else "at"
    condition = f"state = '{state}'"
    values: list[Value] = []
    if state != "ended":
        condition += " AND ended_at IS NULL"
    if ending is not None:
        condition += " AND ending = ?"
        values.append(ending)
    if after is not None:
        condition += f" AND {time} <= ? AND ({time} < ? OR thread > ? OR (thread = ? AND seq < ?))"
        values += [after.at, after.at, after.id, after.id, after.seq]
    order = f"ORDER BY {time} DESC, thread, seq DESC LIMIT ?"
    return (yield f"{ARRIVAL} WHERE {condition} {order}", (*values, limit))


def outbox(
    *, state: str | None = None, limit: int = 100, after: Spot | None = None
) -> Op[list[OutRow]]:
    rows: list[Row] = []
    values: tuple[Value, ...] = ()
    if state in (None, "ready", "sending") and (after is None or after.group == 0):
        chosen = "o.ended_at IS NULL"
        if state is not None:
            chosen += f" AND o.state = '{state}'"
        rows += yield from _posts(chosen, values, "o.at", after, limit)
    if state not in ("ready", "sending") and len(rows) < limit:
        chosen = "o.ended_at IS NOT NULL"
        if state is not None:
            chosen += " AND o.state = ?"
            values = (state,)
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
    for post in ids:
        rows += yield f"{POST} WHERE o.id = ?", (post,)
    return [out_row(row) for row in rows]


Depth = dict[tuple[str, str], int]  # by channel and state
Depths = tuple[Depth, Depth]  # of inbox and outbox
_LIVE = ("waiting", "taken")


def counts(ended: Depths) -> Op[Counts]:
    """``ended``: what ``counts_of_ended`` said."""
    inbox, oldest = dict(ended[0]), dict[str, int]()
    for state in _LIVE:
        rows = yield (
            f"""SELECT t.channel, COUNT(*), MIN(i.at) FROM inbox i
    JOIN threads t ON t.thread = i.thread
            WHERE i.ended_at IS NULL AND i.state = '{state}' GROUP BY t.channel""",
            (),
        )
        for channel, count, since in rows:
            inbox[channel, state] = count
            oldest[channel] = min(since, oldest.get(channel, since))
    posts = yield (
        f"SELECT channel, state, COUNT(*) FROM outbox WHERE {OPEN} GROUP BY channel, state",
        (),
    )
    outbox = dict(ended[1])
    for channel, state, count in posts:
        outbox[channel, state] = count
    turns = yield f"SELECT state, COUNT(*) FROM turns WHERE {TURN_OPEN} GROUP BY state", ()
    by_state: dict[str, int] = dict(turns)
    by_channel = {channel: instant(since) for channel, since in oldest.items()}
    return Counts(
        inbox,
        outbox,
        min(by_channel.values(), default=None),
        by_state.get("running", 0),
        by_state.get("parked", 0),
        by_channel,
    )


def counts_of_ended() -> Op[Depths]:
    """Inbox and outbox by channel and ending or state; looks at an index entry of every row there
    is."""
    inbox = yield from sums(
        "inbox i JOIN threads t ON t.thread = i.thread WHERE i.state = 'ended'",
        ("i.ended_at",),
        (0,),
        ("t.channel", "i.ending"),
        "COUNT(*)",
    )
    outbox = yield from sums(
        "outbox WHERE ended_at IS NOT NULL", ("ended_at",), (0,), ("channel", "state"), "COUNT(*)"
    )
    return _depths(inbox), _depths(outbox)


def _depths(totals: Mapping[Row, Sequence[int]]) -> Depth:
    return {(channel, state): numbers[0] for (channel, state), numbers in totals.items()}


THREAD = """SELECT t.thread, t.channel, t.account, t.chat, t.topic, t.person, t.session_seq,
t.last_at, t.settings, t.ready_at, t.parked,
t.owner, t.until, i.body, s.name FROM threads t
LEFT JOIN inbox i ON i.thread = t.thread AND i.seq = t.begins
LEFT JOIN speakers s ON s.channel = t.channel AND s.account = t.account AND s.person = i.person"""


def thread_info(row: Row, now: int) -> ThreadInfo:
    thread, *place, scope, session_seq, last_at, settings, ready_at, parked = row[:11]
    owner, until, body, name = row[11:]
    chosen = read_settings(settings)
    state: Literal["idle", "ready", "running", "parked"] = "idle"
    if parked:
        state = "parked"
    elif owner is not None and until > now:
        state = "running"
    elif ready_at is not None:
        state = "ready"
    return ThreadInfo(
        thread=thread,
        address=address_of(tuple(place)),
        person_scope=from_column(scope),
        title=chosen.title,
        session_seq=session_seq,
        last_at=None if last_at is None else instant(last_at),
        state=state,
        settings=chosen,
        beginning=beginning(body, name),
    )


def thread(at: Moment, thread: str) -> Op[ThreadInfo | None]:
    rows = yield f"{THREAD} WHERE t.thread = ?", (thread,)
    return thread_info(rows[0], at.now) if rows else None


def threads_of(at: Moment, threads: Collection[str]) -> Op[dict[str, ThreadInfo]]:
    if not threads:
        return {}
    marks = ", ".join("?" * len(threads))
    rows = yield f"{THREAD} WHERE t.thread IN ({marks})", tuple(threads)
    return {row[0]: thread_info(row, at.now) for row in rows}


def find_thread(address: Address, person_scope: str = "") -> Op[str | None]:
    rows = yield (
        """SELECT thread FROM threads WHERE channel = ? AND account = ? AND chat = ? AND topic = ?
        AND person = ?""",
        (
            address.channel,
            address.account,
            column(address.chat),
            column(address.topic or ""),
            column(person_scope),
        ),
    )
    return rows[0][0] if rows else None


ARRIVAL = """SELECT thread, seq, kind, person, said_at, state, ending, reason, turn, body, at,
ended_at FROM inbox"""


def arrival_info(row: Row) -> ArrivalInfo:
    thread, seq, kind, person, said_at, state, ending, reason, turn, body, stored, ended = row
    speaker = from_column(person)
    at = instant(said_at)
    try:
        arrived = read_arrival(body)
    except Unreadable as error:  # one ruined row hides no other
        arrived = Wake(
            f"{thread}/{seq}",
            "owner",
            Address("house", "local", ChatId(thread)),
            None,
            speaker,
            f"(what was said here cannot be read any more: {error})",
            at,
        )
    return ArrivalInfo(
        thread,
        seq,
        kind,
        speaker,
        at,
        state,
        ending,
        None if reason is None else from_column(reason),
        turn,
        arrived,
        instant(stored),
        None if ended is None else instant(ended),
    )


def arrival(thread: str, seq: int) -> Op[ArrivalInfo | None]:
    rows = yield f"{ARRIVAL} WHERE thread = ? AND seq = ?", (thread, seq)
    return arrival_info(rows[0]) if rows else None


POST = f"SELECT {COLUMNS} FROM outbox o LEFT JOIN outbox t ON t.id = o.target"


def history(
    thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
) -> Op[list[HistoryItem]]:
    if before is None:
        span: tuple[Value, ...] = (thread, since, limit)
        where = "WHERE {0}thread = ? AND {0}seq > ? ORDER BY {0}seq LIMIT ?"
    else:
        span = (thread, since, before, limit)
        where = "WHERE {0}thread = ? AND {0}seq > ? AND {0}seq < ? ORDER BY {0}seq DESC LIMIT ?"
    plain = where.format("")
    arrivals = yield f"{ARRIVAL} {plain}", span
    steps = yield f"SELECT seq, turn, at, body FROM steps {plain}", span
    posts = yield f"{POST} {where.format('o.')}", span
    items: list[HistoryItem] = [arrival_info(row) for row in arrivals]
    for seq, turn, at, body in steps:
        items.append(StepInfo(seq, turn, instant(at), read_step(body)))
    items += [out_row(row) for row in posts]
    items.sort(key=lambda item: item.seq)
    return items[:limit] if before is None else items[max(0, len(items) - limit) :]


_STRETCH = "thread = ? AND seq >= ? AND seq < ?"
_FIRST_SAID = f"SELECT body FROM steps WHERE {_STRETCH} AND kind = 'user' ORDER BY seq LIMIT 20"
_LAST_SAID = f"SELECT at FROM steps WHERE {_STRETCH} ORDER BY seq DESC LIMIT 1"


def sessions(thread: str) -> Op[list[SessionInfo]]:
    rows = yield "SELECT session_seq, settings, next_seq FROM threads WHERE thread = ?", (thread,)
    if not rows:
        return []
    present, settings, end = rows[0]
    found: dict[int, SessionInfo] = {}
    for each in reversed(read_settings(settings).stretches):
        span = (thread, each.begins, end)
        end = each.begins
        if each.session in (present, NO_SESSION):
            continue
        last = yield _LAST_SAID, span
        if not last:
            continue
        words = [_words(read_step(body)) for (body,) in (yield _FIRST_SAID, span)]
        said = next((line for line in words if line), "")
        newer = found.get(each.session, SessionInfo(each.session, "", instant(last[0][0])))
        found[each.session] = replace(newer, words=said[:200] or newer.words)
    spoken = [info for info in found.values() if info.words]
    return sorted(spoken, key=lambda one: (one.last, one.session), reverse=True)


def _words(step: Step) -> str:
    """What somebody said with it, in one line."""
    if not isinstance(step, UserStep) or step.source not in ("message", "wake"):
        return ""
    words = [block.text for block in step.blocks if isinstance(block, Text)]
    return " ".join(" ".join(words[-1:]).split())


def last_delivery(channel: str, account: str) -> Op[datetime | None]:
    rows = yield (
        """SELECT ended_at FROM outbox WHERE ended_at IS NOT NULL AND channel = ? AND state = 'sent'
    AND account = ?
        ORDER BY ended_at DESC LIMIT 1""",
        (channel, account),
    )
    return instant(rows[0][0]) if rows else None
