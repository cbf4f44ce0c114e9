"""A model of the store in memory for tests: the same protocol, written a second time and as simply
as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Literal

from channels.contract import Address, Inbound
from ohmo.contracts.errors import Conflict
from ohmo.contracts.inwriter import Card, Closing
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.outbox import Ask, Asked, Grant, Lapsed, OutRow, PartState, PostRow, Ruling
from ohmo.contracts.reports import (
    ArrivalInfo,
    AuditReport,
    Beginning,
    Counts,
    HistoryItem,
    SessionInfo,
    Spot,
    StepInfo,
    ThreadInfo,
    spot_of,
)
from ohmo.contracts.tool import Verdict
from ohmo.contracts.turns import NO_SESSION, Claim, PersonRow, Shelf, ThreadSettings, TurnCost
from ohmo.store.approvals import lapsed_in
from tests.store_model.choices import ModelChoices
from tests.store_model.spending import ModelSpending
from tests.store_model.tables import Letter, Question, Thread, words
from tests.store_model.turns import ModelTurns


class ModelApprovals(ModelTurns):
    async def park(
        self,
        claim: Claim,
        turn: str,
        asks: Sequence[Ask],
        *,
        timeout: float,
        card: Card,
        closing: Closing,
    ) -> None:
        if not asks:
            raise Conflict("a turn cannot be parked without a question")
        self.must_hold(claim, turn)
        with self.transaction() as tables:
            for ask in asks:
                doubled = [
                    q
                    for q in tables.questions.values()
                    if (q.turn, q.ask.call) == (turn, ask.call) and q.state in ("queued", "asked")
                ]
                if doubled or ask.id in tables.questions:
                    raise Conflict("the call is asked about already")
                tables.questions[ask.id] = Question(
                    ask, claim.thread, self.number(claim.thread), turn, timeout
                )
            tables.turns[turn] = replace(tables.turns[turn], state="parked")
            self.close(self.open_drafts(turn), closing, claim.thread)
            self._ask_next(claim.thread, turn, card)
            self.change(claim.thread, owner=None, until=None, ready_at=None)

    def asked(self, question: Question) -> Asked:
        place, person = (
            self.tables.threads[question.thread].address,
            self.tables.turns[question.turn].person,
        )
        state: Literal["queued", "asked"] = "asked" if question.state == "asked" else "queued"
        return Asked(
            question.ask,
            question.thread,
            question.turn,
            place,
            person,
            state,
            question.deadline,
            question.asked_at,
        )

    def _ask_next(self, thread: str, turn: str, card: Card) -> bool:
        queued = sorted(
            (q for q in self.tables.questions.values() if q.turn == turn and q.state == "queued"),
            key=lambda q: q.seq,
        )
        if not queued:
            return False
        first = replace(
            queued[0], state="asked", asked_at=self.now, deadline=self.later(queued[0].timeout)
        )
        self.tables.questions[first.ask.id] = first
        row = card(self.asked(first))
        if row.id != first.ask.id:
            raise Conflict("the card must have the id of its question")
        self.say([row], turn, thread)
        self.hint("approval", thread)
        return True

    def _go_on(self, thread: str, turn: str, card: Card) -> None:
        if not self._ask_next(thread, turn, card):
            self.tables.turns[turn] = replace(self.tables.turns[turn], state="running")
            self.change(thread, ready_at=self.now)
            self.hint("ready", thread)

    async def answer(
        self,
        ruling: Ruling,
        *,
        posts: Sequence[PostRow] = (),
        late: Sequence[PostRow] = (),
        card: Card,
        closing: Closing,
    ) -> Literal["ok", "late", "unknown"]:
        question = self.tables.questions.get(ruling.approval)
        letter = self.tables.inbox.get(ruling.arrival) if ruling.arrival is not None else None
        if letter is not None and letter.state == "ended":
            return (
                "unknown" if question is None else "ok" if letter.ending == "answered" else "late"
            )
        with self.transaction() as tables:
            if (
                question is None
                or question.state != "asked"
                or question.deadline is None
                or question.deadline <= self.now
            ):
                if letter is not None:
                    self.end(letter, "refused", "the question is closed")
                self.say(
                    sorted(
                        (row for row in late if row.id not in tables.posts), key=lambda row: row.id
                    ),
                    None,
                )
                return "unknown" if question is None else "late"
            tables.questions[ruling.approval] = replace(
                question,
                state=ruling.verdict,
                scope=ruling.scope,
                word=ruling.word,
                person=ruling.person,
            )
            if ruling.grant is not None:
                tables.grants[ruling.grant.id] = ruling.grant
            if letter is not None:
                self.end(letter, "answered")
            self.close([ruling.approval], closing, question.thread)
            self.say(posts, question.turn, question.thread)
            self._go_on(question.thread, question.turn, card)
        return "ok"

    async def consume(self, claim: Claim, turn: str, call: str, digest: str) -> Verdict | None:
        self.must_hold(claim, turn)
        said = [
            q
            for q in self.tables.questions.values()
            if (q.turn, q.ask.call, q.used) == (turn, call, False)
            and q.state in ("allowed", "denied", "expired")
        ]
        fitting = [q for q in said if q.ask.question.digest == digest]
        for question in fitting:
            self.tables.questions[question.ask.id] = replace(question, used=True)
        if not said:
            return None
        last = (fitting or sorted(said, key=lambda q: q.seq))[-1]
        state = "changed" if not fitting and last.state == "allowed" else last.state
        return Verdict(state, last.scope, last.word, last.person)  # pyright: ignore[reportArgumentType]

    async def expire(self, card: Card, closing: Closing) -> int:
        with self.transaction() as tables:
            overdue = [
                q
                for q in tables.questions.values()
                if q.state == "asked" and q.deadline is not None and q.deadline <= self.now
            ]
            for question in sorted(overdue, key=lambda q: q.thread):
                tables.questions[question.ask.id] = replace(question, state="expired")
                self.close([question.ask.id], closing, question.thread)
                self._go_on(question.thread, question.turn, card)
            return len(overdue)

    async def next_deadline(self) -> datetime | None:
        return min(
            (
                q.deadline
                for q in self.tables.questions.values()
                if q.state == "asked" and q.deadline is not None
            ),
            default=None,
        )

    async def open_questions(self, thread: str | None = None) -> list[Asked]:
        found = [
            q
            for q in self.tables.questions.values()
            if q.state in ("queued", "asked") and thread in (None, q.thread)
        ]
        return [self.asked(q) for q in sorted(found, key=lambda q: (q.thread, q.seq))]

    async def question(self, approval: str) -> Asked | None:
        found = self.tables.questions.get(approval)
        is_open = found is not None and found.state in ("queued", "asked")
        return self.asked(found) if found is not None and is_open else None

    async def lapsed(self, name: str) -> Lapsed | None:
        found = [
            q
            for q in self.tables.questions.values()
            if q.state == "expired"
            and q.ask.question.kind == "permission"
            and name in (q.ask.id, q.thread)
            and q.deadline is not None
        ]
        if not found:
            return None
        asked = self.asked(max(found, key=lambda q: (q.deadline, q.ask.id)))
        began = min(
            (
                i
                for i in self.tables.inbox.values()
                if (i.thread, i.turn) == (asked.thread, asked.turn)
            ),
            key=lambda i: i.seq,
            default=None,
        )
        return lapsed_in(
            asked,
            [step for _, step in await self.steps(asked.thread, 0)],
            began.arrival if began else None,
        )

    async def grants(self) -> list[Grant]:
        return sorted(self.tables.grants.values(), key=lambda g: (g.at, g.id))

    async def revoke_grant(self, id: str) -> bool:
        return self.tables.grants.pop(id, None) is not None

    async def people(self) -> list[PersonRow]:
        return [row for _, row in sorted(self.tables.people.items())]

    async def save_person(self, row: PersonRow) -> None:
        self.tables.people[row.channel, row.account, row.person] = row

    async def lease(self, name: str, owner: str, ttl: float) -> int | None:
        holder, until, generation = self.tables.leases.get(name, ("", self.now, 0))
        if holder != owner and until > self.now:
            return None
        self.tables.leases[name] = (
            owner,
            self.later(ttl),
            generation if holder == owner else generation + 1,
        )
        return self.tables.leases[name][2]

    async def unlease(self, name: str, owner: str) -> None:
        holder, _, generation = self.tables.leases.get(name, ("", self.now, 0))
        if holder == owner and generation:
            self.tables.leases[name] = ("", self.now, generation)

    async def audit(self, kind: str, body: str) -> None:
        """The model keeps no chain."""


class ModelOutbox(ModelApprovals):
    async def post(self, rows: Sequence[PostRow]) -> None:
        with self.transaction() as tables:
            for row in rows:
                if row.id not in tables.posts:
                    self.say([row], None)

    def _open(self, id: str) -> OutRow:
        found = self.tables.posts.get(id)
        if found is None or found.row.state not in ("ready", "sending"):
            raise Conflict(f"post {id} is not open any more")
        return found.row

    async def outgoing(
        self, channel: str, account: str, threads: Collection[str] | None = None
    ) -> list[OutRow]:
        heads: dict[str, OutRow] = {}
        for posted in self.tables.posts.values():
            row, place = posted.row, posted.row.row.outbound.address
            wanted = (place.channel, place.account) == (channel, account) and (
                threads is None or row.thread in threads
            )
            if (
                wanted
                and row.state in ("ready", "sending")
                and (row.thread not in heads or row.seq < heads[row.thread].seq)
            ):
                heads[row.thread] = row
        return sorted(
            (self.seen_post(row) for row in heads.values()),
            key=lambda row: (row.ready_at, row.thread),
        )

    async def sending(self, id: str, parts: Sequence[PartState]) -> None:
        row = self._open(id)
        if row.state == "ready" and any(other.seq < row.seq for other in self._open_beside(row)):
            raise Conflict(f"post {id} is not open any more, or others go before it")
        self.alter(id, over=False, state="sending", parts=tuple(parts))

    async def sent(self, id: str, parts: Sequence[PartState]) -> bool:
        if id not in self.tables.posts:
            raise Conflict(f"there is no post {id}")
        self.alter(id, over=True, state="sent", parts=tuple(parts), error=None)
        return bool(self._open_beside(self.tables.posts[id].row))

    def _open_beside(self, row: OutRow) -> list[OutRow]:
        """Open rows of its thread, itself among them."""
        rows = [posted.row for posted in self.tables.posts.values()]
        return [
            other
            for other in rows
            if other.thread == row.thread and other.state in ("ready", "sending")
        ]

    async def unsent(
        self,
        id: str,
        *,
        retry_after: float | None,
        error: str,
        parts: Sequence[PartState] | None = None,
    ) -> None:
        row = self._open(id)
        state, again = (
            ("dead", self.now) if retry_after is None else ("ready", self.later(retry_after))
        )
        self.alter(
            id,
            over=retry_after is None,
            state=state,
            attempts=row.attempts + 1,
            ready_at=again,
            parts=row.parts if parts is None else tuple(parts),
            error=error,
        )

    async def retry_post(self, id: str) -> bool:
        found = self.tables.posts.get(id)
        if found is None or found.row.state != "dead":
            return False
        self.alter(
            id,
            over=False,
            state="ready",
            attempts=0,
            error=None,
            ready_at=self.now,
            expires=self.later(found.row.row.ttl),
        )
        return True

    async def drop_post(self, id: str) -> bool:
        found = self.tables.posts.get(id)
        if found is None or found.row.state not in ("ready", "sending", "dead"):
            return False
        self.alter(id, over=True, state="dropped")
        return True


class MemoryStore(ModelOutbox, ModelSpending, ModelChoices):
    """Implements ``Store`` and ``Reports``. One process, nothing is kept."""

    async def forget(self, thread: str) -> bool:
        row, tables = self.tables.threads.get(thread), self.tables
        open_posts = any(
            p.row.thread == thread and p.ended_at is None for p in tables.posts.values()
        )
        waits = any(i.thread == thread and i.state != "ended" for i in tables.inbox.values())
        if (
            row is None
            or row.ready_at is not None
            or row.owner is not None
            or self.parked(thread)
            or waits
            or open_posts
        ):
            return False
        with self.transaction() as tables:
            gone = {i.person for i in tables.inbox.values() if i.thread == thread}
            tables.inbox = {key: i for key, i in tables.inbox.items() if i.thread != thread}
            tables.posts = {key: p for key, p in tables.posts.items() if p.row.thread != thread}
            tables.turns = {key: t for key, t in tables.turns.items() if t.thread != thread}
            tables.steps = {key: s for key, s in tables.steps.items() if key[0] != thread}
            tables.checkpoints = {
                key: c for key, c in tables.checkpoints.items() if c.thread != thread
            }
            tables.questions = {key: q for key, q in tables.questions.items() if q.thread != thread}
            self._forget_speakers(thread, gone)
            self.change(
                thread, settings=ThreadSettings(shelf="deleted"), session_seq=row.next_seq, begins=0
            )
            self.anything()
        return True

    def _forget_speakers(self, thread: str, gone: set[str]) -> None:
        place = self.tables.threads[thread].address
        for person in gone:
            began = any(
                (t.address.channel, t.address.account, self._beginning(t).person)
                == (place.channel, place.account, person)
                for t in self.tables.threads.values()
                if t.id != thread
            )
            if not began:
                self.tables.speakers.pop((place.channel, place.account, person), None)

    async def turn_cost(self, thread: str, turn: str) -> TurnCost:
        opened = self.tables.turns.get(turn)
        if opened is None:
            return TurnCost((), 0, 0, 0.0)
        steps = [
            logged.step
            for (where, _), logged in sorted(self.tables.steps.items())
            if where == thread and logged.turn == turn
        ]
        spent = [paid.usage for paid in self.tables.usage.values() if paid.turn == turn]
        seconds = max(0.0, (self.now - (opened.began or self.now)).total_seconds())
        return TurnCost(
            tuple(steps), sum(one.sent for one in spent), sum(one.output for one in spent), seconds
        )

    async def drafted(self, turn: str) -> OutRow | None:
        drafts = self.open_drafts(turn)
        return await self.post_row(drafts[-1]) if drafts else None

    async def post_row(self, id: str) -> OutRow | None:
        found = self.tables.posts.get(id)
        return None if found is None else self.seen_post(found.row)

    async def prune(self, before: datetime, *, transcripts: datetime | None = None) -> int:
        said = before if transcripts is None else min(before, transcripts)
        with self.transaction() as tables:
            sizes = self._sizes()
            noted = 0
            for letter in list(tables.inbox.values()):
                orphan = (
                    letter.state == "waiting"
                    and letter.kind == "edit"
                    and letter.at < self.now - timedelta(minutes=10)
                )
                if orphan and all(
                    i.message != letter.message or i.kind != "message"
                    for i in self.letters(letter.thread, "waiting")
                ):
                    self.end(letter, "noted", "no message to edit")
                    noted += 1
            over_sessions = {g for g, one in tables.grants.items() if self._over(one)}
            tables.grants = {g: one for g, one in tables.grants.items() if g not in over_sessions}
            noted += len(over_sessions)
            tables.inbox = {
                k: i for k, i in tables.inbox.items() if i.ended_at is None or i.ended_at >= before
            }
            while gone := [
                p
                for p, row in tables.posts.items()
                if row.ended_at is not None and row.ended_at < before and not self._replaced(p)
            ]:
                for post in gone:
                    del tables.posts[post]
            over = {t.id for t in tables.turns.values() if t.ended is not None and t.ended < said}
            tables.steps = {
                k: s for k, s in tables.steps.items() if s.turn not in over or self._of_present(*k)
            }
            tables.questions = {k: q for k, q in tables.questions.items() if q.turn not in over}
            kept = {s.turn for s in tables.steps.values()}
            tables.turns = {k: t for k, t in tables.turns.items() if k not in over or k in kept}
            self.forget_occurrences(before)
            limit = min(before, self.now - timedelta(days=30))
            tables.seen = {k: s for k, s in tables.seen.items() if s.at >= limit}
            noted += sizes - self._sizes()
            for thread in [
                t for t in tables.threads.values() if (t.id, t.begins) not in tables.inbox
            ]:
                left = [
                    k[1] for k, i in tables.inbox.items() if k[0] == thread.id and words(i.arrival)
                ]
                self.change(thread.id, begins=min(left, default=0))
            spoke = {
                k: s
                for k, s in tables.speakers.items()
                if datetime.combine(s.day, time(), UTC) >= before - timedelta(days=1)
            }
            noted += len(tables.speakers) - len(spoke)
            tables.speakers = spoke
            return noted

    def _of_present(self, thread: str, seq: int) -> bool:
        row = self.tables.threads[thread]
        of = [each.session for each in row.settings.stretches if each.begins <= seq]
        known = {each.session for each in row.settings.stretches}
        return seq >= row.session_seq and (
            row.session_seq not in known or of[-1] == row.session_seq
        )

    def _over(self, grant: Grant) -> bool:
        """Given for a session that is no more."""
        thread, dot, session = grant.scope.partition(".")
        return (
            dot == "."
            and thread in self.tables.threads
            and session != str(self.tables.threads[thread].session_seq)
        )

    def _sizes(self) -> int:
        tables = self.tables
        return sum(
            map(
                len,
                (
                    tables.inbox,
                    tables.posts,
                    tables.steps,
                    tables.questions,
                    tables.turns,
                    tables.seen,
                    tables.occurrences,
                ),
            )
        )

    def _replaced(self, post: str) -> bool:
        return any(p.row.row.target == post for p in self.tables.posts.values())

    # reports

    async def counts(self, *, spare: bool = False) -> Counts:
        inbox = Counter(
            (self.tables.threads[i.thread].address.channel, str(i.ending or i.state))
            for i in self.tables.inbox.values()
        )
        outbox = Counter(
            (p.row.row.outbound.address.channel, str(p.row.state))
            for p in self.tables.posts.values()
        )
        oldest: dict[str, datetime] = {}
        for i in self.tables.inbox.values():
            if i.state != "ended":
                channel = self.tables.threads[i.thread].address.channel
                oldest[channel] = min(i.at, oldest.get(channel, i.at))
        turns = Counter(t.state for t in self.tables.turns.values())
        return Counts(
            inbox,
            outbox,
            min(oldest.values(), default=None),
            turns["running"],
            turns["parked"],
            oldest,
        )

    def _thread_info(self, row: Thread) -> ThreadInfo:
        held = row.owner is not None and row.until is not None and row.until > self.now
        state: Literal["idle", "ready", "running", "parked"] = (
            "running" if held else "idle" if row.ready_at is None else "ready"
        )
        return ThreadInfo(
            row.id,
            row.address,
            row.scope,
            row.settings.title,
            row.session_seq,
            row.last_at,
            "parked" if self.parked(row.id) else state,
            row.settings,
            self._beginning(row),
        )

    def _beginning(self, row: Thread) -> Beginning:
        said = self.tables.inbox.get((row.id, row.begins))
        if said is None:
            return Beginning()
        person = said.person if isinstance(said.arrival, Inbound) else ""
        known = self.tables.speakers.get((row.address.channel, row.address.account, person))
        return Beginning(words(said.arrival), person, known.name if known else "")

    async def threads(
        self,
        *,
        limit: int = 100,
        channel: str | None = None,
        after: Spot | None = None,
        shelf: Shelf | None = None,
    ) -> list[ThreadInfo]:
        rows = [
            t
            for t in self.tables.threads.values()
            if channel in (None, t.address.channel) and t.last_at is not None
        ]
        rows = [t for t in rows if shelf in (None, t.settings.shelf or "open")]
        infos = sorted((self._thread_info(t) for t in rows), key=_place)
        return [info for info in infos if after is None or _place(info) > _order(after)][:limit]

    async def free_threads(self) -> list[ThreadInfo]:
        rows = [
            t
            for t in self.tables.threads.values()
            if t.settings.mode == "full_auto" and t.settings.free_until is not None
        ]
        return sorted((self._thread_info(t) for t in rows), key=lambda info: info.thread)

    async def thread(self, thread: str) -> ThreadInfo | None:
        row = self.tables.threads.get(thread)
        return None if row is None else self._thread_info(row)

    async def threads_of(self, threads: Collection[str]) -> dict[str, ThreadInfo]:
        found = {thread: await self.thread(thread) for thread in threads}
        return {thread: info for thread, info in found.items() if info is not None}

    async def find_thread(self, address: Address, person_scope: str = "") -> str | None:
        return next(
            (
                t.id
                for t in self.tables.threads.values()
                if (t.address, t.scope) == (address, person_scope)
            ),
            None,
        )

    def _arrival_info(self, i: Letter) -> ArrivalInfo:
        state: Literal["waiting", "taken", "ended"] = (
            "ended" if i.state == "ended" else "taken" if i.state == "taken" else "waiting"
        )
        return ArrivalInfo(
            i.thread,
            i.seq,
            i.kind,
            i.person,
            i.said_at,
            state,
            i.ending,
            i.reason,
            i.turn,
            i.arrival,
            i.at,
            i.ended_at,
        )

    async def last_delivery(self, channel: str, account: str) -> datetime | None:
        there = [
            p
            for p in self.tables.posts.values()
            if p.row.state == "sent" and p.ended_at is not None
        ]
        places = ((p.row.row.outbound.address, p.ended_at) for p in there)
        return max(
            (
                at
                for place, at in places
                if at is not None and (place.channel, place.account) == (channel, account)
            ),
            default=None,
        )

    async def arrival(self, thread: str, seq: int) -> ArrivalInfo | None:
        found = self.tables.inbox.get((thread, seq))
        return None if found is None else self._arrival_info(found)

    async def history(
        self, thread: str, *, since: int = 0, limit: int = 500, before: int | None = None
    ) -> list[HistoryItem]:
        found: list[HistoryItem] = [
            self._arrival_info(i) for i in self.tables.inbox.values() if i.thread == thread
        ]
        found += [
            StepInfo(seq, s.turn, s.at, s.step)
            for (where, seq), s in self.tables.steps.items()
            if where == thread
        ]
        found += [
            self.seen_post(p.row) for p in self.tables.posts.values() if p.row.thread == thread
        ]
        chosen = sorted(
            (item for item in found if since < item.seq and (before is None or item.seq < before)),
            key=lambda item: item.seq,
        )
        return chosen[:limit] if before is None else chosen[max(0, len(chosen) - limit) :]

    async def sessions(self, thread: str) -> list[SessionInfo]:
        row = self.tables.threads.get(thread)
        if row is None:
            return []
        found: dict[int, SessionInfo] = {}
        for (where, seq), logged in sorted(self.tables.steps.items()):
            of = [each.session for each in row.settings.stretches if each.begins <= seq]
            if where != thread or not of or of[-1] == NO_SESSION:
                continue
            session = of[-1]
            step = logged.step
            words = ""
            if isinstance(step, UserStep) and step.source in ("message", "wake"):
                words = " ".join([b.text for b in step.blocks if isinstance(b, Text)][-1:])
            known = found.get(session, SessionInfo(session, "", logged.at))
            words = known.words or " ".join(words.split())[:200]
            found[session] = SessionInfo(session, words, logged.at)
        spoken = [one for one in found.values() if one.words and one.session != row.session_seq]
        return sorted(spoken, key=lambda one: (one.last, one.session), reverse=True)

    async def inbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[ArrivalInfo]:
        found = [
            self._arrival_info(i)
            for i in self.tables.inbox.values()
            if state in (None, i.state, i.ending)
        ]
        return [
            info
            for info in sorted(found, key=_place)
            if after is None or _place(info) > _order(after)
        ][:limit]

    async def outbox(
        self, *, state: str | None = None, limit: int = 100, after: Spot | None = None
    ) -> list[OutRow]:
        found = [
            self.seen_post(p.row)
            for p in self.tables.posts.values()
            if state in (None, p.row.state)
        ]
        return [
            row for row in sorted(found, key=_place) if after is None or _place(row) > _order(after)
        ][:limit]

    async def posts(self, ids: Sequence[str]) -> list[OutRow]:
        return [
            self.seen_post(self.tables.posts[one].row) for one in ids if one in self.tables.posts
        ]

    async def audit_report(self) -> AuditReport:
        endings = Counter(str(i.ending) for i in self.tables.inbox.values() if i.ending is not None)
        states = Counter(i.state for i in self.tables.inbox.values())
        posts = Counter(str(p.row.state) for p in self.tables.posts.values())
        return AuditReport(
            len(self.tables.inbox), endings, states["waiting"], states["taken"], posts, ()
        )


def _order(spot: Spot) -> tuple[int, int, str, int]:
    return spot.group, -spot.at, spot.id, -spot.seq


def _place(item: ThreadInfo | ArrivalInfo | OutRow) -> tuple[int, int, str, int]:
    return _order(spot_of(item))
