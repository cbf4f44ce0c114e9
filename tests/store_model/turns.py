"""The model's arrivals and turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from channels.contract import Edited, Inbound, Reacted
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.inwriter import Begins, Closing, Collects, Rest, ToContext, ToStep, no_rest
from ohmo.contracts.messages import Step, Usage, UserStep
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.provider import NOBODY, Payer
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import (
    Accepted,
    Claim,
    CursorSave,
    End,
    Ending,
    Kind,
    Pending,
    PersonRow,
    Seat,
    ThreadSettings,
    Work,
)
from ohmo.store.inbox import again_as
from tests.store_model.jobs import ModelJobs
from tests.store_model.tables import Letter, Seen, Speaker, Turn, once, words


class ModelMailbox(ModelJobs):
    async def accept(
        self, items: Sequence[tuple[Arrival, Seat]], cursor: CursorSave | None = None
    ) -> list[Accepted]:
        with self.transaction() as tables:
            if cursor is not None:
                key = (cursor.channel, cursor.account, cursor.name)
                generation = tables.cursors.get(key, ("", 0))[1]
                if 0 < cursor.generation < generation:
                    raise LeaseLost
                tables.cursors[key] = (cursor.value, cursor.generation or generation)
            return [self._accept(arrival, seat) for arrival, seat in items]

    def _accept(self, arrival: Arrival, seat: Seat) -> Accepted:
        place = arrival.place if isinstance(arrival, Wake) else arrival.address
        keys = [arrival.key] if isinstance(arrival, Wake) else [arrival.key, *arrival.aliases]
        names = [(place.channel, place.account, key) for key in keys]
        for name in names:
            if known := self.tables.seen.get(name):
                return Accepted(known.thread, known.seq, duplicate=True)
        thread = self.thread_of(place, seat.person_scope).id
        seq = self.number(thread)
        for name in names:
            self.tables.seen[name] = Seen(thread, seq, self.now)
        if (
            isinstance(arrival, Wake)
            and arrival.occurrence is not None
            and not self.claim_occurrence(arrival.occurrence, thread, seq)
        ):
            self.tables.seen = {
                name: seen for name, seen in self.tables.seen.items() if name not in names
            }
            return Accepted(thread, seq, duplicate=True)
        kind, ending = self._becomes(arrival, seat, thread)
        self._meet(arrival, thread, seq)
        self._put(arrival, thread, seq, kind, seat.hold, ending, seat.reason)
        self.change(thread, last_at=self.now)
        if seat.settings is not None:
            row = self.tables.threads[thread]
            self.change(thread, settings=seat.settings.within(row.session_seq).over(row.settings))
        if ending is None and seat.kind in ("message", "wake"):
            self._wake(thread, self.later(seat.hold))
        return Accepted(thread, seq, duplicate=False)

    def _meet(self, arrival: Arrival, thread: str, seq: int) -> None:
        if words(arrival) and not self.tables.threads[thread].begins:
            self.change(thread, begins=seq)
        if isinstance(arrival, Inbound) and arrival.person.name:
            place = arrival.address
            self.tables.speakers[place.channel, place.account, arrival.person.id] = Speaker(
                arrival.person.name, self.now.date()
            )

    def _becomes(self, arrival: Arrival, seat: Seat, thread: str) -> tuple[Kind, Ending | None]:
        if seat.ending is not None or not isinstance(arrival, Edited):
            return seat.kind, seat.ending or (
                "noted" if isinstance(arrival, Reacted) and seat.kind == "reaction" else None
            )
        originals = [
            i
            for i in self.tables.inbox.values()
            if i.thread == thread
            and i.message == arrival.message
            and i.kind in ("message", "command")
        ]
        if not originals:
            return "edit", None
        original = max(originals, key=lambda i: i.seq)
        if original.state == "waiting" and original.kind == "message":
            return "edit", None
        if original.state == "taken" and arrival.text is not None:
            return "message", None
        return "edit", "noted"

    def _put(
        self,
        arrival: Arrival,
        thread: str,
        seq: int,
        kind: Kind,
        hold: float,
        ending: Ending | None,
        reason: str,
    ) -> None:
        if isinstance(arrival, Wake):
            waiting = self.waiting(thread)
            sort, person = waiting[-1].sort if waiting else "", arrival.person
        else:
            sort, person = arrival.order, arrival.person.id
        message = arrival.message if isinstance(arrival, Inbound | Edited | Reacted) else ""
        album = (arrival.album or "") if isinstance(arrival, Inbound) else ""
        letter = Letter(
            thread,
            seq,
            sort,
            kind,
            message,
            album,
            person,
            arrival.at,
            self.now,
            self.later(hold),
            arrival,
            "waiting",
        )
        self.tables.inbox[thread, seq] = letter
        if ending is not None:
            self.end(letter, ending, reason)

    def _wake(self, thread: str, at: datetime) -> None:
        row = self.tables.threads[thread]
        if not self.parked(thread):
            if row.ready_at is None or (row.ready_at > self.now and at > row.ready_at):
                self.change(thread, ready_at=at)
            self.hint("ready", thread)

    async def cursor(self, channel: str, account: str, name: str) -> str | None:
        found = self.tables.cursors.get((channel, account, name))
        return None if found is None else found[0]

    async def unhandled(self) -> list[Pending]:
        found = [
            i
            for i in self.tables.inbox.values()
            if i.state == "waiting" and i.kind in ("answer", "command")
        ]
        found.sort(key=lambda i: (i.at, i.thread, i.seq))
        return [
            Pending(Accepted(i.thread, i.seq, duplicate=False), i.kind, i.arrival) for i in found
        ]

    async def end_arrival(
        self,
        thread: str,
        seq: int,
        ending: Ending,
        reason: str = "",
        posts: Sequence[PostRow] = (),
        *,
        person: PersonRow | None = None,
        settings: ThreadSettings | None = None,
        told: UserStep | None = None,
    ) -> bool:
        letter = self.tables.inbox.get((thread, seq))
        if letter is None or letter.state == "ended":
            return False
        with self.transaction() as tables:
            self.end(letter, ending, reason)
            if person is not None:
                tables.people[person.channel, person.account, person.person] = person
            if settings is not None:
                self.change(thread, settings=settings)
            self._tell(thread, told)
            self.say(posts, None, thread)
            self._hints.append(Hint("state", thread))
        return True

    def _tell(self, thread: str, told: UserStep | None) -> None:
        turns = [turn for turn in self.tables.turns.values() if turn.thread == thread]
        if told is None or not turns or any(t.state in ("running", "parked") for t in turns):
            return
        last = max(turns, key=lambda turn: (turn.began, turn.id))
        self.log(thread, last.id, [told], once)
        self.change(thread, generation=self.tables.threads[thread].generation + 1)

    async def retry_arrival(self, thread: str, seq: int) -> bool:
        letter = self.tables.inbox.get((thread, seq))
        if letter is None or letter.ending != "dead" or letter.kind not in ("message", "wake"):
            return False
        with self.transaction() as tables:
            place, tries = tables.threads[thread].address, 1
            while (place.channel, place.account, f"retry:{thread}.{seq}.{tries}") in tables.seen:
                tries += 1
            key, old = f"retry:{thread}.{seq}.{tries}", letter.arrival
            again = (
                replace(old, key=key)
                if isinstance(old, Wake)
                else replace(old, key=key, aliases=())
            )
            if isinstance(again, Inbound):
                again = replace(again, album=None)
            number = self.number(thread)
            tables.seen[place.channel, place.account, key] = Seen(thread, number, self.now)
            self._put(again, thread, number, letter.kind, 0, None, "")
            tables.inbox[thread, seq] = replace(
                letter, ending="superseded", reason=again_as(number)
            )
            self.claim_again(again, number)
            self._wake(thread, self.now)
        return True


class ModelTurns(ModelMailbox):
    async def claim(
        self, owner: str, *, limit: int, ttl: float, idle: float | None = None
    ) -> list[Claim]:
        with self.transaction() as tables:
            free = [
                t
                for t in tables.threads.values()
                if t.ready_at is not None
                and t.ready_at <= self.now
                and (t.until is None or t.until <= self.now)
            ]
            claims: list[Claim] = []
            for row in sorted(free, key=lambda t: (t.ready_at, t.id))[:limit]:
                turn = self.open_turn(row.id)
                if row.owner not in (None, owner) and turn is not None:
                    tables.turns[turn.id] = replace(turn, starts=turn.starts + 1)
                if idle is not None and turn is None and self._silent(row.id, idle):
                    chosen = row.settings.begun(row.session_seq, row.next_seq)
                    self.change(row.id, session_seq=row.next_seq, settings=chosen)
                new = self.change(
                    row.id, owner=owner, until=self.later(ttl), generation=row.generation + 1
                )
                until = time.monotonic() + ttl - 1
                claims.append(
                    Claim(
                        new.id,
                        new.generation,
                        until,
                        owner,
                        new.address,
                        new.session_seq,
                        new.settings,
                    )
                )
            return claims

    def _silent(self, thread: str, seconds: float) -> bool:
        newest = max(
            (
                (seq, logged.at)
                for (where, seq), logged in self.tables.steps.items()
                if where == thread
            ),
            default=None,
        )
        return newest is not None and newest[1] < self.now - timedelta(seconds=seconds)

    async def begin(
        self,
        owner: str,
        turns: Sequence[str],
        *,
        ttl: float,
        collect: Collects,
        step: ToStep,
        context: ToContext | None = None,
        under: Begins | None = None,
        idle: float | None = None,
    ) -> list[tuple[Claim, Work | None]]:
        claims = await self.claim(owner, limit=len(turns), ttl=ttl, idle=idle)
        return [
            (
                one,
                await self.work(
                    one, turn, collect=collect(one), step=step, context=context, under=under
                ),
            )
            for one, turn in zip(claims, turns, strict=False)
        ]

    async def renew(self, claims: Sequence[Claim], ttl: float) -> set[Claim]:
        lost: set[Claim] = set()
        for claim in claims:
            try:
                self.must_hold(claim)
                self.change(claim.thread, until=self.later(ttl))
            except LeaseLost:
                lost.add(claim)
        return lost

    async def release(
        self,
        claim: Claim,
        turn: str | None = None,
        *,
        retry_after: float = 0.0,
        error: str | None = None,
    ) -> None:
        self.must_hold(claim)
        with self.transaction() as tables:
            present = self.open_turn(claim.thread)
            if error is not None and present is not None and present.id == turn:
                tables.turns[present.id] = replace(present, attempts=present.attempts + 1)
            busy = present is not None or self.waiting(claim.thread)
            self.change(
                claim.thread,
                owner=None,
                until=None,
                ready_at=self.later(retry_after) if busy else None,
            )
            if busy:
                self.hint("ready", claim.thread)

    async def reclaim(self, owner: str) -> int:
        with self.transaction() as tables:
            others = [t for t in tables.threads.values() if t.owner not in (None, owner)]
            for row in others:
                self.change(row.id, owner=None, until=None, generation=row.generation + 1)
                if turn := self.open_turn(row.id):
                    tables.turns[turn.id] = replace(turn, starts=turn.starts + 1)
            for name, (holder, _, generation) in list(tables.leases.items()):
                if holder != owner:
                    tables.leases[name] = (
                        holder,
                        datetime.min.replace(tzinfo=self.now.tzinfo),
                        generation,
                    )
            return len(others)

    async def work(
        self,
        claim: Claim,
        turn: str,
        *,
        collect: bool,
        step: ToStep,
        context: ToContext | None = None,
        under: Begins | None = None,
    ) -> Work | None:
        self.must_hold(claim)
        with self.transaction() as tables:
            present = self.open_turn(claim.thread)
            if present is not None and present.state == "running":
                arrivals = tuple(
                    a
                    for i in self.taken(present.id)
                    if (a := self.revised(i, present.id)) is not None
                )
                return Work(
                    present.id,
                    present.starts,
                    present.attempts,
                    arrivals,
                    resumed=True,
                    under=present.under,
                )
            if present is not None:
                self.change(claim.thread, owner=None, until=None, ready_at=None)
                return None
            taken = self._take(claim.thread, turn, everything=collect)
            if not taken:
                self.give_back(claim.thread)
                self.await_album(claim.thread)
                return None
            held = under(taken[0][1]) if under is not None else None
            person = taken[0][0].person
            tables.turns[turn] = Turn(
                turn, claim.thread, "running", person, began=self.now, under=held
            )
            heard = (
                self.overheard(claim.thread, turn, taken[0][0].seq, taken[0][1])
                if context is not None
                else []
            )
            before = context(claim, heard) if context is not None else []
            steps = [*before, *(step(arrival) for _, arrival in taken)]
            numbers = self.log(claim.thread, turn, steps, once)
            arrivals = tuple(arrival for _, arrival in taken)
            said = tuple(zip(numbers, steps, strict=True))
            return Work(turn, 1, 0, arrivals, resumed=False, steps=said, under=held)

    def _take(
        self, thread: str, turn: str, *, everything: bool, person: str | None = None
    ) -> list[tuple[Letter, Arrival]]:
        taken: list[tuple[Letter, Arrival]] = []
        waiting = self.waiting(thread)
        held = {i.album for i in waiting if i.album and i.ready_at > self.now}
        for letter in waiting:
            person = letter.person if person is None else person
            if (
                letter.ready_at > self.now
                or letter.album in held
                or (everything and letter.person != person)
            ):
                break
            if (
                taken
                and not everything
                and not (letter.album and letter.album == taken[0][0].album)
            ):
                continue
            arrival = self.revised(letter)
            for edit in self.letters(thread, "waiting"):
                if edit.kind == "edit" and letter.message and edit.message == letter.message:
                    self.end(edit, "merged", turn=turn)
            if arrival is None:
                self.end(letter, "superseded", "deleted")
            else:
                self.tables.inbox[thread, letter.seq] = replace(letter, state="taken", turn=turn)
                taken.append((letter, arrival))
        return taken

    async def steer(
        self, claim: Claim, turn: str, step: ToStep
    ) -> tuple[tuple[int, UserStep], ...]:
        self.must_hold(claim, turn if self.waiting(claim.thread) else None)
        with self.transaction():
            steps = [
                step(arrival)
                for _, arrival in self._take(
                    claim.thread, turn, everything=True, person=self.tables.turns[turn].person
                )
            ]
            return tuple(zip(self.log(claim.thread, turn, steps, once), steps, strict=True))

    async def record(
        self,
        claim: Claim,
        turn: str,
        steps: Sequence[Step],
        *,
        posts: Sequence[PostRow] = (),
        usage: Usage | None = None,
        payer: Payer = NOBODY,
        plans: bool | None = None,
    ) -> tuple[int, ...]:
        self.must_hold(claim, turn)
        with self.transaction():
            numbers = self.log(claim.thread, turn, steps, once)
            self.say(posts, turn, claim.thread)
            if usage is not None:
                self.book(replace(payer, turn=turn, thread=claim.thread), usage)
            if plans is not None:
                row = self.tables.threads[claim.thread]
                settings = row.settings.plans(row.session_seq, plans)
                self.change(claim.thread, settings=settings)
            return tuple(numbers)

    async def finish(
        self,
        claim: Claim,
        turn: str,
        steps: Sequence[Step],
        posts: Sequence[PostRow],
        end: End,
        *,
        usage: Usage | None = None,
        payer: Payer = NOBODY,
    ) -> tuple[int, ...]:
        self.must_hold(claim, turn)
        with self.transaction():
            numbers = self.log(claim.thread, turn, steps, once)
            if usage is not None:
                self.book(replace(payer, turn=turn, thread=claim.thread), usage)
            drafts = [draft for draft in self.open_drafts(turn) if self.standing(draft) is not None]
            said = list(posts)
            own = [i for i, post in enumerate(said) if post.outbound.address == claim.address]
            if drafts and own and said[own[0]].target is None:
                said[own[0]] = replace(said[own[0]], kind="edit", target=drafts[-1])
            self.say(said, turn, claim.thread)
            for n, letter in enumerate(self.taken(turn)):
                ending: Ending = (
                    ("merged" if n else "answered")
                    if end.state == "done"
                    else "dead"
                    if end.state == "failed"
                    else "stopped"
                )
                self.end(letter, ending, "" if end.state == "done" else end.reason)
            self._close_turn(turn, end.state)
            self.settle(claim.thread, end.report)
            self.give_back(claim.thread)
            return tuple(numbers)

    def _close_turn(self, turn: str, state: str) -> None:
        self.tables.turns[turn] = replace(self.tables.turns[turn], state=state, ended=self.now)

    async def interrupt(
        self, claim: Claim, turn: str, closing: Closing, rest: Rest = no_rest
    ) -> None:
        self.must_hold(claim, turn)
        with self.transaction():
            self._cut(turn, claim.thread, closing, rest)
            for letter in self.taken(turn):
                self.end(letter, "merged")
            self._close_turn(turn, "stopped")
            self.settle(
                claim.thread,
                Report("interrupted by a newer message", failed=True, cause="interrupted"),
            )
            self.give_back(claim.thread)

    async def draft(self, claim: Claim, turn: str, row: PostRow) -> bool:
        held = self.tables.threads.get(claim.thread)
        if held is None or held.generation != claim.generation:
            raise LeaseLost
        present = self.tables.turns.get(turn)
        if (
            held.owner != claim.owner
            or present is None
            or present.thread != claim.thread
            or present.state != "running"
        ):
            return False
        if row.outbound.address != claim.address or self.open_drafts(turn):
            return False
        with self.transaction():
            self.say([replace(row, kind="draft")], turn, claim.thread)
        return True

    def _cut(self, turn: str, thread: str, closing: Closing, rest: Rest) -> None:
        left, drafts = rest(turn), self.open_drafts(turn)
        self.log(thread, turn, left.steps, once)
        self.close(drafts, closing, thread)
        if left.post is not None and all(
            self.tables.posts[draft].row.state == "dropped" for draft in drafts
        ):
            self.say([left.post], turn, thread)

    async def stop(
        self,
        thread: str,
        seq: int,
        *,
        person: str,
        fresh: bool,
        posts: Sequence[PostRow],
        closing: Closing,
        rest: Rest = no_rest,
        resumes: int | None = None,
    ) -> int:
        command = self.tables.inbox.get((thread, seq))
        if command is None or command.state == "ended":
            return 0
        with self.transaction() as tables:
            self.end(command, "answered")
            turn, reason = self.open_turn(thread), f"stopped by {person}"
            mine = turn is not None and any(i.seq < seq for i in self.taken(turn.id))
            before = [
                i
                for i in self.letters(thread, "waiting")
                + (self.letters(thread, "taken") if mine else [])
                if i.seq < seq
            ]
            before = [i for i in before if i.kind in ("message", "wake", "edit")]
            for letter in before:
                self.end(letter, "stopped", reason)
            self.change(thread, generation=tables.threads[thread].generation + 1)
            if turn is not None and mine:
                for letter in self.taken(turn.id):
                    tables.inbox[thread, letter.seq] = replace(letter, state="waiting", turn=None)
                self._cut(turn.id, thread, closing, rest)
                self._void(turn.id, thread, closing)
            self.say(posts, None, thread)
            self.settle(thread, Report(reason, failed=True, cause="stopped"))
            self._after_stop(thread, fresh, resumes)
            return len(before)

    def _void(self, turn: str, thread: str, closing: Closing) -> None:
        self._close_turn(turn, "stopped")
        asked = (
            q
            for q in self.tables.questions.values()
            if q.turn == turn and q.state in ("queued", "asked")
        )
        opened = sorted(asked, key=lambda q: q.seq)
        for question in opened:
            self.tables.questions[question.ask.id] = replace(question, state="void")
        self.close([q.ask.id for q in opened if q.state == "asked"], closing, thread)

    def _after_stop(self, thread: str, fresh: bool, resumes: int | None) -> None:
        rest = self.open_turn(thread)
        if fresh:
            own = [
                seq
                for (where, seq), s in self.tables.steps.items()
                if where == thread and rest is not None and s.turn == rest.id
            ]
            row = self.tables.threads[thread]
            begins = min(own, default=row.next_seq)
            self.change(
                thread,
                session_seq=begins if resumes is None else resumes,
                settings=row.settings.begun(row.session_seq, begins, resumes),
            )
            gone = f"{thread}.{resumes}"
            kept = {key: one for key, one in self.tables.grants.items() if one.scope != gone}
            self.tables.grants = kept
        if rest is None:
            self.give_back(thread)
        elif rest.state == "running":
            self.change(thread, owner=None, until=None, ready_at=self.now)
            self.hint("ready", thread)

    async def steps(
        self, thread: str, since: int, *, limit: int | None = None
    ) -> list[tuple[int, Step]]:
        found = [
            (seq, logged.step)
            for (where, seq), logged in self.tables.steps.items()
            if where == thread and seq >= since
        ]
        return sorted(found, key=lambda row: row[0])[:limit]
