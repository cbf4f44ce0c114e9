"""Taking arrivals out of the mailbox into a turn, revisions applied."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from channels.contract import (
    Edited,
    Inbound,
    MessageId,
    Outbound,
    Person,
    PersonId,
    Reacted,
    TopicId,
)
from channels.record import record
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.inwriter import Begins, Collects, ToContext, ToStep
from ohmo.contracts.messages import Step, UserStep
from ohmo.contracts.turns import BY_A_BOT, NOT_ADDRESSED, Claim, Work
from ohmo.store.codec import (
    from_column,
    read_arrival,
    read_outbound,
    read_parts,
    read_under,
    write_under,
)
from ohmo.store.inbox import end
from ohmo.store.outbox import receipts
from ohmo.store.running_turns import append
from ohmo.store.statements import Moment, Op, Row, Rows, instant
from ohmo.store.threads import (
    TAKEN,
    WAITING,
    Home,
    Numbers,
    give_back,
    hold,
    more,
    must_hold,
    thread_id,
)
from ohmo.store.threads import claim as take_ready

_COLUMNS = "seq, message, album, ready_at, person, body"
_HEAD = f"SELECT {_COLUMNS} FROM inbox WHERE thread = ? AND {WAITING} ORDER BY sort, seq"
_ALBUM = f"""SELECT {_COLUMNS} FROM inbox WHERE thread = ? AND {WAITING} AND album = ?
ORDER BY sort, seq"""
_EDITS = """SELECT seq, body FROM inbox WHERE thread = ? AND message = ? AND kind = 'edit'
AND ended_at IS NULL AND state = 'waiting' ORDER BY sort, seq"""
_MERGED = """UPDATE inbox SET turn = ?, state = 'ended', ending = 'merged', ended_at = ?
WHERE thread = ? AND seq = ?"""


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
    return (yield _ALBUM, (thread, head[2]))


@record
class Beginning:
    """What a turn is begun with."""

    step: ToStep
    context: ToContext | None
    under: Begins | None


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


_OPEN = """SELECT turn, state, starts, attempts, begun_under FROM turns WHERE thread = ?
AND state IN ('running','parked')"""
_PARKED = """UPDATE threads SET owner = NULL, until = 0, ready_at = NULL, parked = 1
WHERE thread = ?"""
_REVISION = """SELECT body FROM inbox WHERE thread = ? AND message = ? AND kind = 'edit'
AND turn = ? ORDER BY sort DESC, seq DESC LIMIT 1"""


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
            yield _PARKED, (thread,)
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
    steps: list[UserStep] = []
    if beginning.context is not None:
        heard = yield from overheard(at, thread, turn, taken[0].seq, taken[0].arrival)
        steps += beginning.context(claim, heard)
    steps += [beginning.step(one.arrival) for one in taken]
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
        f"""SELECT message, body FROM inbox WHERE thread = ? AND turn = ? AND {TAKEN}
        ORDER BY sort, seq""",
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


MOST = 50  # messages
OLDEST = 86_400_000  # ms
OWN = 100  # posts of ours among which the message a thread hangs on is looked for
REACH = 400  # numbers of a thread that are looked back: the cost does not grow with its age
_FRESH = """thread = ? AND seq > ? AND seq < ? AND ending = 'noted' AND turn IS NULL
AND (kind = 'reaction' OR (kind = 'message' AND reason = ?))"""
_HEARD = f"""SELECT message, kind, body FROM inbox WHERE {_FRESH} AND said_at >= ? ORDER BY seq DESC
LIMIT {MOST}"""
# Only this operation writes the turn of a row that has ended, so the place above needs no lock: a
# row is marked by one turn alone.
_HANDED = f"UPDATE inbox SET turn = ? WHERE {_FRESH}"
# The message a thread hangs on: a person pointed at it by calling there, so that it may be a
# program's; not a stranger's.
_ROOT = """SELECT body FROM inbox WHERE thread = ? AND message = ? AND kind = 'message'
AND (ending IN ('answered','merged') OR (ending = 'noted' AND reason IN (?, ?))) ORDER BY seq DESC
LIMIT 1"""
_SAID = f"""SELECT body, parts, at FROM outbox WHERE thread = ? AND kind <> 'draft'
AND state = 'sent' ORDER BY seq DESC LIMIT {OWN}"""
_EDIT = """SELECT body FROM inbox WHERE thread = ? AND message = ? AND kind = 'edit'
ORDER BY sort DESC, seq DESC LIMIT 1"""


def overheard(
    at: Moment, thread: str, turn: str, before: int, first: Arrival
) -> Op[list[Inbound | Reacted]]:
    """Words and reactions up to number ``before`` that no turn was told of, oldest first, as they
    stand now; what was deleted is left out.

    A call that begins a thread of its own on itself is told what was said in the place above it;
    the first one in any other thread is told the message that the thread hangs on."""
    if not isinstance(first, Inbound):
        return []
    found = yield from _in_thread(at, thread, turn, before)
    topic = first.address.topic
    if topic is None:
        return found
    rows = yield "SELECT person FROM threads WHERE thread = ?", (thread,)
    above = thread_id(replace(first.address, topic=None), from_column(rows[0][0]))
    if topic == first.message:
        rows = yield "SELECT next_seq FROM threads WHERE thread = ?", (above,)
        return [*(yield from _in_thread(at, above, turn, rows[0][0])), *found] if rows else found
    begun = yield "SELECT 1 FROM steps WHERE thread = ? AND kind = 'user' LIMIT 1", (thread,)
    return found if begun else [*(yield from _root(above, topic)), *found]


def _root(above: str, topic: TopicId) -> Op[list[Inbound | Reacted]]:
    """As it stands now; nothing when it was deleted, is not known, or is no message (a topic of
    Telegram, a forum)."""
    rows = yield _ROOT, (above, topic, NOT_ADDRESSED, BY_A_BOT)
    for (body,) in rows:
        arrival = yield from _as_it_stands(above, topic, read_arrival(body))
        return [arrival] if arrival is not None else []
    for body, parts, said_at in (yield _SAID, (above,)):
        if any(one.message == topic for one in receipts(read_parts(parts))):
            return [own_words(read_outbound(body), MessageId(topic), instant(said_at))]
    return []


def own_words(said: Outbound, message: MessageId, at: datetime) -> Inbound:
    """A message of ours, as one that was overheard."""
    me = Person(PersonId(said.address.account), "you", bot=True)
    return Inbound(
        key=message,
        address=said.address,
        person=me,
        at=at,
        order="",
        message=message,
        text=said.text,
        private=False,
        addressed=False,
    )


def _in_thread(at: Moment, thread: str, turn: str, before: int) -> Op[list[Inbound | Reacted]]:
    fresh = (thread, before - REACH, before, NOT_ADDRESSED)
    rows = yield _HEARD, (*fresh, at.now - OLDEST)
    if not rows:
        return []
    yield _HANDED, (turn, *fresh)
    found: list[Inbound | Reacted] = []
    for message, kind, body in reversed(rows):
        arrival = read_arrival(body)
        stands = (
            (yield from _as_it_stands(thread, message, arrival))
            if kind == "message" and message
            else arrival
        )
        if isinstance(stands, Inbound | Reacted):
            found.append(stands)
    return found


def _as_it_stands(thread: str, message: str, arrival: Arrival) -> Op[Inbound | None]:
    """With its newest edit; None: deleted."""
    if not isinstance(arrival, Inbound):
        return None
    edits = yield _EDIT, (thread, message)
    if not edits:
        return arrival
    edit = read_arrival(edits[0][0])
    return (
        replace(arrival, text=edit.text)
        if isinstance(edit, Edited) and edit.text is not None
        else None
    )
