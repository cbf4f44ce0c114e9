"""Questions about the store that change nothing."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from channels.contract import Address, ChatId
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.reports import (
    ArrivalInfo,
    AuditReport,
    Counts,
    HistoryItem,
    StepInfo,
    ThreadInfo,
    ThreadTotal,
    TurnUsage,
    UsageTotal,
)
from ohmo.store.codec import Unreadable, column, from_column, read_arrival, read_settings, read_step
from ohmo.store.known_people import link
from ohmo.store.outbox import COLUMNS, OPEN, out_row
from ohmo.store.slices import sums
from ohmo.store.statements import Moment, Op, Row, Value, instant
from ohmo.store.thread_locks import address_of

Depths = tuple[
    dict[tuple[str, str], int], dict[tuple[str, str], int]
]  # of inbox and outbox, by channel and state
_LIVE = ("waiting", "taken")
_TURNS_OPEN = "state IN ('running','parked')"


def counts(ended: Depths) -> Op[Counts]:
    """``ended``: what ``counts_of_ended`` said."""
    inbox, oldest = dict(ended[0]), dict[str, int]()
    for state in _LIVE:
        rows = yield (
            f"""SELECT t.channel, COUNT(*), MIN(i.at) FROM inbox i JOIN threads t ON t.thread = i.thread
            WHERE i.ended_at IS NULL AND i.state = '{state}' GROUP BY t.channel""",
            (),
        )
        inbox.update(((channel, state), count) for channel, count, _ in rows)
        oldest.update(
            (channel, min(since, oldest.get(channel, since))) for channel, _, since in rows
        )
    posts = yield (
        f"SELECT channel, state, COUNT(*) FROM outbox WHERE {OPEN} GROUP BY channel, state",
        (),
    )
    outbox = {**ended[1], **{(channel, state): count for channel, state, count in posts}}
    turns = yield f"SELECT state, COUNT(*) FROM turns WHERE {_TURNS_OPEN} GROUP BY state", ()
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


def _depths(found: Mapping[Row, Sequence[int]]) -> dict[tuple[str, str], int]:
    return {(channel, state): numbers[0] for (channel, state), numbers in found.items()}


THREAD = """SELECT t.thread, t.channel, t.account, t.chat, t.topic, t.person, t.session_seq, t.last_at, t.settings, t.ready_at, t.parked,
t.owner, t.until FROM threads t"""


def thread_info(row: Row, now: int) -> ThreadInfo:
    thread, *place, scope, session_seq, last_at, settings, ready_at, parked, owner, until = row
    chosen = read_settings(settings)
    held = owner is not None and until > now
    return ThreadInfo(
        thread=thread,
        address=address_of(tuple(place)),
        person_scope=from_column(scope),
        title=chosen.title,
        session_seq=session_seq,
        last_at=None if last_at is None else instant(last_at),
        state=(
            "parked"
            if parked
            else "running"
            if held
            else "ready"
            if ready_at is not None
            else "idle"
        ),
        settings=chosen,
    )


def thread(at: Moment, thread: str) -> Op[ThreadInfo | None]:
    rows = yield f"{THREAD} WHERE t.thread = ?", (thread,)
    return thread_info(rows[0], at.now) if rows else None


def find_thread(address: Address, person_scope: str = "") -> Op[str | None]:
    rows = yield (
        (
            "SELECT thread FROM threads WHERE channel = ? AND account = ? AND chat = ? AND topic ="
            " ? AND person = ?"
        ),
        (
            address.channel,
            address.account,
            column(address.chat),
            column(address.topic or ""),
            column(person_scope),
        ),
    )
    return rows[0][0] if rows else None


ARRIVAL = (
    "SELECT thread, seq, kind, person, said_at, state, ending, reason, turn, body, at, ended_at"
    " FROM inbox"
)


def arrival_info(row: Row) -> ArrivalInfo:
    thread, seq, kind, person, said_at, state, ending, reason, turn, body, stored, ended = row
    said = None if reason is None else from_column(reason)
    over = None if ended is None else instant(ended)
    who, at = from_column(person), instant(said_at)
    try:
        arrived = read_arrival(body)
    except Unreadable as error:  # one ruined row hides no other
        told = f"(what was said here cannot be read any more: {error})"
        arrived = Wake(
            f"{thread}/{seq}",
            "owner",
            Address("house", "local", ChatId(thread)),
            None,
            who,
            told,
            at,
        )
    return ArrivalInfo(
        thread, seq, kind, who, at, state, ending, said, turn, arrived, instant(stored), over
    )


def arrival(thread: str, seq: int) -> Op[ArrivalInfo | None]:
    rows = yield f"{ARRIVAL} WHERE thread = ? AND seq = ?", (thread, seq)
    return arrival_info(rows[0]) if rows else None


POST = f"SELECT {COLUMNS} FROM outbox o LEFT JOIN outbox t ON t.id = o.target"


def history(
    thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
) -> Op[list[HistoryItem]]:
    if before is None:
        span, where, order = (
            (thread, since, limit),
            "thread = ? AND {0}seq > ?",
            "ORDER BY {0}seq LIMIT ?",
        )
    else:
        span, where, order = (
            (thread, since, before, limit),
            "thread = ? AND {0}seq > ? AND {0}seq < ?",
            "ORDER BY {0}seq DESC LIMIT ?",
        )
    plain, joined = f"WHERE {where} {order}".format(""), f"WHERE o.{where} {order}".format("o.")
    arrivals = yield f"{ARRIVAL} {plain}", span
    steps = yield f"SELECT seq, turn, at, body FROM steps {plain}", span
    posts = yield f"{POST} {joined}", span
    found: list[HistoryItem] = [arrival_info(row) for row in arrivals]
    found += [StepInfo(seq, turn, instant(at), read_step(body)) for seq, turn, at, body in steps]
    found += [out_row(row) for row in posts]
    found.sort(key=lambda item: item.seq)
    return found[:limit] if before is None else found[max(0, len(found) - limit) :]


def last_delivery(channel: str, account: str) -> Op[datetime | None]:
    rows = yield (
        """SELECT ended_at FROM outbox WHERE ended_at IS NOT NULL AND channel = ? AND state = 'sent' AND account = ?
        ORDER BY ended_at DESC LIMIT 1""",
        (channel, account),
    )
    return instant(rows[0][0]) if rows else None


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
        WHERE day >= ? AND thread = ? AND turn IS NOT NULL GROUP BY turn, model ORDER BY turn, model""",
        ("" if since is None else since.astimezone(UTC).date().isoformat(), thread),
    )
    return [
        TurnUsage(*map(int, numbers), turn=turn, model=from_column(model))
        for turn, model, *numbers in rows
    ]


_LAWS: Sequence[tuple[str, str]] = (
    (
        "an arrival is taken by a turn that is not open",
        f"""SELECT i.thread, i.seq FROM inbox i WHERE i.ended_at IS NULL AND i.state = 'taken'
        AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = i.turn AND u.thread = i.thread AND u.{_TURNS_OPEN})""",
    ),
    (
        "a message waits in a thread that nobody will look at",
        """SELECT i.thread, i.seq FROM inbox i JOIN threads t ON t.thread = i.thread
        WHERE i.ended_at IS NULL AND i.state = 'waiting' AND i.kind IN ('message','wake') AND t.ready_at IS NULL AND t.parked = 0""",
    ),
    (
        "a running turn stands in a thread that nobody will look at",
        (
            "SELECT u.thread, 0 FROM turns u JOIN threads t ON t.thread = u.thread WHERE u.state ="
            " 'running' AND t.ready_at IS NULL"
        ),
    ),
    (
        "a parked turn has no open question",
        """SELECT u.thread, 0 FROM turns u WHERE u.state = 'parked'
        AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.turn = u.turn AND a.state = 'asked')""",
    ),
    (
        "a question is open in a turn that is not parked",
        """SELECT a.thread, a.seq FROM approvals a WHERE a.state IN ('queued','asked')
        AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = a.turn AND u.state = 'parked')""",
    ),
    (
        "a thread is marked parked without a parked turn, or the other way round",
        """SELECT t.thread, 0 FROM threads t
        WHERE (t.parked = 1) <> EXISTS (SELECT 1 FROM turns u WHERE u.thread = t.thread AND u.state = 'parked' AND u.state IN ('running','parked'))""",
    ),
    (
        "a turn is done and none of its arrivals was answered",
        """SELECT i.thread, MIN(i.seq) FROM inbox i JOIN turns u ON u.turn = i.turn WHERE u.state = 'done' AND i.turn IS NOT NULL
        AND (i.ending IS NULL OR i.ending <> 'noted')
        GROUP BY i.thread, i.turn HAVING SUM(CASE WHEN i.ending = 'answered' THEN 1 ELSE 0 END) <> 1""",
    ),
)


def audit_report() -> Op[AuditReport]:
    ended = yield "SELECT ending, COUNT(*) FROM inbox WHERE state = 'ended' GROUP BY ending", ()
    live = yield "SELECT state, COUNT(*) FROM inbox WHERE ended_at IS NULL GROUP BY state", ()
    posts = yield "SELECT state, COUNT(*) FROM outbox GROUP BY state", ()
    problems: list[str] = []
    for law, query in _LAWS:
        rows = yield query, ()
        problems += [
            f"{law}: thread {thread}" + (f", number {seq}" if seq else "") for thread, seq in rows
        ]
    problems += yield from _broken_chains()
    endings, on_the_way = (
        dict[str, int]((row[0], row[1]) for row in ended),
        dict[str, int]((row[0], row[1]) for row in live),
    )
    return AuditReport(
        accepted=sum(endings.values()) + sum(on_the_way.values()),
        endings=endings,
        waiting=on_the_way.get("waiting", 0),
        taken=on_the_way.get("taken", 0),
        posts={row[0]: row[1] for row in posts},
        problems=tuple(problems),
    )


def _broken_chains() -> Op[list[str]]:
    broken: list[str] = []
    writers = yield "SELECT DISTINCT writer FROM audit ORDER BY writer", ()
    for (writer,) in writers:
        key: tuple[Value, ...] = (writer,)
        links = yield "SELECT n, at, kind, body, hash FROM audit WHERE writer = ? ORDER BY n", key
        previous = ""
        for expected, (n, at, kind, body, proof) in enumerate(links, 1):
            if n != expected or proof != link(previous, n, at, kind, body):
                broken.append(f"the audit chain of {writer} is broken at {n}")
                break
            previous = proof
    return broken
