"""Who may speak, what people are called, and how conversations begin: both are noted when they
speak. Looked up later in what an older ohmo stored, and where the beginning itself was let go."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from channels.contract import Inbound
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.reports import Beginning, Spender
from ohmo.contracts.turns import PersonRow
from ohmo.store.codec import Unreadable, column, from_column, read_arrival
from ohmo.store.statements import Driver, Moment, Op, instant, milliseconds, query

LONGEST = 80  # characters of a title
DAY = 86_400_000  # ms
_THREADS = 5  # looked through in one transaction
_FIRST = 20  # arrivals of a thread among which its beginning is looked for
_LATEST = 200  # and the newest, among which names are


def save_person(at: Moment, row: PersonRow) -> Op[None]:
    yield (
        """INSERT INTO people (channel, account, person, name, role, code_hash, expires, by, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (channel, account, person) DO UPDATE
        SET name = excluded.name, role = excluded.role, code_hash = excluded.code_hash,
          expires = excluded.expires, by = excluded.by, at = excluded.at""",
        (
            row.channel,
            row.account,
            column(row.person),
            column(row.name),
            row.role,
            row.code_hash,
            None if row.expires is None else milliseconds(row.expires),
            None if row.by is None else column(row.by),
            at.now,
        ),
    )


def people() -> Op[list[PersonRow]]:
    rows = yield (
        """SELECT channel, account, person, name, role, code_hash, expires, by FROM people
        ORDER BY channel, account, person""",
        (),
    )
    return [
        PersonRow(
            channel,
            account,
            from_column(person),
            from_column(name),
            role,
            code_hash,
            None if expires is None else instant(expires),
            None if by is None else from_column(by),
        )
        for channel, account, person, name, role, code_hash, expires, by in rows
    ]


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
    numbers = (number for number, arrival in enumerate(arrivals, start=1) if _words(arrival))
    return next(numbers, 0)


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
    names = {_key(msg): column(msg.person.name) for msg in spoken if msg.person.name}
    for key in sorted(names):  # each locks its row
        yield _MEETS, (*key, names[key], at.now - at.now % DAY)


def _key(msg: Inbound) -> tuple[str, str, str]:
    return msg.address.channel, msg.address.account, column(msg.person.id)


def names(wanted: Collection[Spender]) -> Op[dict[Spender, str]]:
    called: dict[Spender, str] = {}
    for person in wanted:
        rows = yield (
            "SELECT name FROM speakers WHERE channel = ? AND account = ? AND person = ?",
            (person.channel, person.account, column(person.person)),
        )
        if rows:
            called[person] = from_column(rows[0][0])
    return called


async def look_through(driver: Driver) -> None:
    """Every thread of which it is not known how it begins, a few in each transaction."""
    unread = "SELECT 1 FROM threads WHERE begins IS NULL LIMIT 1"
    while await driver.read(lambda _: query(unread), slow=True):
        await driver.write(lambda _: _look_through())


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
        first = yield _FIRST_SAID, (thread,)
        begins = next((seq for seq, body in first if beginning(body, None).words), 0)
        yield "UPDATE threads SET begins = ? WHERE thread = ?", (begins, thread)
        last = yield _LAST_SAID, (thread, thread)
        for body, at in last:
            try:
                arrival = read_arrival(body)
            except Unreadable:
                continue
            if isinstance(arrival, Inbound) and arrival.person.name:
                name = at - at % DAY, column(arrival.person.name)
                speakers[_key(arrival)] = max(speakers.get(_key(arrival), name), name)
    for key, (day, name) in sorted(speakers.items()):
        yield _MET, (*key, name, day)
