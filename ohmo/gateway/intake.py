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

from channels.contract import Answer, Inbound, MessageId, Person, PersonId, Reacted
from channels.errors import Unavailable
from ohmo.approvals import reaction_lookup
from ohmo.approvals.cards import closing
from ohmo.commands.contract import (
    Choose,
    Decide,
    Order,
    Reply,
    Restart,
    Retry,
    RunNow,
    Standing,
    Stop,
    is_order,
    parse,
    unknown,
)
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.store import Accepted, PostRow, Seat, ThreadSettings
from ohmo.gateway import pairing
from ohmo.gateway.answering import Answering
from ohmo.gateway.intake_parts import IntakeParts
from ohmo.gateway.late_calls import LateCalls
from ohmo.lifecycle import backoff, failure_of, within
from ohmo.sessions.user_steps import steers

log = structlog.get_logger("ohmo.intake")
Told = tuple[Accepted, Arrival, Seat]


class Intake:
    """``hear`` is called in commit order; what it has to do runs in order within a thread and side
    by side otherwise."""

    def __init__(self, parts: IntakeParts) -> None:
        self._parts = parts
        self._late = LateCalls(parts)
        self._answering = Answering(parts, self._late)
        self._todo: asyncio.Queue[Told] = asyncio.Queue()
        self._away = parts.away
        self._lines = asyncio.Queue[list[PostRow]]()
        self._queueing = parts.queueing
        self._open: set[tuple[str, int]] = set()  # what is in ``_todo`` or being carried out
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: defaultdict[str, int] = defaultdict(int)

    def hear(self, told: Sequence[Told]) -> None:
        """For the bus."""
        if self._away is not None and (rows := self._away.lines(told)):
            self._lines.put_nowait(rows)
        if self._queueing is not None and (rows := self._queueing.lines(told)):
            self._lines.put_nowait(rows)
        for one in told:
            accepted, arrival, seat = one
            if self._parts.whispers is not None:
                self._parts.whispers.hear(arrival, seat)
            if seat.ending is not None:
                continue
            if seat.kind in ("command", "answer"):
                self._put(one)
            elif (now := steers(arrival)) or seat.kind == "message":
                self._parts.arrived(accepted.thread, now)

    async def run(self) -> None:
        """Until cancelled. Begins with what an earlier life left undone."""
        for pending in await self._parts.store.unhandled():
            self._put((pending.accepted, pending.arrival, Seat("", pending.kind)))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._apologise(), name="intake.away")
            if self._parts.whispers is not None:
                group.create_task(self._parts.whispers.run(), name="intake.whispers")
            while True:
                told = await self._todo.get()
                group.create_task(self._handle(told), name=f"intake.{told[0].thread}")

    async def _apologise(self) -> None:
        while self._away is not None:
            await self._away.say(await self._lines.get())

    def _put(self, told: Told) -> None:
        """Once, although it may be told while the start finds it undone."""
        name = (told[0].thread, told[0].seq)
        if name not in self._open:
            self._open.add(name)
            self._todo.put_nowait(told)

    async def _handle(self, told: Told) -> None:
        accepted, arrival, seat = told
        try:
            if isinstance(
                arrival, Reacted
            ):  # no words of the thread wait with it, but later thumbs on the same card do: the first counts
                async with self._alone(f"{accepted.thread} {arrival.message}"):
                    await failure_of(
                        within(
                            reaction_lookup.PATIENCE,
                            reaction_lookup.named(self._parts.store, arrival),
                        )
                    )
                    await self._carry_out(accepted, arrival, seat)
            else:
                await self._carry_out(accepted, arrival, seat)
        finally:
            self._open.discard((accepted.thread, accepted.seq))

    async def _carry_out(self, accepted: Accepted, arrival: Arrival, seat: Seat) -> None:
        async with self._alone(accepted.thread):
            attempt = 0
            while (error := await failure_of(self._once(accepted, arrival, seat))) is not None:
                log.error(
                    "intake_failed",
                    thread=accepted.thread,
                    seq=accepted.seq,
                    error=f"{type(error).__name__}: {error}",
                    exc_info=error,
                )
                attempt += 1
                if attempt >= 3 and not isinstance(error, Unavailable):
                    left = await failure_of(self._give_up(accepted, arrival, error))
                    if not isinstance(
                        left, Unavailable
                    ):  # an end that could not be stored is no end
                        return
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
        if isinstance(arrival, Answer):
            await self._answering.pressed(accepted, arrival)
        elif isinstance(arrival, Reacted):
            await self._answering.reacted(accepted, arrival)
        elif isinstance(arrival, Inbound):
            standing = self._parts.access.let_in(arrival, private=arrival.private)
            if standing is None and self._parts.access.may_ask_in(arrival):
                await self._stranger(accepted, arrival)
            elif standing is None:
                await self._parts.end(
                    accepted, "refused", f"{arrival.person.id} may not speak here"
                )
            elif seat.kind == "answer":
                await self._answering.in_words(accepted, arrival)
            else:
                await self._command(accepted, arrival, standing)
        elif isinstance(arrival, Wake):
            await self._command(accepted, _typed(arrival), "owner")
        else:
            await self._parts.end(accepted, "noted", "nothing to do")

    async def _give_up(self, accepted: Accepted, arrival: Arrival, error: Exception) -> None:
        text = f"This could not be carried out: {error}"
        posts = [
            self._parts.notice(
                arrival.place if isinstance(arrival, Wake) else arrival.address, text
            )
        ]
        await self._parts.store.end_arrival(accepted.thread, accepted.seq, "dead", text, posts)

    async def _stranger(self, accepted: Accepted, said: Inbound) -> None:
        """One code an hour, also when a stranger speaks in several threads at once."""
        place, parts = said.address, self._parts
        async with self._alone(f"{place.channel}:{place.account}:{said.person.id}"):
            known = parts.access.known(place.channel, place.account, said.person.id)
            row_and_code = pairing.asking(said, known, parts.clock())
            if row_and_code is None:
                await self._parts.end(
                    accepted, "refused", "unknown person; a pairing code was told"
                )
                return
            row, code = row_and_code
            posts = [self._parts.notice(place, pairing.words(said, code))]
            await parts.store.end_arrival(
                accepted.thread,
                accepted.seq,
                "refused",
                "unknown person; pairing code told",
                posts,
                person=row,
            )
            parts.access.learn([row])

    async def _command(self, accepted: Accepted, said: Inbound, standing: Standing) -> None:
        parsed, parts = parse(said.text), self._parts
        command = parts.commands.get(parsed[0]) if parsed is not None else None
        if command is None and parsed is not None and is_order(said.text, parts.commands):
            await self._parts.end(
                accepted,
                "refused",
                f"there is no /{parsed[0]}",
                [self._parts.notice(said.address, unknown(parsed[0], parts.commands))],
            )
            return
        if (
            command is None or parsed is None
        ):  # somebody who was let in between the words and their handling
            await self._parts.end(
                accepted,
                "refused",
                "said before this person was let in",
                [self._parts.notice(said.address, "Please say that again.")],
            )
            return
        if standing not in command.standings:
            await self._parts.end(
                accepted,
                "refused",
                f"/{command.name} is not for a {standing}",
                [self._parts.notice(said.address, f"`/{command.name}` is not for a {standing}.")],
            )
            return
        info = await self._parts.desk.thread(accepted.thread)
        settings = info.settings.at(parts.clock()) if info is not None else ThreadSettings()
        order = Order(
            accepted.thread, said.address, said.person.id, standing, parsed[1], settings, said
        )
        effect = await command.run(order, self._parts.desk)
        match command.heeded(effect, parsed[1]):
            case Reply(text):
                await self._parts.end(
                    accepted, "answered", posts=[self._parts.notice(said.address, text)]
                )
            case Choose(text, chosen):
                posts = [self._parts.notice(said.address, text)]
                await self._parts.store.end_arrival(
                    accepted.thread, accepted.seq, "answered", "", posts, settings=chosen
                )
                self._parts.chose(accepted.thread, chosen)
            case Stop(text, fresh):
                await self._stop(accepted, said, text, fresh=fresh)
            case RunNow(lapsed):
                _, text = await self._late.run(said, lapsed, owner=standing == "owner")
                await self._parts.end(
                    accepted,
                    "answered",
                    posts=[self._parts.notice(said.address, text)] if text else [],
                )
            case Retry(letters):
                for seq in letters:
                    await parts.store.retry_arrival(accepted.thread, seq)
                await self._parts.end(accepted, "answered")
            case Restart(text):
                await self._parts.end(
                    accepted, "answered", posts=[self._parts.notice(said.address, text)]
                )
                parts.restart()
            case Decide() as decision:
                await self._answering.decide(accepted, said, decision, owner=standing == "owner")

    async def _stop(self, accepted: Accepted, said: Inbound, text: str, *, fresh: bool) -> None:
        parts = self._parts
        thread, note = accepted.thread, f"stopped by {said.person.name or said.person.id}"
        close = closing(parts.new_id, note, parts.drafted)
        posts = [self._parts.notice(said.address, text)]
        await parts.store.stop(
            thread,
            accepted.seq,
            person=said.person.id,
            fresh=fresh,
            posts=posts,
            closing=close,
            rest=parts.rest(thread, note),
        )
        await parts.stopped(accepted.thread)


def _typed(wake: Wake) -> Inbound:
    """What the owner said by the local API, as if it had been said in its place."""
    return Inbound(
        key=wake.key,
        address=wake.deliver or wake.place,
        person=Person(PersonId(wake.person), wake.person),
        at=wake.at,
        order=wake.key,
        message=MessageId(wake.key),
        text=wake.prompt,
        private=True,
        addressed=True,
    )
