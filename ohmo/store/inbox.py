"""Arrivals: stored once, in order, with their cursor; ended once."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from channels.contract import Address, Edited, Inbound, Reacted
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.messages import UserStep
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import (
    Accepted,
    CursorSave,
    Ending,
    Kind,
    Pending,
    PersonRow,
    Seat,
    ThreadSettings,
)
from ohmo.store.codec import (
    column,
    from_column,
    read_arrival,
    read_settings,
    write_arrival,
    write_settings,
)
from ohmo.store.cron_jobs import claim, claim_again
from ohmo.store.known_people import first_with_words, meet, save_person
from ohmo.store.outbox import speak
from ohmo.store.running_turns import append
from ohmo.store.statements import Moment, Op, Undo, milliseconds
from ohmo.store.threads import WAITING, Numbers, find_home, lock_thread, reserve, thread_id, touch

Item = tuple[Arrival, Seat]
Name = tuple[str, str, str]


def place_of(arrival: Arrival) -> Address:
    return arrival.place if isinstance(arrival, Wake) else arrival.address


def names_of(arrival: Arrival) -> list[Name]:
    """Every name under which this very thing may come again."""
    place = place_of(arrival)
    keys = (arrival.key,) if isinstance(arrival, Wake) else (arrival.key, *arrival.aliases)
    return [(place.channel, place.account, column(key)) for key in dict.fromkeys(keys)]


def accept(
    at: Moment, items: Sequence[Item], cursor: CursorSave | None = None
) -> Op[list[Accepted]]:
    if cursor is not None:
        yield from _save_cursor(cursor)
    results: dict[int, Accepted] = {}
    twins: dict[int, int] = {}  # later item of this batch -> the earlier one with the same name
    first: dict[Name, int] = {}
    fresh: list[int] = []
    for index, (arrival, _) in enumerate(items):
        names = names_of(arrival)
        if twin := [first[name] for name in names if name in first]:
            twins[index] = twin[0]
        elif known := (yield from _known(names)):
            results[index] = known
        else:
            first.update(dict.fromkeys(names, index))
            fresh.append(index)
    numbers = yield from _lock_places(at, [items[i] for i in fresh])
    for index, (thread, seq) in zip(fresh, numbers, strict=True):
        results[index] = yield from _store(at, *items[index], thread, seq)
    stored = [items[index][0] for index in fresh if not results[index].duplicate]
    yield from meet(at, [arrival for arrival in stored if isinstance(arrival, Inbound)])
    for index, twin_of in sorted(twins.items()):
        results[index] = replace(results[twin_of], duplicate=True)
    return [results[index] for index in range(len(items))]


def _save_cursor(cursor: CursorSave) -> Op[None]:
    rows = yield (
        """INSERT INTO cursors (channel, account, name, value, generation) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (channel, account, name) DO UPDATE SET value = excluded.value,
          generation = CASE WHEN excluded.generation = 0 THEN cursors.generation
          ELSE excluded.generation END
        WHERE excluded.generation = 0 OR cursors.generation <= excluded.generation
        RETURNING generation""",
        (
            cursor.channel,
            cursor.account,
            column(cursor.name),
            column(cursor.value),
            cursor.generation,
        ),
    )
    if not rows:
        raise LeaseLost(
            f"the connection of {cursor.channel} {cursor.account} belongs to somebody else now;"
            " nothing was written"
        )


def _known(names: Sequence[Name]) -> Op[Accepted | None]:
    for name in names:
        rows = yield (
            "SELECT thread, seq FROM seen WHERE channel = ? AND account = ? AND event_key = ?",
            name,
        )
        if rows:
            return Accepted(rows[0][0], rows[0][1], duplicate=True)
    return None


def _lock_places(at: Moment, items: Sequence[Item]) -> Op[list[tuple[str, int]]]:
    """Lock every thread of the batch in order of thread; a thread and a number for each item."""
    places: dict[str, tuple[Address, str, list[Item]]] = {}
    for item in items:
        place, scope = place_of(item[0]), item[1].person_scope
        places.setdefault(thread_id(place, scope), (place, scope, []))[2].append(item)
    left: dict[str, tuple[str, int]] = {}
    for thread in sorted(places):
        place, scope, here = places[thread]
        holds = [
            seat.hold
            for _, seat in here
            if seat.ending is None and seat.kind in ("message", "wake")
        ]
        begins = first_with_words(arrival for arrival, _ in here)
        if not holds:
            left[thread] = yield from touch(at, place, scope, len(here), begins=begins)
            at.changed(left[thread][0])
        else:
            # For an idle thread: what follows a message that is not held does not hold it back.
            first = at.later(max(holds) if holds[0] > 0 else 0.0)
            last = at.later(max(holds))
            left[thread] = yield from touch(at, place, scope, len(here), first, last, begins)
            at.ready(left[thread][0], place.channel, place.account)
    numbered: list[tuple[str, int]] = []
    for arrival, seat in items:
        wanted = thread_id(place_of(arrival), seat.person_scope)
        thread, seq = left[wanted]
        left[wanted] = (thread, seq + 1)
        numbered.append((thread, seq))
    return numbered


def _store(at: Moment, arrival: Arrival, seat: Seat, thread: str, seq: int) -> Op[Accepted]:
    names = names_of(arrival)
    for count, name in enumerate(names):
        rows = yield (
            """INSERT INTO seen (channel, account, event_key, thread, seq, at)
            VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING seq""",
            (*name, thread, seq, at.now),
        )
        if not rows:  # another instance was faster
            yield from _unseen(names[:count])
            known = yield from _known(names)
            return known or Accepted(thread, seq, duplicate=True)
    if (
        isinstance(arrival, Wake)
        and arrival.occurrence is not None
        and not (yield from claim(at, arrival.occurrence, thread, seq))
    ):
        yield from _unseen(names)
        return Accepted(thread, seq, duplicate=True)
    kind, ending = seat.kind, seat.ending
    if ending is None and isinstance(arrival, Edited):
        kind, ending = yield from _edit(arrival, thread)
    elif ending is None and isinstance(arrival, Reacted) and kind == "reaction":
        ending = "noted"
    yield from insert(
        at, arrival, thread, seq, kind=kind, hold=seat.hold, ending=ending, reason=seat.reason
    )
    if seat.settings is not None:
        rows = yield "SELECT settings, session_seq FROM threads WHERE thread = ?", (thread,)
        settings, session = rows[0]
        chosen = seat.settings.within(session).over(read_settings(settings))
        yield "UPDATE threads SET settings = ? WHERE thread = ?", (write_settings(chosen), thread)
    return Accepted(thread, seq, duplicate=False)


def _unseen(names: Sequence[Name]) -> Op[None]:
    for name in names:
        yield "DELETE FROM seen WHERE channel = ? AND account = ? AND event_key = ?", name


def _edit(edit: Edited, thread: str) -> Op[tuple[Kind, Ending | None]]:
    """What an edit becomes; decided under the thread's lock by the state of the newest row of its
    message."""
    rows = yield (
        """SELECT state, kind FROM inbox WHERE thread = ? AND message = ?
        AND kind IN ('message','command') ORDER BY seq DESC LIMIT 1""",
        (thread, column(edit.message)),
    )
    match rows[0] if rows else None:
        case None | ("waiting", "message"):
            return "edit", None
        case ("taken", _) if edit.text is not None:
            return "message", None
        case _:
            return "edit", "noted"


_INSERT = """INSERT INTO inbox (thread, seq, sort, kind, message, album, person, said_at, at,
ready_at, body, state, ending, reason, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


def insert(
    at: Moment,
    arrival: Arrival,
    thread: str,
    seq: int,
    *,
    kind: Kind,
    hold: float = 0.0,
    ending: Ending | None = None,
    reason: str = "",
) -> Op[None]:
    message = column(arrival.message) if isinstance(arrival, Inbound | Edited | Reacted) else ""
    album = column(arrival.album or "") if isinstance(arrival, Inbound) else ""
    if isinstance(arrival, Wake):
        person = arrival.person
        rows = yield (
            f"SELECT sort FROM inbox WHERE thread = ? AND {WAITING} ORDER BY sort DESC LIMIT 1",
            (thread,),
        )
        sort = (
            rows[0][0] if rows else ""
        )  # behind everything that waits: a wake has no place in the platform's order
    else:
        person, sort = arrival.person.id, column(arrival.order)
    state = (
        ("waiting", None, None, None)
        if ending is None
        else ("ended", ending, column(reason) or None, at.now)
    )
    yield (
        _INSERT,
        (
            *(
                thread,
                seq,
                sort,
                kind,
                message,
                album,
                column(person),
                milliseconds(arrival.at),
                at.now,
                at.later(hold),
            ),
            *(write_arrival(arrival), *state),
        ),
    )


def cursor(channel: str, account: str, name: str) -> Op[str | None]:
    rows = yield (
        "SELECT value FROM cursors WHERE channel = ? AND account = ? AND name = ?",
        (channel, account, column(name)),
    )
    return from_column(rows[0][0]) if rows else None


def unhandled() -> Op[list[Pending]]:
    rows = yield (
        """SELECT thread, seq, kind, body FROM inbox WHERE ended_at IS NULL AND state = 'waiting'
        AND kind IN ('answer','command') ORDER BY at, thread, seq""",
        (),
    )
    return [
        Pending(Accepted(thread, seq, duplicate=False), kind, read_arrival(body))
        for thread, seq, kind, body in rows
    ]


_END = """UPDATE inbox SET state = 'ended', ending = ?, reason = ?, ended_at = ? WHERE thread = ?
AND seq = ? AND state <> 'ended' RETURNING seq"""


def end(at: Moment, thread: str, seq: int, ending: Ending, reason: str = "") -> Op[bool]:
    """End one arrival of a locked thread. False: it had ended before, or there is none."""
    rows = yield _END, (ending, column(reason) or None, at.now, thread, seq)
    return bool(rows)


def end_arrival(
    at: Moment,
    thread: str,
    seq: int,
    ending: Ending,
    reason: str = "",
    posts: Sequence[PostRow] = (),
    *,
    person: PersonRow | None = None,
    settings: ThreadSettings | None = None,
    told: UserStep | None = None,
) -> Op[bool]:
    home = yield from find_home(thread)
    if home is None:
        raise Undo(False)
    count = 0 if told is None else 1
    _, numbers = yield from reserve(at, home, posts, count, lambda n: lock_thread(thread, n))
    if not (yield from end(at, thread, seq, ending, reason)):
        raise Undo(False)
    if person is not None:
        yield from save_person(at, person)
    if settings is not None:
        yield "UPDATE threads SET settings = ? WHERE thread = ?", (write_settings(settings), thread)
    if told is not None:
        yield from _tell(at, thread, numbers, told)
    yield from speak(at, home, numbers, posts, None)
    at.changed(thread)
    return True


def _tell(at: Moment, thread: str, numbers: Numbers, told: UserStep) -> Op[None]:
    """Behind the steps of the last turn. Another generation: who has them in memory reads anew."""
    rows = yield (
        """SELECT turn, state FROM turns WHERE thread = ?
        ORDER BY CASE WHEN state IN ('running','parked') THEN 0 ELSE 1 END, began DESC, turn DESC
        LIMIT 1""",
        (thread,),
    )
    if not rows or rows[0][1] in ("running", "parked"):
        return
    yield from append(at, thread, numbers, rows[0][0], [told])
    yield "UPDATE threads SET generation = generation + 1 WHERE thread = ?", (thread,)


def again_as(number: int) -> str:
    """Why a dead letter is none any more."""
    return f"tried again as number {number}"


def retry_arrival(at: Moment, thread: str, seq: int) -> Op[bool]:
    yield from lock_thread(thread, 0)
    rows = yield (
        """SELECT kind, body, channel, account FROM inbox JOIN threads USING (thread)
        WHERE thread = ? AND seq = ? AND ending = 'dead'""",
        (thread, seq),
    )
    if not rows or rows[0][0] not in ("message", "wake"):
        raise Undo(False)
    kind, body, channel, account = rows[0]
    tries = 1
    while (yield from _known([(channel, account, f"retry:{thread}.{seq}.{tries}")])) is not None:
        tries += 1
    old, key = read_arrival(body), f"retry:{thread}.{seq}.{tries}"
    again = replace(old, key=key) if isinstance(old, Wake) else replace(old, key=key, aliases=())
    if isinstance(again, Inbound):
        again = replace(again, album=None)  # its parts are brought back one by one
    place = yield (
        """UPDATE threads SET next_seq = next_seq + 1, ready_at = CASE WHEN parked = 1 THEN ready_at
        ELSE COALESCE(ready_at, ?) END WHERE thread = ? RETURNING next_seq""",
        (at.now, thread),
    )
    number = place[0][0] - 1
    yield (
        "INSERT INTO seen (channel, account, event_key, thread, seq, at) VALUES (?, ?, ?, ?, ?, ?)",
        (channel, account, key, thread, number, at.now),
    )
    yield from insert(at, again, thread, number, kind=kind)
    yield (
        "UPDATE inbox SET ending = 'superseded', reason = ? WHERE thread = ? AND seq = ?",
        (again_as(number), thread, seq),
    )
    if isinstance(again, Wake) and again.occurrence is not None:
        yield from claim_again(at, again.occurrence, number)
    at.ready(thread, channel, account)
    return True
