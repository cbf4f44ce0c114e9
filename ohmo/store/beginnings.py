"""How conversations begin and what people are called: noted when they speak. Looked up later in
what an older ohmo stored, and where the beginning itself was let go."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from channels.contract import Inbound
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.reports import Beginning, Spender
from ohmo.store.codec import Unreadable, column, from_column, read_arrival
from ohmo.store.statements import Driver, Moment, Op

LONGEST = 80  # characters of a title
DAY = 86_400_000  # ms
_THREADS = 5  # looked through in one transaction
_FIRST = 20  # arrivals of a thread among which its beginning is looked for
_LATEST = 200  # and the newest, among which names are


def _words(arrival: Arrival) -> str:
    """What it says. Empty: nobody can call a conversation after it."""
    match arrival:
        case Inbound(text=text, attachments=attachments):
            return text.strip() or ", ".join(file.name for file in attachments).strip()
        case Wake(prompt=prompt):
            return prompt.strip()
        case _:
            return ""


def first_with_words(arrivals: Iterable[Arrival]) -> int:
    """Its number, from 1; 0: none has any."""
    found = (number for number, arrival in enumerate(arrivals, start=1) if _words(arrival))
    return next(found, 0)


def beginning(body: str | None, name: str | None) -> Beginning:
    """From columns; None: there is no such row."""
    if body is None:
        return Beginning()
    try:
        arrival = read_arrival(body)
    except Unreadable:  # one ruined row hides no other
        return Beginning("(what was said here cannot be read any more)")
    words = " ".join(_words(arrival).split())
    if len(words) > LONGEST:
        words = words[: LONGEST - 1] + "…"
    person = arrival.person.id if isinstance(arrival, Inbound) else ""
    return Beginning(words, person, from_column(name) if person and name else "")


_MET = """INSERT INTO speakers (channel, account, person, name, day) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (channel, account, person) DO UPDATE SET name = excluded.name, day = excluded.day
WHERE excluded.day > speakers.day"""
_MEETS = f"{_MET} OR excluded.name <> speakers.name"


def meet(at: Moment, spoken: Sequence[Inbound]) -> Op[None]:
    """What those who speak now are called. Somebody known costs a write once a day."""
    names = {_key(said): column(said.person.name) for said in spoken if said.person.name}
    for key in sorted(names):  # each locks its row
        yield _MEETS, (*key, names[key], at.now - at.now % DAY)


def _key(said: Inbound) -> tuple[str, str, str]:
    return said.address.channel, said.address.account, column(said.person.id)


def names(wanted: Collection[Spender]) -> Op[dict[Spender, str]]:
    found: dict[Spender, str] = {}
    for person in wanted:
        rows = yield (
            "SELECT name FROM speakers WHERE channel = ? AND account = ? AND person = ?",
            (person.channel, person.account, column(person.person)),
        )
        if rows:
            found[person] = from_column(rows[0][0])
    return found


async def look_through(driver: Driver) -> None:
    """Every thread of which it is not known how it begins, a few in each transaction."""
    while await driver.read(lambda _: _some_unread(), slow=True):
        await driver.write(lambda _: _look_through())


def _some_unread() -> Op[bool]:
    rows = yield "SELECT 1 FROM threads WHERE begins IS NULL LIMIT 1", ()
    return bool(rows)


_FIRST_SAID = f"""SELECT seq, body FROM inbox WHERE thread = ?
AND kind IN ('message','command','wake') ORDER BY seq LIMIT {_FIRST}"""
_LAST_SAID = f"""SELECT i.body, i.at FROM (SELECT person, MAX(seq) AS seq FROM
  (SELECT seq, person, kind FROM inbox WHERE thread = ? ORDER BY seq DESC LIMIT {_LATEST}) AS late
  WHERE kind IN ('message','command') GROUP BY person) AS last
JOIN inbox i ON i.thread = ? AND i.seq = last.seq"""


def _look_through() -> Op[None]:
    threads = yield (
        f"SELECT thread FROM threads WHERE begins IS NULL ORDER BY thread LIMIT {_THREADS}",
        (),
    )
    speakers: dict[tuple[str, str, str], tuple[int, str]] = {}
    for (thread,) in threads:
        yield "UPDATE threads SET begins = 0 WHERE thread = ?", (thread,)  # locks the row
        said = yield _FIRST_SAID, (thread,)
        begins = next((seq for seq, body in said if beginning(body, None).words), 0)
        yield "UPDATE threads SET begins = ? WHERE thread = ?", (begins, thread)
        last = yield _LAST_SAID, (thread, thread)
        for body, at in last:
            try:
                arrival = read_arrival(body)
            except Unreadable:
                continue
            if isinstance(arrival, Inbound) and arrival.person.name:
                key, known = _key(arrival), (at - at % DAY, column(arrival.person.name))
                speakers[key] = max(speakers.get(key, known), known)
    for key, (day, name) in sorted(speakers.items()):
        yield _MET, (*key, name, day)
