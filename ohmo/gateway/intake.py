"""From a stored arrival to its first effect: commands and answers are carried out beside the
mailbox, everything else waits for a turn.

Each effect, its reply and the arrival's ending are one transaction; what a crash left undone is
done again at the start.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import structlog

from channels.contract import Answer, Clock, Inbound, MessageId, Person, PersonId, Reacted
from channels.errors import Unavailable
from channels.record import record
from ohmo.ambient import NewId
from ohmo.approvals.questions import REACTION_LIMIT, cards_named
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.store import Store
from ohmo.contracts.turns import Accepted, Seat
from ohmo.gateway.access import Access
from ohmo.gateway.answering import Answering, Ended, notice
from ohmo.gateway.notices import Courtesies, StoredArrival
from ohmo.gateway.orders import Orders, Turns
from ohmo.gateway.people import pairing_request, pairing_text
from ohmo.lifecycle import backoff, failure_of, within
from ohmo.sessions.user_steps import steers

log = structlog.get_logger("ohmo.intake")


@record
class IntakeDeps:
    """What handling an arrival needs of the house."""

    store: Store
    access: Access
    orders: Orders
    answering: Answering
    turns: Turns
    courtesies: Courtesies
    new_id: NewId
    clock: Clock


class Intake:
    """``hear`` is called in commit order; what it has to do runs in order within a thread and side
    by side otherwise."""

    def __init__(self, deps: IntakeDeps) -> None:
        self._store = deps.store
        self._access = deps.access
        self._orders = deps.orders
        self._answering = deps.answering
        self._turns = deps.turns
        self._courtesies = deps.courtesies
        self._new_id = deps.new_id
        self._clock = deps.clock
        self._todo: asyncio.Queue[StoredArrival] = asyncio.Queue()
        self._lines = asyncio.Queue[list[PostRow]]()
        self._open: set[tuple[str, int]] = set()  # what is in ``_todo`` or being carried out
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: defaultdict[str, int] = defaultdict(int)

    def hear(self, batch: Sequence[StoredArrival]) -> None:
        """For the bus."""
        rows = self._courtesies.lines(batch)
        if rows:
            self._lines.put_nowait(rows)
        for accepted, arrival, seat in batch:
            if seat.ending is not None:
                continue
            if seat.kind in ("command", "answer"):
                self._put((accepted, arrival, seat))
                continue
            now = steers(arrival)
            if now or seat.kind == "message":
                self._turns.arrived(accepted.thread, now)

    async def run(self) -> None:
        """Until cancelled. Begins with what an earlier life left undone."""
        for pending in await self._store.unhandled():
            self._put((pending.accepted, pending.arrival, Seat("", pending.kind)))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._say_lines(), name="intake.courtesies")
            group.create_task(self._courtesies.ephemeral.run(), name="intake.ephemeral")
            while True:
                item = await self._todo.get()
                accepted, _, _ = item
                group.create_task(self._handle(item), name=f"intake.{accepted.thread}")

    async def _say_lines(self) -> None:
        while True:
            await self._courtesies.say(await self._lines.get())

    def _put(self, item: StoredArrival) -> None:
        """Once, although it may be told while the start finds it undone."""
        accepted, _, _ = item
        name = (accepted.thread, accepted.seq)
        if name not in self._open:
            self._open.add(name)
            self._todo.put_nowait(item)

    async def _handle(self, item: StoredArrival) -> None:
        accepted, arrival, seat = item
        try:
            if isinstance(arrival, Reacted):
                # No words of the thread wait with it, but later reactions to the same card do: the
                # first counts.
                async with self._alone(f"{accepted.thread} {arrival.message}"):
                    named = cards_named(self._store, arrival)
                    await failure_of(within(REACTION_LIMIT, named))
                    await self._carry_out(accepted, arrival, seat)
            else:
                await self._carry_out(accepted, arrival, seat)
        finally:
            self._open.discard((accepted.thread, accepted.seq))

    async def _carry_out(self, accepted: Accepted, arrival: Arrival, seat: Seat) -> None:
        async with self._alone(accepted.thread):
            attempt = 0
            while True:
                error = await failure_of(self._once(accepted, arrival, seat))
                if error is None:
                    return
                log.error(
                    "intake_failed",
                    thread=accepted.thread,
                    seq=accepted.seq,
                    error=f"{type(error).__name__}: {error}",
                    exc_info=error,
                )
                attempt += 1
                if attempt >= 3 and not isinstance(error, Unavailable):
                    place = arrival.place if isinstance(arrival, Wake) else arrival.address
                    text = f"This could not be carried out: {error}"
                    posts = (notice(self._new_id, place, text),)
                    ending = self._end(accepted, Ended("dead", text, posts))
                    if not isinstance(await failure_of(ending), Unavailable):
                        return
                    # An end that could not be stored is no end.
                await asyncio.sleep(backoff(attempt, most=10.0))

    @asynccontextmanager
    async def _alone(self, whose: str) -> AsyncGenerator[None]:
        lock = self._locks.setdefault(whose, asyncio.Lock())
        self._users[whose] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[whose] -= 1
            if not self._users[whose]:
                del self._users[whose], self._locks[whose]

    async def _once(self, accepted: Accepted, arrival: Arrival, seat: Seat) -> None:
        """Its effect, and its end where the effect's own transaction did not end it."""
        match arrival:
            case Answer():
                ended = await self._answering.pressed(accepted, arrival)
            case Reacted():
                ended = await self._answering.reacted(accepted, arrival)
            case Inbound():
                ended = await self._said(accepted, arrival, seat)
            case Wake():
                # What the owner said by the local API, as if it had been said in its place.
                typed = Inbound(
                    key=arrival.key,
                    address=arrival.deliver or arrival.place,
                    person=Person(PersonId(arrival.person), arrival.person),
                    at=arrival.at,
                    order=arrival.key,
                    message=MessageId(arrival.key),
                    text=arrival.prompt,
                    private=True,
                    addressed=True,
                )
                ended = await self._orders.carry_out(accepted, typed, "owner")
            case _:
                ended = Ended("noted", "nothing to do")
        if ended is not None:
            await self._end(accepted, ended)

    async def _said(self, accepted: Accepted, said: Inbound, seat: Seat) -> Ended | None:
        """How it ends; None: it has ended."""
        access = self._access
        standing = access.let_in(said, private=said.private)
        if standing is not None and seat.kind == "answer":
            return await self._answering.in_words(accepted, said)
        if standing is not None:
            return await self._orders.carry_out(accepted, said, standing)
        if not access.may_ask_in(said):
            return Ended("refused", f"{said.person.id} may not speak here")
        # One code an hour, also when a stranger speaks in several threads at once.
        place = said.address
        async with self._alone(f"{place.channel}:{place.account}:{said.person.id}"):
            person = access.known(place.channel, place.account, said.person.id)
            asking = pairing_request(said, person, self._clock())
            if asking is None:
                return Ended("refused", "unknown person; a pairing code was told")
            row, code = asking
            posts = (notice(self._new_id, place, pairing_text(said, code)),)
            ended = Ended("refused", "unknown person; pairing code told", posts, person=row)
            await self._end(accepted, ended)
            access.learn([row])
            return None

    async def _end(self, accepted: Accepted, ended: Ended) -> None:
        await self._store.end_arrival(
            accepted.thread,
            accepted.seq,
            ended.ending,
            ended.reason,
            ended.posts,
            person=ended.person,
            settings=ended.settings,
            told=ended.told,
        )
        await ended.then()
