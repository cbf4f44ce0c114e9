"""Lines that nobody asked for: what was read late, what waits behind a question, and who is not
heard where they speak. Best effort, never retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import structlog

from channels.contract import Address, Clock, Inbound, Outbound, PersonId
from channels.record import Recent, record
from channels.text import wall
from ohmo.ambient import derived
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.outbox import Asked, PostRow
from ohmo.contracts.turns import Accepted, Seat
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.intake")
LATE = timedelta(minutes=10)  # a platform may take its time; after this somebody wonders
ABSENCE = timedelta(hours=1)  # one line for one absence
QUESTION_AGAIN = timedelta(minutes=10)  # after the first line, for whoever comes then
EPHEMERAL_AGAIN = timedelta(hours=1)
FRESH = timedelta(minutes=10)  # who spoke longer ago is gone
WAITING = 100  # ephemeral lines under way
PATIENCE = 10.0  # seconds one may take
REMEMBERED = 1_000  # people who were told
Told = tuple[Accepted, Arrival, Seat]
Ephemeral = Callable[[Address, PersonId, str], Awaitable[None]]


class LateNotice:
    """What was said while nobody was there is answered late, and that is said: once per thread
    and absence. ``zone``: in which times are told."""

    def __init__(self, clock: Clock, zone: tzinfo = UTC) -> None:
        self._clock = clock
        self._zone = zone
        self._told: dict[str, datetime] = {}

    def lines(self, told: Sequence[Told]) -> list[PostRow]:
        """What is to be said about a batch."""
        now = self._clock()
        self._told = {thread: at for thread, at in self._told.items() if now - at < ABSENCE}
        late: dict[str, list[tuple[int, Inbound]]] = {}
        for accepted, arrival, seat in told:
            waits = seat.ending is None and seat.kind == "message"
            if not waits or not isinstance(arrival, Inbound) or accepted.thread in self._told:
                continue
            if now - arrival.at > LATE:
                late.setdefault(accepted.thread, []).append((accepted.seq, arrival))
        self._told |= dict.fromkeys(late, now)
        return [_late_line(thread, said, now, self._zone) for thread, said in late.items()]


def _late_line(
    thread: str, said: Sequence[tuple[int, Inbound]], now: datetime, zone: tzinfo
) -> PostRow:
    first = min(one.at for _, one in said)
    place = said[0][1].address
    what = "this" if len(said) == 1 else f"these {len(said)} messages"
    text = (
        f"I was away and read {what} only now: said since {wall(first, zone)}, {_ago(now - first)}"
        " ago."
    )
    return PostRow(derived("away", thread, str(said[0][0])), "notice", Outbound(place, text))


def _ago(age: timedelta) -> str:
    minutes = round(age.total_seconds() / 60)
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} h" if minutes < 2_880 else f"{minutes // 1_440} days"


class WaitingNotice:
    """People wait behind a question that somebody else has to answer, and nobody sees why nothing
    happens. ``asked``: the questions that are open in a place. The line is said once for each,
    and once more; ids that follow from the question keep a restart from saying it anew."""

    def __init__(
        self, asked: Callable[[Address], Sequence[Asked]], clock: Clock, zone: tzinfo = UTC
    ) -> None:
        self._asked = asked
        self._clock = clock
        self._zone = zone
        self._told = Recent[str, datetime](REMEMBERED)

    def lines(self, told: Sequence[Told]) -> list[PostRow]:
        """What is to be said about a batch."""
        rows: dict[str, PostRow] = {}
        for accepted, arrival, seat in told:
            waits = seat.ending is None and seat.kind == "message"
            if not waits or not isinstance(arrival, Inbound) or arrival.private:
                continue
            open_here = self._asked(arrival.address)
            question = next((one for one in open_here if one.thread == accepted.thread), None)
            if question is not None and (row := self._line(question, arrival)) is not None:
                rows.setdefault(row.id, row)
        return list(rows.values())

    def _line(self, asked: Asked, said: Inbound) -> PostRow | None:
        """None: it was said just now."""
        now = self._clock()
        ask = asked.ask.id
        last = self._told.get(ask)
        if last is not None and now - last < QUESTION_AGAIN:
            return None
        self._told[ask] = now
        until = ""
        if asked.deadline is not None:
            until = f" It lapses at {wall(asked.deadline, self._zone, '%H:%M')}."
        text = (
            "I am waiting for an answer to a question above. What is said here is kept and comes"
            f" after it.{until}"
        )
        mentions = (said.person.id,) if not said.person.bot else ()
        line = Outbound(said.address, text, reply_to=said.message, mentions=mentions)
        return PostRow(derived("behind", ask, "first" if last is None else "again"), "notice", line)


class EphemeralNotice:
    """For whoever called in a shared place and is not heard there: seen by that person only, once
    an hour. ``say`` does nothing on platforms that cannot."""

    def __init__(self, say: Ephemeral, clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._told = Recent[tuple[str, str, str, str], datetime](REMEMBERED)
        self._due: asyncio.Queue[tuple[Inbound, str]] = asyncio.Queue(WAITING)

    def hear(self, arrival: Arrival, seat: Seat) -> None:
        """What was stored just now, and where it was seated."""
        if not isinstance(arrival, Inbound) or seat.ending is None:
            return
        if arrival.private or not arrival.addressed or arrival.person.bot:
            return
        place = arrival.address
        now = self._clock()
        if now - arrival.at > FRESH:  # said while nobody listened: the person is long gone
            return
        name = (place.channel, place.account, place.chat, arrival.person.id)
        if (last := self._told.get(name)) is not None and now - last < EPHEMERAL_AGAIN:
            return
        if self._due.full():
            return
        self._told[name] = now
        text = f"I may not answer here: {seat.reason}. My owner can change that in config.yaml."
        self._due.put_nowait((arrival, text))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            said, text = await self._due.get()
            error = await failure_of(
                within(PATIENCE, self._say(said.address, said.person.id, text))
            )
            if error is not None:
                log.info("whisper_failed", channel=said.address.channel, error=str(error))


@record
class Courtesies:
    """All of them. ``post`` writes rows of the outbox."""

    post: Callable[[Sequence[PostRow]], Awaitable[None]]
    late: LateNotice
    waiting: WaitingNotice
    ephemeral: EphemeralNotice

    def lines(self, told: Sequence[Told]) -> list[PostRow]:
        """What is to be said about a batch that was accepted just now."""
        for _, arrival, seat in told:
            self.ephemeral.hear(arrival, seat)
        return [*self.late.lines(told), *self.waiting.lines(told)]

    async def say(self, rows: Sequence[PostRow]) -> None:
        """The answers themselves are durable; a line that cannot be stored is left out."""
        if (error := await failure_of(self.post(rows))) is not None:
            log.warning("courtesy_unsaid", error=str(error))
