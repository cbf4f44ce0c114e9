"""From a stored arrival to its first effect: commands and answers are carried out beside the mailbox, everything else waits for a turn.

Each effect, its reply and the arrival's ending are one transaction; what a crash left undone is done again at the start.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from channels.contract import Address, Answer, Clock, Inbound, MessageId, Outbound, Person, PersonId, Reacted, Said
from channels.errors import Unavailable
from channels.record import record
from ohmo.commands.contract import Choose, Command, Decide, Desk, Order, Reply, Restart, RunNow, Standing, Stop, is_order, parse, unknown
from ohmo.contracts.arrivals import Again, Arrival, Terms, Wake
from ohmo.contracts.store import Accepted, Asked, Card, Lapsed, PostRow, Ruling, Seat, Store, ThreadSettings
from ohmo.failpoints import Failpoint
from ohmo.gateway import pairing
from ohmo.gateway.access import Access, is_free
from ohmo.gateway.away import Away
from ohmo.gateway.cards import card, closing, parse_choice, parse_run
from ohmo.gateway.questions import Granting, remembered
from ohmo.gateway.reactions import verdict_of
from ohmo.gateway.whispers import Whispers
from ohmo.ids import NewId, derived
from ohmo.lifecycle import backoff, failure_of, within
from ohmo.sessions.parts import Busy
from ohmo.sessions.said import steers

log = structlog.get_logger("ohmo.intake")
COURTESY = 5.0  # seconds the platform gets to show that a button was pressed
RUN_NOW = (
    "(Nobody allowed this call in time. {name} allows it now, and it runs first. Say what came of it, and go on with what it was for.)"
)
Told = tuple[Accepted, Arrival, Seat]


@record
class IntakeParts:
    """``stopped`` is told that what was said in a thread has been ended; ``arrived`` that a running thread got a message, and whether its turn shall
    read it now; ``chose`` what later messages do there; ``acknowledge`` answers the platform's button press; ``drafted`` knows how far a draft has
    grown, so that stopping it takes nothing away that was read."""

    store: Store
    access: Access
    commands: Mapping[str, Command]
    desk: Desk
    stopped: Callable[[str], Awaitable[None]]
    arrived: Callable[[str, bool], None]
    acknowledge: Callable[[Answer, str], Awaitable[None]]
    new_id: NewId
    clock: Clock
    failpoint: Failpoint
    drafted: Callable[[str], str | None] = lambda _: None
    card: Card = card
    away: Away | None = None
    whispers: Whispers | None = None
    publish: Callable[[Wake], Awaitable[Accepted]] | None = None  # new requests of the house's own; None: there are none
    restart: Callable[[], None] = lambda: None
    chose: Callable[[str, Busy | None], None] = lambda _, __: None
    terms: Callable[[Address, str, str], Awaitable[tuple[Terms, str] | None]] | None = (
        None  # of a job: by its thread, its person and its name; and the person's account
    )


class Intake:
    """``hear`` is called in commit order; what it has to do runs in order within a thread and side by side otherwise."""

    def __init__(self, parts: IntakeParts) -> None:
        self._parts = parts
        self._granting = Granting(parts.desk.thread, parts.new_id, parts.clock)
        self._todo: asyncio.Queue[Told] = asyncio.Queue()
        self._away, self._lines = parts.away, asyncio.Queue[list[PostRow]]()
        self._open: set[tuple[str, int]] = set()  # what is in ``_todo`` or being carried out
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: defaultdict[str, int] = defaultdict(int)

    def hear(self, told: Sequence[Told]) -> None:
        """For the bus."""
        if self._away is not None and (rows := self._away.lines(told)):
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
            await self._carry_out(accepted, arrival, seat)
        finally:
            self._open.discard((accepted.thread, accepted.seq))

    async def _carry_out(self, accepted: Accepted, arrival: Arrival, seat: Seat) -> None:
        async with self._alone(accepted.thread):
            attempt = 0
            while (error := await failure_of(self._once(accepted, arrival, seat))) is not None:
                log.error(
                    "intake_failed", thread=accepted.thread, seq=accepted.seq, error=f"{type(error).__name__}: {error}", exc_info=error
                )
                attempt += 1
                if attempt >= 3 and not isinstance(error, Unavailable):
                    left = await failure_of(self._give_up(accepted, arrival, error))
                    if not isinstance(left, Unavailable):  # an end that could not be stored is no end
                        return
                await asyncio.sleep(backoff(attempt, most=10.0))

    @asynccontextmanager
    async def _alone(self, thread: str) -> AsyncGenerator[None]:
        lock = self._locks.setdefault(thread, asyncio.Lock())
        self._users[thread] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[thread] -= 1
            if not self._users[thread]:
                del self._users[thread], self._locks[thread]

    async def _once(self, accepted: Accepted, arrival: Arrival, seat: Seat) -> None:
        if isinstance(arrival, Answer):
            await self._pressed(accepted, arrival)
        elif isinstance(arrival, Reacted):
            await self._reacted(accepted, arrival)
        elif isinstance(arrival, Inbound):
            standing = self._parts.access.let_in(arrival, private=arrival.private)
            if standing is None and self._parts.access.may_ask_in(arrival):
                await self._stranger(accepted, arrival)
            elif standing is None:
                await self._end(accepted, "refused", f"{arrival.person.id} may not speak here")
            elif seat.kind == "answer":
                await self._in_words(accepted, arrival)
            else:
                await self._command(accepted, arrival, standing)
        elif isinstance(arrival, Wake):
            await self._command(accepted, _typed(arrival), "owner")
        else:
            await self._end(accepted, "noted", "nothing to do")

    async def _give_up(self, accepted: Accepted, arrival: Arrival, error: Exception) -> None:
        text = f"This could not be carried out: {error}"
        posts = [self._post(arrival.place if isinstance(arrival, Wake) else arrival.address, text)]
        await self._parts.store.end_arrival(accepted.thread, accepted.seq, "dead", text, posts)

    async def _stranger(self, accepted: Accepted, said: Inbound) -> None:
        """One code an hour, also when a stranger speaks in several threads at once."""
        place, parts = said.address, self._parts
        async with self._alone(f"{place.channel}:{place.account}:{said.person.id}"):
            known = parts.access.known(place.channel, place.account, said.person.id)
            row_and_code = pairing.asking(said, known, parts.clock())
            if row_and_code is None:
                await self._end(accepted, "refused", "unknown person; a pairing code was told")
                return
            row, code = row_and_code
            posts = [self._post(place, pairing.words(said, code))]
            await parts.store.end_arrival(accepted.thread, accepted.seq, "refused", "unknown person; pairing code told", posts, person=row)
            parts.access.learn([row])

    async def _command(self, accepted: Accepted, said: Inbound, standing: Standing) -> None:
        parsed, parts = parse(said.text), self._parts
        command = parts.commands.get(parsed[0]) if parsed is not None else None
        if command is None and parsed is not None and is_order(said.text, parts.commands):
            await self._end(
                accepted, "refused", f"there is no /{parsed[0]}", [self._post(said.address, unknown(parsed[0], parts.commands))]
            )
            return
        if command is None or parsed is None:  # somebody who was let in between the words and their handling
            await self._end(accepted, "refused", "said before this person was let in", [self._post(said.address, "Please say that again.")])
            return
        if standing not in command.standings:
            await self._end(
                accepted,
                "refused",
                f"/{command.name} is not for a {standing}",
                [self._post(said.address, f"`/{command.name}` is not for a {standing}.")],
            )
            return
        info = await self._parts.desk.thread(accepted.thread)
        settings = info.settings if info is not None else ThreadSettings()
        effect = await command.run(Order(accepted.thread, said.address, said.person.id, standing, parsed[1], settings), self._parts.desk)
        match command.heeded(effect, parsed[1]):
            case Reply(text):
                await self._end(accepted, "answered", posts=[self._post(said.address, text)])
            case Choose(text, chosen):
                posts = [self._post(said.address, text)]
                await self._parts.store.end_arrival(accepted.thread, accepted.seq, "answered", "", posts, settings=chosen)
                self._parts.chose(accepted.thread, chosen.busy)
            case Stop(text, fresh):
                await self._stop(accepted, said, text, fresh=fresh)
            case RunNow(lapsed):
                _, text = await self._run_now(said, lapsed, owner=standing == "owner")
                await self._end(accepted, "answered", posts=[self._post(said.address, text)] if text else [])
            case Restart(text):
                await self._end(accepted, "answered", posts=[self._post(said.address, text)])
                parts.restart()
            case Decide() as decision:
                await self._decide(accepted, said, decision, owner=standing == "owner")

    async def _stop(self, accepted: Accepted, said: Inbound, text: str, *, fresh: bool) -> None:
        parts = self._parts
        close = closing(parts.new_id, f"stopped by {said.person.name or said.person.id}", parts.drafted)
        posts = [self._post(said.address, text)]
        await parts.store.stop(accepted.thread, accepted.seq, person=said.person.id, fresh=fresh, posts=posts, closing=close)
        await parts.stopped(accepted.thread)

    async def _pressed(self, accepted: Accepted, answer: Answer) -> None:
        if (late := parse_run(answer.choice)) is not None:
            await self._pressed_late(accepted, answer, late)
            return
        parts, pressed = self._parts, parse_choice(answer.choice)
        asked = await self._find(pressed[1]) if pressed is not None else None
        if pressed is None or asked is None:
            await self._end(accepted, "refused", "this question is closed")
            await self._acknowledge(answer, "This question is closed.")
            return
        if not parts.access.may_answer(asked, answer):
            await self._end(accepted, "refused", f"{answer.person.id} may not answer this question")
            await self._acknowledge(answer, "This question is not yours to answer.")
            return
        choice = asked.ask.question.choices[pressed[0]] if pressed[0] < len(asked.ask.question.choices) else None
        if choice is None:
            await self._end(accepted, "refused", "no such choice")
            await self._acknowledge(answer, "There is no such choice.")
            return
        if asked.ask.question.kind == "question":
            decision = Decide(asked.ask.id, "allowed", word=choice.label)
        elif choice.value == "deny":
            decision = Decide(asked.ask.id, "denied")
        else:
            decision = Decide(asked.ask.id, "allowed", choice.value if choice.value in ("session", "always") else "once")
        done = await self._decide(accepted, answer, decision)
        await self._acknowledge(answer, choice.label if done else "Too late: this question is closed.")

    async def _pressed_late(self, accepted: Accepted, answer: Answer, approval: str) -> None:
        lapsed = await self._parts.store.lapsed(approval)
        if lapsed is None:
            await self._end(accepted, "refused", "this question is closed")
            await self._acknowledge(answer, "This question is closed.")
            return
        done, text = await self._run_now(answer, lapsed)
        await self._end(accepted, *(("answered", "") if done else ("refused", text)))
        await self._acknowledge(answer, text or "Run it now")

    async def _run_now(self, said: Said, lapsed: Lapsed, *, owner: bool = False) -> tuple[bool, str]:
        """A new request that begins with the call nobody allowed in time. Whether it is one, and what is said about it, "" for nothing. Done twice it is
        the same: its key is the question's."""
        parts, asked = self._parts, lapsed.asked
        if not owner and not parts.access.may_answer(asked, said):
            return False, "This question is not yours to answer."
        if parts.publish is None or (wake := await self._again(said, lapsed)) is None:
            return False, "This question is closed."
        name = said.person.name or said.person.id
        published = await parts.publish(wake)
        card_row = await parts.store.post_row(asked.ask.id)
        if card_row is not None:
            await parts.store.post([closing(lambda: derived("again", asked.ask.id), f"Run now: allowed by {name}")(card_row)])
        return (False, "It was run already.") if published.duplicate else (True, "")

    async def _again(self, said: Said, lapsed: Lapsed) -> Wake | None:
        """None: nobody may have this run any more. What a job asked runs under the job's terms, and what comes of it goes where its reports go."""
        parts, asked = self._parts, lapsed.asked
        prompt = RUN_NOW.format(name=" ".join((said.person.name or said.person.id).split())[:100])
        key, place, digest, by = f"again:{asked.ask.id}", asked.address, asked.ask.question.digest, said.person.id
        if place.channel == "house":
            found = await parts.terms(place, asked.person, lapsed.job) if parts.terms is not None else None
            if found is None:
                return None
            again = Again(lapsed.call.name, lapsed.call.arguments, digest, by, "guest")  # as whom a job acts is looked up when it runs
            return Wake(
                key=key, origin="again", place=place, deliver=None, person=asked.person, prompt=prompt, at=parts.clock(), terms=found[0],
                account=found[1], again=again,
            )  # fmt: skip
        standing = parts.access.standing_of(replace(said, address=place, person=Person(PersonId(asked.person), "")))
        if standing is None:
            return None
        info = await parts.desk.thread(asked.thread)
        return Wake(
            key=key, origin="again", place=place, deliver=place, person=asked.person, prompt=prompt, at=parts.clock(), account=place.account,
            mind=info.person_scope if info is not None else "", again=Again(lapsed.call.name, lapsed.call.arguments, digest, by, standing),
        )  # fmt: skip

    async def _reacted(self, accepted: Accepted, reacted: Reacted) -> None:
        """A thumb on the card of a permission is its button; on anything else, or by somebody else, it is only a thumb, and nobody is told off for it."""
        parts, here = self._parts, (reacted.address.channel, reacted.address.account, reacted.address.chat)
        verdict = verdict_of(reacted.emoji)
        for asked in await parts.store.open_questions():
            if verdict is None or asked.state != "asked" or asked.ask.question.kind != "permission":
                continue
            row = await parts.store.post_row(asked.ask.id)
            place = asked.address if row is None else row.row.outbound.address  # a job's card stands where its person is
            if (place.channel, place.account, place.chat) != here:
                continue
            shown = [state.receipt.message for state in row.parts if state.receipt is not None] if row is not None else []
            if reacted.message not in shown:
                continue
            if parts.access.may_answer(asked, reacted):
                await self._decide(accepted, reacted, Decide(asked.ask.id, verdict), quiet=True)
            else:
                await self._end(accepted, "refused", f"{reacted.person.id} may not answer this question")
            return
        await self._end(accepted, "noted", "no open question stands there")

    async def _acknowledge(self, answer: Answer, text: str) -> None:
        """A courtesy: a platform that hangs must not hold up what is said next in this thread."""
        await failure_of(within(COURTESY, self._parts.acknowledge(answer, text)))

    async def _in_words(self, accepted: Accepted, said: Inbound) -> None:
        asked_now = [asked for asked in await self._parts.store.open_questions(accepted.thread) if asked.state == "asked"]
        questions = [asked for asked in asked_now if is_free(asked.ask.question)]  # words never answer a permission that came meanwhile
        if questions:
            await self._decide(accepted, said, Decide(questions[0].ask.id, "allowed", word=said.text))
        else:
            late = [self._post(said.address, "The question this answered is closed. Please say it again as a message.")]
            await self._end(accepted, "refused", "the question is closed", late)

    async def _decide(self, accepted: Accepted, said: Said, decision: Decide, *, quiet: bool = False, owner: bool = False) -> bool:
        parts = self._parts
        asked = await self._find(decision.approval)
        if asked is not None and not owner and not parts.access.may_answer(asked, said):
            await self._end(accepted, "refused", "not yours to answer", [self._post(said.address, "This question is not yours to answer.")])
            return False
        if asked is not None:
            decision = replace(decision, scope=remembered(asked, decision.scope))
        note = _note(decision, said)
        grant = await self._granting.grant(asked, decision.scope) if decision.verdict == "allowed" else None
        here = (accepted.thread, accepted.seq)
        ruling = Ruling(decision.approval, decision.verdict, said.person.id, decision.word, decision.scope, grant, here)
        outcome = await parts.store.answer(
            ruling, late=[] if quiet else [self._post(said.address, "Too late: this question is closed.")], card=parts.card, closing=closing(parts.new_id, note),
        )  # fmt: skip
        parts.failpoint("approval.granted")
        return outcome == "ok"

    async def _find(self, approval: str) -> Asked | None:
        return next((asked for asked in await self._parts.store.open_questions() if asked.ask.id == approval), None)

    def _post(self, address: Address, text: str) -> PostRow:
        return PostRow(self._parts.new_id(), "notice", Outbound(address, text))

    async def _end(self, accepted: Accepted, ending: str, reason: str = "", posts: Sequence[PostRow] = ()) -> None:
        await self._parts.store.end_arrival(accepted.thread, accepted.seq, ending, reason, posts)  # pyright: ignore[reportArgumentType]


def _typed(wake: Wake) -> Inbound:
    """What the owner said by the local API, as if it had been said in its place."""
    return Inbound(
        key=wake.key, address=wake.deliver or wake.place, person=Person(PersonId(wake.person), wake.person), at=wake.at, order=wake.key,
        message=MessageId(wake.key), text=wake.prompt, private=True, addressed=True,
    )  # fmt: skip


def _note(decision: Decide, said: Said) -> str:
    who = said.person.name or said.person.id
    if decision.verdict == "denied":
        return f"Denied by {who}"
    if decision.word:
        return f"{who}: {decision.word[:200]}"
    return {"once": f"Allowed once by {who}", "session": f"Allowed for this session by {who}", "always": f"Always allowed by {who}"}[
        decision.scope
    ]
