"""The audit log, a chain of hashes for each writer, and the laws that every store keeps."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ohmo.contracts.reports import AuditReport
from ohmo.store.codec import column
from ohmo.store.statements import Moment, Op, Value
from ohmo.store.threads import TURN_OPEN


def link(previous: str, n: int, at: int, kind: str, body: str) -> str:
    """The hash of one link: it binds everything before it."""
    return hashlib.sha256(json.dumps([previous, n, at, kind, body]).encode()).hexdigest()


def audit(at: Moment, kind: str, body: str) -> Op[None]:
    writer = at.instance.writer
    rows = yield "SELECT n, hash FROM audit WHERE writer = ? ORDER BY n DESC LIMIT 1", (writer,)
    n, previous = (rows[0][0] + 1, rows[0][1]) if rows else (1, "")
    kind, body = column(kind), column(body)
    yield (
        "INSERT INTO audit (writer, n, at, kind, body, hash) VALUES (?, ?, ?, ?, ?, ?)",
        (writer, n, at.now, kind, body, link(previous, n, at.now, kind, body)),
    )


_LAWS: Sequence[tuple[str, str]] = (
    (
        "an arrival is taken by a turn that is not open",
        f"""SELECT i.thread, i.seq FROM inbox i WHERE i.ended_at IS NULL AND i.state = 'taken'
        AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.turn = i.turn AND u.thread = i.thread
        AND u.{TURN_OPEN})""",
    ),
    (
        "a message waits in a thread that nobody will look at",
        """SELECT i.thread, i.seq FROM inbox i JOIN threads t ON t.thread = i.thread
        WHERE i.ended_at IS NULL AND i.state = 'waiting' AND i.kind IN ('message','wake')
        AND t.ready_at IS NULL AND t.parked = 0""",
    ),
    (
        "a running turn stands in a thread that nobody will look at",
        """SELECT u.thread, 0 FROM turns u JOIN threads t ON t.thread = u.thread
        WHERE u.state = 'running' AND t.ready_at IS NULL""",
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
        WHERE (t.parked = 1) <> EXISTS (SELECT 1 FROM turns u WHERE u.thread = t.thread
        AND u.state = 'parked' AND u.state IN ('running','parked'))""",
    ),
    (
        "a turn is done and none of its arrivals was answered",
        """SELECT i.thread, MIN(i.seq) FROM inbox i JOIN turns u ON u.turn = i.turn
    WHERE u.state = 'done' AND i.turn IS NOT NULL
        AND (i.ending IS NULL OR i.ending <> 'noted')
        GROUP BY i.thread, i.turn HAVING SUM(CASE WHEN i.ending = 'answered' THEN 1
        ELSE 0 END) <> 1""",
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
