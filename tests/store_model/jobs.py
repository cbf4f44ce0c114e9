"""The model's jobs and occurrences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ohmo.contracts.arrivals import Arrival, Occurrence, Wake
from ohmo.contracts.cron import Cause, JobRow, OccurrenceRow, Passed, Report
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import Claim
from ohmo.store.cron_jobs import REMOVED, ended_as
from tests.store_model.context import ModelContext


class ModelJobs(ModelContext):
    async def jobs(self) -> list[JobRow]:
        return sorted(self.tables.jobs.values(), key=lambda row: row.name)

    async def save_job(self, row: JobRow, *, over: int | None = None) -> bool:
        known = self.tables.jobs.get(row.job)
        taken = known is not None or any(
            other.name == row.name for other in self.tables.jobs.values()
        )
        if taken if over is None else known is None or known.revision != over:
            return False
        with self.transaction() as tables:
            tables.jobs[row.job] = row
            self.hint_job()
        return True

    async def remove_job(self, job: str) -> bool:
        if job not in self.tables.jobs:
            return False
        with self.transaction() as tables:
            for one in [
                row
                for row in tables.occurrences.values()
                if row.job == job and row.state == "claimed"
            ]:
                letter = tables.inbox.get((one.thread or "", one.seq or 0))
                if letter is not None and letter.state == "waiting":
                    self.end(letter, "stopped", REMOVED)
                    self.settle(letter.thread, Report(REMOVED, failed=True, cause="removed"))
            del tables.jobs[job]
            self.hint_job()
        return True

    def _is_present(self, row: JobRow) -> bool:
        known = self.tables.jobs.get(row.job)
        return (
            known is not None
            and row.next_at is not None
            and (known.revision, known.next_at) == (row.revision, row.next_at)
        )

    async def pass_over(
        self, row: JobRow, passed: Sequence[Passed], next_at: datetime | None
    ) -> bool:
        if not self._is_present(row):
            return False
        with self.transaction() as tables:
            tables.jobs[row.job] = replace(tables.jobs[row.job], next_at=next_at)
            for one in passed:
                new = OccurrenceRow(
                    row.job,
                    one.due,
                    one.state,
                    one.reason,
                    at=self.now,
                    ended=self.now,
                    cause=one.cause,
                )
                tables.occurrences.setdefault((row.job, one.due), new)
            self.hint_job()
        return True

    async def rebase_job(self, row: JobRow, next_at: datetime | None) -> bool:
        if not self._is_present(row):
            return False
        with self.transaction() as tables:
            tables.jobs[row.job] = replace(tables.jobs[row.job], next_at=next_at)
            for key, one in list(tables.occurrences.items()):
                if one.job == row.job and one.due > self.now and one.state in ("skipped", "missed"):
                    del tables.occurrences[key]
            self.hint_job()
        return True

    def claim_occurrence(self, occurrence: Occurrence, thread: str, seq: int) -> bool:
        job, key = self.tables.jobs.get(occurrence.job), (occurrence.job, occurrence.due)
        if occurrence.revision:
            if job is None:
                return False
            if occurrence.by != "hand":
                if (job.revision, job.next_at) != (occurrence.revision, occurrence.due):
                    return False
                self.tables.jobs[job.job] = replace(job, next_at=occurrence.following)
        self.hint_job()
        if key in self.tables.occurrences:
            return False
        causes: dict[str, tuple[Cause, str]] = {
            "catch_up": ("caught_up", "caught up"),
            "hand": ("by_hand", "run by hand"),
        }
        cause, reason = causes.get(occurrence.by, (None, None))
        self.tables.occurrences[key] = OccurrenceRow(
            *key, "claimed", reason, at=self.now, thread=thread, seq=seq, cause=cause
        )
        if occurrence.fresh and self.open_turn(thread) is None:
            self.change(thread, session_seq=seq)
        return True

    def claim_again(self, arrival: Arrival, seq: int) -> None:
        occurrence = arrival.occurrence if isinstance(arrival, Wake) else None
        row = (
            self.tables.occurrences.get((occurrence.job, occurrence.due))
            if occurrence is not None
            else None
        )
        if row is not None and row.state == "failed":
            again = replace(
                row, state="claimed", cause=None, seq=seq, ended=None, attempts=row.attempts + 1
            )
            self.tables.occurrences[row.job, row.due] = again
            self.hint_job()

    async def bury(self, claim: Claim, reason: str, posts: Sequence[PostRow]) -> bool:
        self.must_hold(claim)
        opened, heads = self.open_turn(claim.thread), self.waiting(claim.thread)
        running = opened is not None and opened.state == "running"
        if not running and not heads:
            return False
        with self.transaction() as tables:
            if opened is not None and running:
                for letter in self.taken(opened.id):
                    self.end(letter, "dead", reason)
                tables.turns[opened.id] = replace(opened, state="failed", ended=self.now)
            else:
                album = heads[0].album
                for letter in [i for i in heads if i is heads[0] or (album and i.album == album)]:
                    self.end(letter, "dead", reason)
            self.say(posts, None, claim.thread)
            self.settle(claim.thread, Report(reason, failed=True))
            self.give_back(claim.thread)
        return True

    def settle(self, thread: str, report: Report | None) -> None:
        if report is None:
            return
        for key, row in list(self.tables.occurrences.items()):
            letter = (
                self.tables.inbox.get((thread, row.seq or 0))
                if (row.thread, row.state) == (thread, "claimed")
                else None
            )
            if letter is None or letter.state != "ended":
                continue
            turn = self.tables.turns.get(letter.turn or "")
            self.tables.occurrences[key] = replace(
                row,
                state=ended_as(str(letter.ending), report),
                cause=report.cause or row.cause,
                reason=report.reason or letter.reason or row.reason,
                turn=letter.turn,
                started=turn.began if turn is not None else None,
                ended=self.now,
                preview=report.preview or None,
                digest=report.digest or None,
            )
            self.hint_job()

    def _seen_occurrence(self, row: OccurrenceRow) -> OccurrenceRow:
        letter = self.tables.inbox.get((row.thread or "", row.seq or 0))
        turn = self.tables.turns.get(letter.turn or "") if letter is not None else None
        if letter is None:
            return row
        return replace(
            row,
            turn=row.turn or letter.turn,
            started=row.started or (turn.began if turn is not None else None),
        )

    async def occurrences(self, job: str, *, limit: int = 50) -> list[OccurrenceRow]:
        found = sorted(
            (row for row in self.tables.occurrences.values() if row.job == job),
            key=lambda row: row.due,
            reverse=True,
        )
        return [self._seen_occurrence(row) for row in found[:limit]]

    async def claimed(self) -> list[OccurrenceRow]:
        found = [row for row in self.tables.occurrences.values() if row.state == "claimed"]
        return [
            self._seen_occurrence(row) for row in sorted(found, key=lambda row: (row.job, row.due))
        ]

    def forget_occurrences(self, before: datetime) -> None:
        last: dict[str, datetime] = {}
        for row in self.tables.occurrences.values():
            if row.state == "done":
                last[row.job] = max(row.due, last.get(row.job, row.due))
        kept = {
            key: row
            for key, row in self.tables.occurrences.items()
            if row.state == "claimed"
            or row.at is None
            or row.at >= before
            or (row.state == "done" and row.due == last[row.job])
        }
        self.tables.occurrences = kept
