"""The model's words that were overheard, its unreadable rows, and its clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from channels.contract import Edited, Inbound, MessageId, Reacted
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.messages import UserStep
from ohmo.contracts.turns import BY_A_BOT, NOT_ADDRESSED
from ohmo.store.inbox_claim import OWN, own_words
from ohmo.store.outbox import receipts
from ohmo.store.threads import thread_id
from tests.store_model.tables import Letter, Model


class ModelContext(Model):
    def overheard(
        self, thread: str, turn: str, before: int, first: Arrival
    ) -> list[Inbound | Reacted]:
        if not isinstance(first, Inbound):
            return []
        found = self._overheard_in(thread, turn, before)
        topic = first.address.topic
        if topic is None:
            return found
        above = thread_id(replace(first.address, topic=None), self.tables.threads[thread].scope)
        if topic == first.message:
            return (
                [*self._overheard_in(above, turn, self.tables.threads[above].next_seq), *found]
                if above in self.tables.threads
                else found
            )
        begun = any(
            where == thread and isinstance(one.step, UserStep)
            for (where, _), one in self.tables.steps.items()
        )
        return found if begun else [*self._root(above, topic), *found]

    def _root(self, above: str, topic: str) -> list[Inbound | Reacted]:
        roots = [
            i
            for i in self.tables.inbox.values()
            if (i.thread, i.message, i.kind) == (above, topic, "message")
            and (
                i.ending in ("answered", "merged")
                or (i.ending == "noted" and i.reason in (NOT_ADDRESSED, BY_A_BOT))
            )
        ]
        if roots:
            arrival = self._as_it_stands(max(roots, key=lambda i: i.seq))
            return [arrival] if arrival is not None else []
        said = [
            one.row
            for one in self.tables.posts.values()
            if one.row.thread == above and one.row.row.kind != "draft" and one.row.state == "sent"
        ]
        for row in sorted(said, key=lambda one: -one.seq)[:OWN]:
            if any(receipt.message == topic for receipt in receipts(row.parts)):
                return [own_words(row.row.outbound, MessageId(topic), row.started)]
        return []

    def _overheard_in(self, thread: str, turn: str, before: int) -> list[Inbound | Reacted]:
        fresh = [
            i
            for i in self.tables.inbox.values()
            if i.thread == thread
            and before - 400 < i.seq < before
            and i.ending == "noted"
            and i.turn is None
            and (i.kind == "reaction" or (i.kind == "message" and i.reason == NOT_ADDRESSED))
        ]
        young = sorted(
            (i for i in fresh if i.said_at >= self.now - timedelta(hours=24)), key=lambda i: i.seq
        )[-50:]
        if young:
            for letter in fresh:
                self.tables.inbox[thread, letter.seq] = replace(letter, turn=turn)
        return [arrival for letter in young if (arrival := self._as_it_stands(letter)) is not None]

    def _as_it_stands(self, letter: Letter) -> Inbound | Reacted | None:
        edits = [
            i
            for i in self.tables.inbox.values()
            if (i.thread, i.message, i.kind) == (letter.thread, letter.message, "edit")
            and i.message
        ]
        if isinstance(letter.arrival, Reacted):
            return letter.arrival
        if not isinstance(letter.arrival, Inbound):
            return None
        if not edits:
            return letter.arrival
        newest = max(edits, key=lambda i: (i.sort.encode("utf-8", "surrogatepass"), i.seq)).arrival
        assert isinstance(newest, Edited)
        return None if newest.text is None else replace(letter.arrival, text=newest.text)

    def revised(self, letter: Letter, turn: str | None = None) -> Arrival | None:
        """With the newest edit that waits, or that ``turn`` merged; None: deleted."""
        edits = [
            i
            for i in self.tables.inbox.values()
            if (i.thread, i.message, i.kind) == (letter.thread, letter.message, "edit")
            and letter.message
            and (i.state == "waiting" if turn is None else i.turn == turn)
        ]
        if not edits:
            return letter.arrival
        newest = max(edits, key=lambda i: (i.sort, i.seq)).arrival
        if turn is None:
            return self._apply(letter.arrival, newest)
        return self._apply(letter.arrival, newest) or letter.arrival

    def _apply(self, arrival: Arrival, edit: Arrival) -> Arrival | None:
        assert isinstance(edit, Edited)
        if edit.text is None:
            return None
        return (
            replace(arrival, text=edit.text) if isinstance(arrival, Inbound | Edited) else arrival
        )

    def await_album(self, thread: str) -> None:
        """Ready when all parts of the head's album are."""
        heads = self.waiting(thread)
        ready_at = self.tables.threads[thread].ready_at
        if heads and heads[0].album and ready_at is not None:
            self.change(
                thread,
                ready_at=max(ready_at, *(i.ready_at for i in heads if i.album == heads[0].album)),
            )

    async def rebase(self, seconds: float | None) -> float:
        if seconds is None:
            newest = max(
                (t.last_at for t in self.tables.threads.values() if t.last_at is not None),
                default=self.now,
            )
            seconds = (
                (self.now - newest).total_seconds()
                if newest - self.now > timedelta(minutes=5)
                else 0.0
            )
        by = timedelta(seconds=seconds)
        with self.transaction() as tables:
            for t in list(tables.threads.values()):
                self.change(
                    t.id, ready_at=t.ready_at and t.ready_at + by, until=t.until and t.until + by
                )
                if by and t.last_at is not None and t.last_at - self.now > timedelta(minutes=5):
                    self.change(t.id, last_at=self.now)
            for key, i in tables.inbox.items():
                tables.inbox[key] = (
                    replace(i, ready_at=i.ready_at + by) if i.state == "waiting" else i
                )
            for key, q in tables.questions.items():
                tables.questions[key] = (
                    replace(q, deadline=q.deadline + by)
                    if q.state == "asked" and q.deadline is not None
                    else q
                )
            for key, posted in tables.posts.items():
                row = posted.row
                if row.state in ("ready", "sending"):
                    tables.posts[key] = replace(
                        posted,
                        row=replace(row, ready_at=row.ready_at + by, expires=row.expires + by),
                    )
            for key, person in tables.people.items():
                tables.people[key] = (
                    replace(person, expires=person.expires + by)
                    if person.expires is not None
                    else person
                )
            for key, (owner, until, generation) in tables.leases.items():
                tables.leases[key] = (owner, until + by if until.year > 1 else until, generation)
            if by:
                self.anything()
        return by.total_seconds()
