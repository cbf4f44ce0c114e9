"""What the people are called who stand in the books with their ids."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from channels.contract import Inbound
from ohmo.contracts.reports import Spender
from ohmo.store.codec import column, from_column, read_arrival
from ohmo.store.statements import Moment, Op
from ohmo.store.usage_totals import first_day, sums

_LATEST = 200  # arrivals of a thread, the newest, among which a person is looked for
_THREADS = 3  # of a person, in which they are looked for
_PAID = "usage WHERE thread IS NOT NULL AND person IS NOT NULL"
_SAID = f"""SELECT i.body FROM (SELECT thread, seq, kind, person FROM inbox WHERE thread = ? ORDER BY seq DESC LIMIT {_LATEST}) AS late
JOIN inbox i ON i.thread = late.thread AND i.seq = late.seq
WHERE late.person = ? AND late.kind = 'message' ORDER BY late.seq DESC LIMIT 1"""


def names(at: Moment, wanted: Collection[Spender], *, days: int = 30) -> Op[dict[Spender, str]]:
    """Arrivals are not kept in order of people: somebody is looked for in threads where they spent
    something."""
    sought = Counter(dict.fromkeys(wanted, _THREADS))
    ids = Counter(column(one.person) for one in wanted)
    found = dict[Spender, str]()
    paid = yield from sums(
        _PAID, ("day", "id"), (first_day(at, days), ""), ("person", "thread"), "COUNT(*)"
    )
    for person, thread in sorted(paid):
        if not ids[person]:
            continue
        places = yield "SELECT channel, account FROM threads WHERE thread = ?", (thread,)
        one = Spender(str(places[0][0]), str(places[0][1]), from_column(person)) if places else None
        if one is None or not sought[one]:
            continue
        name = yield from _name(thread, person)
        sought[one] = 0 if name else sought[one] - 1
        ids[person] -= not sought[one]
        if name:
            found[one] = name
    return found


def _name(thread: str, person: str) -> Op[str]:
    rows = yield _SAID, (thread, person)
    arrival = read_arrival(rows[0][0]) if rows else None
    return arrival.person.name if isinstance(arrival, Inbound) else ""
