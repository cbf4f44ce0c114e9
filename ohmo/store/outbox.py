"""Posts: written with what caused them, frozen before they are said, ended once."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from channels.contract import Receipt
from ohmo.contracts.errors import Conflict
from ohmo.contracts.inwriter import Closing
from ohmo.contracts.outbox import OutRow, PartState, PostRow
from ohmo.store.codec import (
    column,
    from_column,
    read_outbound,
    read_parts,
    write_outbound,
    write_parts,
)
from ohmo.store.statements import Moment, Op, Row, Rows, Undo, instant
from ohmo.store.threads import Home, Numbers, more, thread_id, touch

OPEN = "ended_at IS NULL"  # ready or sending
COLUMNS = (
    "o.id, o.kind, o.body, o.target, o.ttl, o.thread, o.seq, o.turn, o.state, o.parts, o.attempts,"
    " o.ready_at, o.expires, o.at, t.parts, o.error, o.ended_at"
)
_FROM = f"SELECT {COLUMNS} FROM outbox o LEFT JOIN outbox t ON t.id = o.target"


def out_row(row: Row) -> OutRow:
    """From COLUMNS."""
    (
        post,
        kind,
        body,
        target,
        ttl,
        thread,
        seq,
        turn,
        state,
        parts,
        attempts,
        ready_at,
        expires,
        written,
        replaced,
        error,
        ended,
    ) = row
    return OutRow(
        row=PostRow(post, kind, read_outbound(body), target, ttl / 1000),
        thread=thread,
        seq=seq,
        turn=turn,
        state=state,
        parts=read_parts(parts),
        attempts=attempts,
        ready_at=instant(ready_at),
        expires=instant(expires),
        started=instant(written),
        replaces=receipts(read_parts(replaced)),
        error=None if error is None else from_column(error),
        ended=None if ended is None else instant(ended),
    )


def receipts(parts: Sequence[PartState]) -> tuple[Receipt, ...]:
    """What stands on the platform: a surplus that was deleted stands no more."""
    return tuple(p.receipt for p in parts if p.receipt is not None and p.part.kind != "delete")


_INSERT = """INSERT INTO outbox (id, thread, seq, channel, account, turn, kind, target, body, state,
at, ready_at, expires, ttl)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'ready', ?, ?, ?, ?)"""


def speak(
    at: Moment, home: Home, numbers: Numbers, posts: Sequence[PostRow], turn: str | None
) -> Op[None]:
    """Write posts whose numbers are reserved."""
    for row in posts:
        thread, address = home.destination(row), row.outbound.address
        seq = numbers.take(thread)
        ttl = round(row.ttl * 1000)
        body = write_outbound(row.outbound)
        whose = (row.id, thread, seq, address.channel, address.account, turn, row.kind, row.target)
        yield _INSERT, (*whose, body, at.now, at.now, at.now + ttl, ttl)
        written = None
        if row.target is None:  # else what it replaces has to be read
            written = OutRow(
                row=replace(row, outbound=read_outbound(body)),
                thread=thread,
                seq=seq,
                turn=turn,
                state="ready",
                parts=(),
                attempts=0,
                ready_at=instant(at.now),
                expires=instant(at.now + ttl),
                started=instant(at.now),
            )
        at.spoke(thread, address.channel, address.account, written)


def say_more(at: Moment, home: Home, posts: Sequence[PostRow], turn: str | None) -> Op[None]:
    """Posts that became known only under the lock (closings, cards)."""
    numbers = Numbers()
    yield from more(home, numbers, sum(home.destination(p) == home.thread for p in posts))
    for post in sorted(posts, key=home.destination):
        if (thread := home.destination(post)) != home.thread and thread not in numbers.left:
            count = sum(home.destination(p) == thread for p in posts)
            _, numbers.left[thread] = yield from touch(at, post.outbound.address, "", count)
    yield from speak(at, home, numbers, posts, turn)


def close(at: Moment, home: Home, ids: Sequence[str], closing: Closing) -> Op[int]:
    """Drafts or cards whose turn or question ended otherwise: one that was or may have been said is
    replaced, one that was not is dropped. Returns how many were replaced."""
    replaced = 0
    for standing in ids:
        if row := (yield from _standing(at, standing)):
            ending = closing(row)
            target = ending.target if ending.target is not None else standing
            yield from say_more(
                at,
                home,
                [PostRow(ending.id, "edit", ending.outbound, target, ending.ttl)],
                row.turn,
            )
            replaced += 1
    return replaced


def _standing(at: Moment, id: str) -> Op[OutRow | None]:
    """The row when it was or may have been said; drops it when it certainly was not."""
    rows = yield f"{_FROM} WHERE o.id = ?", (id,)
    if not rows or rows[0][8] in ("dropped", "dead"):
        return None
    row = out_row(rows[0])
    if row.state == "ready" and not receipts(row.parts):
        dropped = yield (
            """UPDATE outbox SET state = 'dropped', ended_at = ? WHERE id = ? AND state = 'ready'
            RETURNING id""",
            (at.now, id),
        )
        if dropped:
            at.spoke(row.thread, row.row.outbound.address.channel, row.row.outbound.address.account)
            return None
        rows = yield f"{_FROM} WHERE o.id = ?", (id,)  # the sender was faster
        row = out_row(rows[0])
    return row


_DRAFTS = """SELECT d.id FROM outbox d WHERE d.turn = ? AND d.kind = 'draft'
AND d.state NOT IN ('dropped','dead')
AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.target = d.id) ORDER BY d.seq"""


def open_drafts(turn: str) -> Op[list[str]]:
    rows = yield _DRAFTS, (turn,)
    return [row[0] for row in rows]


def post_row(id: str) -> Op[OutRow | None]:
    rows = yield f"{_FROM} WHERE o.id = ?", (id,)
    return out_row(rows[0]) if rows else None


def drafted(turn: str) -> Op[OutRow | None]:
    """The newest draft that nothing has taken the place of."""
    drafts = yield from open_drafts(turn)
    return (yield from post_row(drafts[-1])) if drafts else None


def take_draft(at: Moment, turn: str) -> Op[str | None]:
    """The turn's draft that a final post shall replace; what was never said is dropped."""
    standing = None
    for draft in (yield from open_drafts(turn)):
        if (yield from _standing(at, draft)) is not None:
            standing = draft
    return standing


def post(at: Moment, rows: Sequence[PostRow]) -> Op[None]:
    """Posts that belong to no turn; a known id is ignored."""
    fresh: dict[str, PostRow] = {}
    for row in rows:
        known = yield "SELECT 1 FROM outbox WHERE id = ?", (row.id,)
        if not known:
            fresh.setdefault(row.id, row)
    if not fresh:
        raise Undo(None)
    numbers = Numbers()
    by_thread: dict[str, list[PostRow]] = {}
    for row in fresh.values():
        by_thread.setdefault(thread_id(row.outbound.address), []).append(row)
    for thread in sorted(by_thread):
        posts = by_thread[thread]
        home = Home(thread, posts[0].outbound.address)
        _, numbers.left[thread] = yield from touch(at, home.address, "", len(posts))
        yield from speak(at, home, numbers, posts, None)


def outgoing(
    channel: str, account: str, threads: Collection[str] | None = None
) -> Op[list[OutRow]]:
    if threads is None:
        heads = yield (
            f"""SELECT thread, MIN(seq) FROM outbox WHERE channel = ? AND account = ? AND {OPEN}
            GROUP BY thread""",
            (channel, account),
        )
    else:
        heads: Rows = []
        for thread in sorted(set(threads)):
            heads += yield (
                f"""SELECT thread, seq FROM outbox WHERE channel = ? AND account = ? AND thread = ?
                AND {OPEN} ORDER BY seq LIMIT 1""",
                (channel, account, thread),
            )
    found: list[OutRow] = []
    for thread, seq in heads:
        rows = yield f"{_FROM} WHERE o.thread = ? AND o.seq = ?", (thread, seq)
        found += [out_row(row) for row in rows]
    return sorted(found, key=lambda row: (row.ready_at, row.thread))


_SENDING = f"""UPDATE outbox SET state = 'sending', parts = ? WHERE id = ? AND {OPEN}
AND (state = 'sending' OR NOT EXISTS (SELECT 1 FROM outbox e WHERE e.channel = outbox.channel
AND e.account = outbox.account AND e.thread = outbox.thread AND e.ended_at IS NULL
AND e.seq < outbox.seq))
RETURNING id"""


def sending(_: Moment, id: str, parts: Sequence[PartState]) -> Op[None]:
    """Raises Conflict when the row is no longer open (a draft that was dropped meanwhile), or is
    not the first one that is: then it must not be said now."""
    rows = yield _SENDING, (write_parts(parts), id)
    if not rows:
        raise Conflict(f"post {id} is not open any more, or others go before it")


def sent(at: Moment, id: str, parts: Sequence[PartState]) -> Op[bool]:
    """Whether more is open in the row's thread."""
    rows = yield (
        """UPDATE outbox SET state = 'sent', parts = ?, error = NULL, ended_at = ? WHERE id = ?
        RETURNING channel, account, thread""",
        (write_parts(parts), at.now, id),
    )
    if not rows:
        raise Conflict(f"there is no post {id}")
    more = yield (
        f"""SELECT 1 FROM outbox WHERE channel = ? AND account = ? AND thread = ? AND {OPEN}
        LIMIT 1""",
        rows[0],
    )
    at.changed(rows[0][2])
    return bool(more)


_UNSENT = f"""UPDATE outbox SET state = ?, attempts = attempts + 1, error = ?, ready_at = ?,
ended_at = ?
WHERE id = ? AND {OPEN} RETURNING thread, channel, account"""


def unsent(
    at: Moment,
    id: str,
    *,
    retry_after: float | None,
    error: str,
    parts: Sequence[PartState] | None = None,
) -> Op[None]:
    """Certainly not said (what may have been said stays ``sending``): again after a time, or
    never."""
    dead = retry_after is None
    rows = yield (
        _UNSENT,
        (
            "dead" if dead else "ready",
            column(error),
            at.now if dead else at.later(retry_after),
            at.now if dead else None,
            id,
        ),
    )
    if not rows:
        raise Conflict(f"post {id} is not open any more")
    if parts is not None:
        yield "UPDATE outbox SET parts = ? WHERE id = ?", (write_parts(parts), id)
    if dead:
        at.spoke(*rows[0])  # the thread has another head now
    else:
        at.changed(rows[0][0])


def retry_post(at: Moment, id: str) -> Op[bool]:
    rows = yield (
        """UPDATE outbox SET state = 'ready', attempts = 0, error = NULL, ended_at = NULL,
    ready_at = ?, expires = ttl + ?
        WHERE id = ? AND state = 'dead' RETURNING thread, channel, account""",
        (at.now, at.now, id),
    )
    if rows:
        at.spoke(*rows[0])
    return bool(rows)


def drop_post(at: Moment, id: str) -> Op[bool]:
    rows = yield (
        """UPDATE outbox SET state = 'dropped', ended_at = ? WHERE id = ?
    AND state IN ('ready','sending','dead')
        RETURNING thread, channel, account""",
        (at.now, id),
    )
    if rows:
        at.spoke(*rows[0])
    return bool(rows)
