"""Taking arrivals out of the mailbox into a turn, revisions applied."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from channels.contract import Edited, Inbound, Reacted
from channels.record import record
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.inwriter import Begins
from ohmo.contracts.messages import Step, UserStep
from ohmo.contracts.store import Claim, Collects, ToContext, ToStep, Work
from ohmo.store.codec import read_arrival, read_under, write_under
from ohmo.store.inbox import end
from ohmo.store.overheard import overheard
from ohmo.store.statements import Moment, Op, Row, Rows
from ohmo.store.steps import append
from ohmo.store.thread_locks import TAKEN, WAITING, Home, Numbers, give_back, hold, more
from ohmo.store.threads import claim as take_ready
from ohmo.store.threads import must_hold

_COLUMNS = "seq, message, album, ready_at, person, body"
_HEAD = f"SELECT {_COLUMNS} FROM inbox WHERE thread = ? AND {WAITING} ORDER BY sort, seq"
_EDITS = (
    "SELECT seq, body FROM inbox WHERE thread = ? AND message = ? AND kind = 'edit' AND ended_at IS"
    " NULL AND state = 'waiting' ORDER BY sort, seq"
)
_MERGED = (
    "UPDATE inbox SET turn = ?, state = 'ended', ending = 'merged', ended_at = ? WHERE thread = ?"
    " AND seq = ?"
)


@record
class _Taken:
    seq: int
    person: str
    arrival: Arrival


def revised(arrival: Arrival, edit: Arrival) -> Arrival | None:
    """The arrival with the text of its newest edit; None when it was deleted."""
    assert isinstance(edit, Edited)
    if edit.text is None:
        return None
    return replace(arrival, text=edit.text) if isinstance(arrival, Inbound | Edited) else arrival


def _take(at: Moment, thread: str, turn: str, rows: Rows) -> Op[list[_Taken]]:
    """Mark rows as taken, merge their edits; what was deleted is superseded and left out."""
    taken: list[_Taken] = []
    for seq, message, _, _, person, body in rows:
        arrival: Arrival | None = read_arrival(body)
        if message:
            edits = yield _EDITS, (thread, message)
            for number, _ in edits:
                yield _MERGED, (turn, at.now, thread, number)
            if edits:
                arrival = revised(read_arrival(body), read_arrival(edits[-1][1]))
        if arrival is None:
            yield from end(at, thread, seq, "superseded", "deleted")
        else:
            yield (
                "UPDATE inbox SET state = 'taken', turn = ? WHERE thread = ? AND seq = ?",
                (turn, thread, seq),
            )
            taken.append(_Taken(seq, person, arrival))
    return taken


def _album(thread: str, head: Row) -> Op[Rows]:
    if not head[2]:
        return [head]
    return (
        yield (
            (
                f"SELECT {_COLUMNS} FROM inbox WHERE thread = ? AND {WAITING} AND album = ? ORDER"
                " BY sort, seq"
            ),
            (thread, head[2]),
        )
    )


@record
class Beginning:
    """What a turn is begun with."""

    step: ToStep
    context: ToContext | None
    under: Begins | None


def _none() -> Op[list[Inbound | Reacted]]:
    yield from ()
    return []


def _await_album(thread: str) -> Op[None]:
    """The head may be due while a later part of its album is not: the thread is ready when all of
    them are."""
    rows = yield f"{_HEAD} LIMIT 1", (thread,)
    if rows and rows[0][2]:
        last = max(part[3] for part in (yield from _album(thread, rows[0])))
        yield (
            "UPDATE threads SET ready_at = ? WHERE thread = ? AND ready_at < ?",
            (last, thread, last),
        )


def _take_head(at: Moment, thread: str, turn: str) -> Op[list[_Taken]]:
    """The head of the mailbox: one message, or all parts of an album once it is complete."""
    while True:
        rows = yield f"{_HEAD} LIMIT 1", (thread,)
        if not rows:
            return []
        parts = yield from _album(thread, rows[0])
        if any(part[3] > at.now for part in parts):
            return []
        if taken := (yield from _take(at, thread, turn, parts)):
            return taken


def _take_all(at: Moment, thread: str, turn: str, person: str | None = None) -> Op[list[_Taken]]:
    """Everything that waits of ``person`` (None: of whoever is first), up to the first album that
    is still coming in and to the first words of somebody else: a turn acts with the rights of one
    person."""
    rows = yield _HEAD, (thread,)
    person = rows[0][4] if rows and person is None else person
    held = {row[2] for row in rows if row[2] and row[3] > at.now}
    ready: Rows = []
    for row in rows:
        if row[3] > at.now or row[2] in held or row[4] != person:
            break
        ready.append(row)
    return (yield from _take(at, thread, turn, ready))


_OPEN = """SELECT turn, state, starts, attempts, begun_under FROM turns WHERE thread = ? AND state IN ('running','parked')"""
_REVISION = (
    "SELECT body FROM inbox WHERE thread = ? AND message = ? AND kind = 'edit' AND turn = ? ORDER"
    " BY sort DESC, seq DESC LIMIT 1"
)


def work(
    at: Moment,
    claim: Claim,
    turn: str,
    *,
    collect: bool,
    step: ToStep,
    context: ToContext | None = None,
    under: Begins | None = None,
) -> Op[Work | None]:
    yield from hold(claim)
    beginning = Beginning(step, context, under)
    return (yield from _work(at, claim, turn, collect, beginning))


def begin(
    at: Moment,
    owner: str,
    turns: Sequence[str],
    *,
    ttl: float,
    collect: Collects,
    step: ToStep,
    context: ToContext | None = None,
    under: Begins | None = None,
    idle: float | None = None,
) -> Op[list[tuple[Claim, Work | None]]]:
    beginning = Beginning(step, context, under)
    claims = yield from take_ready(at, owner, limit=len(turns), ttl=ttl, idle=idle)
    begun: list[tuple[Claim, Work | None]] = []
    for claim, turn in zip(claims, turns, strict=False):
        work = yield from _work(at, claim, turn, collect(claim), beginning)
        begun.append((claim, work))
    return begun


def _work(
    at: Moment, claim: Claim, turn: str, collect: bool, beginning: Beginning
) -> Op[Work | None]:
    """Of a thread that was locked by this transaction."""
    thread = claim.thread
    opened = yield _OPEN, (thread,)
    if opened:
        present, state, starts, attempts, under = opened[0]
        if state == "parked":  # nothing to do before its question is answered
            yield (
                (
                    "UPDATE threads SET owner = NULL, until = 0, ready_at = NULL, parked = 1 WHERE"
                    " thread = ?"
                ),
                (thread,),
            )
            return None
        return Work(
            present,
            starts,
            attempts,
            (yield from _resumed(thread, present)),
            resumed=True,
            under=None if under is None else read_under(under),
        )
    taken = yield from (_take_all if collect else _take_head)(at, thread, turn)
    if not taken:
        yield from give_back(at, thread)
        yield from _await_album(thread)
        return None
    under = beginning.under(taken[0].arrival) if beginning.under is not None else None
    kept = None if under is None else write_under(under)
    yield (
        """INSERT INTO turns (turn, thread, state, person, began, begun_under)
        VALUES (?, ?, 'running', ?, ?, ?)""",
        (turn, thread, taken[0].person, at.now, kept),
    )
    step, context = beginning.step, beginning.context
    heard = yield from (
        overheard(at, thread, turn, taken[0].seq, taken[0].arrival)
        if context is not None
        else _none()
    )
    before = context(heard) if context is not None and heard else None
    steps = [*([before] if before is not None else []), *(step(one.arrival) for one in taken)]
    numbers = yield from _write_steps(at, claim, turn, steps)
    return Work(
        turn,
        1,
        0,
        tuple(one.arrival for one in taken),
        resumed=False,
        steps=tuple(zip(numbers, steps, strict=True)),
        under=under,
    )


def _resumed(thread: str, turn: str) -> Op[tuple[Arrival, ...]]:
    """The same arrivals as at the start, in the order in which they were taken."""
    rows = yield (
        (
            f"SELECT message, body FROM inbox WHERE thread = ? AND turn = ? AND {TAKEN} ORDER BY"
            " sort, seq"
        ),
        (thread, turn),
    )
    arrivals: list[Arrival] = []
    for message, body in rows:
        arrival = read_arrival(body)
        if message:
            edits = yield _REVISION, (thread, message, turn)
            arrival = (revised(arrival, read_arrival(edits[0][0])) if edits else None) or arrival
        arrivals.append(arrival)
    return tuple(arrivals)


def _write_steps(at: Moment, claim: Claim, turn: str, steps: Sequence[Step]) -> Op[list[int]]:
    numbers = Numbers()
    yield from more(Home(claim.thread, claim.address), numbers, len(steps))
    return (yield from append(at, claim.thread, numbers, turn, steps))


def steer(
    at: Moment, claim: Claim, turn: str, step: ToStep
) -> Op[tuple[tuple[int, UserStep], ...]]:
    rows = yield f"{_HEAD} LIMIT 1", (claim.thread,)
    if not rows:  # asked before every model call: mostly there is nothing, and nothing is written
        yield from must_hold(claim)
        return ()
    yield from hold(claim, 0, turn)
    whose = yield "SELECT person FROM turns WHERE turn = ?", (turn,)
    taken = yield from _take_all(at, claim.thread, turn, whose[0][0])
    steps = [step(one.arrival) for one in taken]
    numbers = yield from _write_steps(at, claim, turn, steps)
    return tuple(zip(numbers, steps, strict=True))
