"""What ohmo says unasked: notices to the owner, one per incident and never through the channel that
is broken, and lines to people who wait (late, behind a question, not heard here)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import structlog

from channels.contract import Address, ChatId, Clock, Inbound, Outbound, PersonId
from channels.errors import Unavailable
from channels.record import Recent, record
from channels.text import wall
from ohmo.ambient import NewId, derived
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.errors import StoreError
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.outbox import Asked, PostRow
from ohmo.contracts.store import Outbox
from ohmo.contracts.turns import Accepted, Seat
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.notices")
AGAIN = timedelta(hours=6)  # the same incident is told again after this
MOST = 20  # notices that wait for a chat
DASHBOARD = Address("web", "local", ChatId("notices"))
# when there is no page: read with `ohmo sessions`
INDOORS = Address("house", "local", ChatId("notices"))
LATE = timedelta(minutes=10)  # a platform may take its time; after this somebody wonders
ABSENCE = timedelta(hours=1)  # one line for one absence
QUESTION_AGAIN = timedelta(minutes=10)  # after the first line, for whoever comes then
EPHEMERAL_AGAIN = timedelta(hours=1)
FRESH = timedelta(minutes=10)  # who spoke longer ago is gone
WAITING = 100  # ephemeral lines under way
PATIENCE = 10.0  # seconds one may take
REMEMBERED = 1_000  # people who were told
StoredArrival = tuple[Accepted, Arrival, Seat]
Ephemeral = Callable[[Address, PersonId, str], Awaitable[None]]


class Notices:
    """``owners``: ``channel:person`` as configured. ``address_of`` parses what follows the colon
    with the channel's own grammar (ValueError: it names no place); None: that channel is not
    connected. Without an owner notices stand in ``dashboard``, the browser chat ``notices``; also
    those that come before an owner can be reached, who is told them as soon as one of their
    channels is connected."""

    def __init__(
        self,
        outbox: Outbox,
        owners: tuple[str, ...],
        *,
        address_of: Callable[[str, str], Address | None],
        new_id: NewId,
        clock: Clock,
        dashboard: Address = DASHBOARD,
    ) -> None:
        self._outbox = outbox
        self._owners = owners
        self._address_of = address_of
        self._new_id = new_id
        self._clock = clock
        self._dashboard = dashboard
        self._told: dict[str, datetime] = {}
        # What no owner saw in a chat yet: row, text, not through, not at.
        self._unheard: list[tuple[str, str, str, Address | None]] = []

    async def tell(
        self,
        incident: str,
        text: str,
        *,
        not_through: str = "",
        not_at: Address | None = None,
        at: Address | None = None,
        heard_at: Address | None = None,
        once: str = "",
    ) -> bool:
        """``incident`` names it, so that it is told once. ``not_through``: the channel that is
        broken. ``not_at``: the chat that is; another channel is better then, and another chat of
        the same one will do. ``at``: say it in this place instead. ``heard_at``: where it was said
        already; an owner who reads there, as on the page, is not told again. ``once``: the id of
        its row, so that it is told once over restarts too. False: told before, or nobody can be
        told."""
        now = self._clock()
        self._told = {name: at for name, at in self._told.items() if now - at < AGAIN}
        if incident in self._told:
            return False
        if heard_at is not None:
            on_the_page = heard_at.channel == DASHBOARD.channel
            if on_the_page or self._address(not_through) == heard_at:
                return False
        self._told[incident] = now
        log.warning("owner_notice", incident=incident, text=text)
        row = once or self._new_id()
        place = at or self._address(not_through, not_at)
        # On the page only until a chat of theirs can be reached; the row itself is for that chat:
        # who saw it there does not see it again.
        waits = place == self._dashboard and bool(self._owners)
        try:
            page_row = derived("page", row) if waits else row
            await self._outbox.post([PostRow(page_row, "notice", Outbound(place, text))])
        except (Unavailable, StoreError) as error:
            self._told.pop(incident)
            log.error("owner_notice_failed", incident=incident, error=str(error))
            return False
        if waits:
            self._unheard = [*self._unheard, (row, text, not_through, not_at)][-MOST:]
            await self.connected()  # one may have come while it was written
        return True

    async def connected(self) -> None:
        """A channel is connected now: what its owner was not told there before is told."""
        for unheard in list(self._unheard):
            row, text, not_through, not_at = unheard
            place = self._address(not_through, not_at)
            if place == self._dashboard or unheard not in self._unheard:
                continue
            self._unheard.remove(unheard)
            try:
                await self._outbox.post([PostRow(row, "notice", Outbound(place, text))])
            except (Unavailable, StoreError) as error:
                self._unheard.append(unheard)
                log.error("owner_notice_failed", incident=row, error=str(error))

    def knows(self, incident: str) -> bool:
        """Whether it is told. False after a ``tell`` that could not be stored."""
        return incident in self._told

    def over(self, incident: str) -> None:
        """The incident has ended; the next one of this name is told at once."""
        self._told.pop(incident, None)

    def owner_reached(self) -> Address | None:
        """Where the owner reads now; None: one is named, and no chat of theirs is connected."""
        place = self._address("")
        return None if self._owners and place == self._dashboard else place

    @in_writer
    def owner_place(self) -> Address:
        """Where the owner reads now."""
        return self._address("")

    def _address(self, not_through: str, not_at: Address | None = None) -> Address:
        spare: Address | None = None
        for owner in self._owners:
            channel, _, rest = owner.partition(":")
            if channel == not_through:
                continue
            try:
                address = self._address_of(channel, rest)
            except ValueError as error:
                log.warning("owner_without_address", owner=owner, error=str(error))
                continue
            if address is None or address == not_at:
                continue
            if not_at is None or channel != not_at.channel:
                return address
            spare = spare or address
        return spare or self._dashboard


def owners_of(configured: tuple[str, ...], roles: Mapping[str, str]) -> tuple[str, ...]:
    """Who counts as owner: the top-level list first, then ``access.roles.owner``."""
    owners = dict.fromkeys(configured)
    for name, role in roles.items():
        if role == "owner":
            owners[name] = None
    return tuple(owners)


class LateNotice:
    """What was said while nobody was there is answered late, and that is said: once per thread
    and absence. ``zone``: in which times are told."""

    def __init__(self, clock: Clock, zone: tzinfo = UTC) -> None:
        self._clock = clock
        self._zone = zone
        self._told: dict[str, datetime] = {}

    def lines(self, batch: Sequence[StoredArrival]) -> list[PostRow]:
        """What is to be said about a batch."""
        now = self._clock()
        self._told = {thread: at for thread, at in self._told.items() if now - at < ABSENCE}
        late: dict[str, list[tuple[int, Inbound]]] = {}
        for accepted, arrival, seat in batch:
            waits = seat.ending is None and seat.kind == "message"
            if not waits or not isinstance(arrival, Inbound) or accepted.thread in self._told:
                continue
            if now - arrival.at > LATE:
                late.setdefault(accepted.thread, []).append((accepted.seq, arrival))
        self._told |= dict.fromkeys(late, now)
        return [self._line(thread, messages, now) for thread, messages in late.items()]

    def _line(self, thread: str, messages: Sequence[tuple[int, Inbound]], now: datetime) -> PostRow:
        first = min(message.at for _, message in messages)
        seq, message = messages[0]
        what = "this" if len(messages) == 1 else f"these {len(messages)} messages"
        minutes = round((now - first).total_seconds() / 60)
        if minutes < 120:
            age = f"{minutes} minutes"
        elif minutes < 2_880:
            age = f"{minutes // 60} h"
        else:
            age = f"{minutes // 1_440} days"
        since = wall(first, self._zone)
        text = f"I was away and read {what} only now: said since {since}, {age} ago."
        line = Outbound(message.address, text)
        return PostRow(derived("away", thread, str(seq)), "notice", line)


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

    def lines(self, batch: Sequence[StoredArrival]) -> list[PostRow]:
        """What is to be said about a batch."""
        rows: dict[str, PostRow] = {}
        for accepted, arrival, seat in batch:
            waits = seat.ending is None and seat.kind == "message"
            if not waits or not isinstance(arrival, Inbound) or arrival.private:
                continue
            open_here = self._asked(arrival.address)
            here = (asked for asked in open_here if asked.thread == accepted.thread)
            question = next(here, None)
            row = None if question is None else self._line(question, arrival)
            if row is not None:
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
        last = self._told.get(name)
        if last is not None and now - last < EPHEMERAL_AGAIN:
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
            saying = self._say(said.address, said.person.id, text)
            error = await failure_of(within(PATIENCE, saying))
            if error is not None:
                log.info("whisper_failed", channel=said.address.channel, error=str(error))


@record
class Courtesies:
    """All of them. ``post`` writes rows of the outbox."""

    post: Callable[[Sequence[PostRow]], Awaitable[None]]
    late: LateNotice
    waiting: WaitingNotice
    ephemeral: EphemeralNotice

    def lines(self, batch: Sequence[StoredArrival]) -> list[PostRow]:
        """What is to be said about a batch that was accepted just now."""
        for _, arrival, seat in batch:
            self.ephemeral.hear(arrival, seat)
        return [*self.late.lines(batch), *self.waiting.lines(batch)]

    async def say(self, rows: Sequence[PostRow]) -> None:
        """The answers themselves are durable; a line that cannot be stored is left out."""
        error = await failure_of(self.post(rows))
        if error is not None:
            log.warning("courtesy_unsaid", error=str(error))
