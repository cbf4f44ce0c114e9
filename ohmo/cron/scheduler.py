"""Sleeps until the next slot of any job and claims it with its wake; what came due while nobody was
awake is caught up or recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

import structlog

from channels.contract import Clock
from channels.errors import Unavailable
from channels.record import record
from ohmo.ambient import Failpoint
from ohmo.contracts.cron import JobRow, Jobs, OccurrenceRow, Passed
from ohmo.contracts.errors import StoreError
from ohmo.contracts.store import Hint
from ohmo.cron.desk import CronDesk, Publish
from ohmo.cron.reporting import Incidents
from ohmo.cron.spec import when_words
from ohmo.cron.times import after, unreadable
from ohmo.cron.wakes import NEVER, CatchingUp, Verdict, begins, coalesced, full, wake_of
from ohmo.lifecycle import within

log = structlog.get_logger("ohmo.cron")
JUMP = 5.0  # seconds the wall clock may differ from the steady one before it counts as set
QUEUED = 10  # runs of one job that may wait behind each other
LATELY = timedelta(minutes=10)  # for so long a run that began late is told as lag
AGAIN = 1.0  # seconds until a store that was away is asked again
Alarm = Callable[[datetime | None, asyncio.Event], Awaitable[None]]
"""Returns at ``until`` (None: never) or when the event is set, whichever comes first; it may return
earlier, and is asked again then."""
# seconds: a clock that was set, or a machine that slept, is noticed after so long at the latest
LOOK = 60.0


class WallAlarm:
    """Over the timers of the event loop, which know nothing of a wall clock that is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def __call__(self, until: datetime | None, changed: asyncio.Event) -> None:
        wait = LOOK if until is None else min(LOOK, (until - self._clock()).total_seconds())
        if wait > 0:
            with suppress(TimeoutError):
                await within(wait, changed.wait())


@record
class SchedulerParts:
    """What a scheduler is built from."""

    jobs: Jobs
    desk: CronDesk
    publish: Publish
    incidents: Incidents
    listen: Callable[[Callable[[Sequence[Hint]], None]], Callable[[], None]]  # as the store's
    alarm: Alarm
    clock: Clock
    failpoint: Failpoint
    # once, before the first look: the jobs of the configuration
    prepare: Callable[[], Awaitable[None]]
    steady: Callable[[], float] = time.monotonic  # seconds of a clock that nobody sets


class Scheduler:
    """One for each instance: several over one store claim each slot once, because a slot moves the
    job on in the transaction of its claim."""

    def __init__(self, parts: SchedulerParts) -> None:
        self._parts = parts
        self._changed = asyncio.Event()
        self._looked = (NEVER, 0.0)  # the wall clock and the steady one at the last look
        self._catching_up = CatchingUp()
        self._claimed: set[tuple[str, datetime]] | None = None
        self._over: list[str] = []  # jobs whose runs are to be looked at
        self._lag = 0.0
        self._lagged = NEVER
        self._next: datetime | None = None

    def report(self) -> dict[str, int | float | str | None]:
        """For the status: how late a run of the last minutes began, or how late one is that is due
        now; and when the next begins."""
        now = self._parts.clock()
        overdue = 0.0 if self._next is None else (now - self._next).total_seconds()
        lag = self._lag if now - self._lagged < LATELY else 0.0
        return {
            "lag_seconds": round(max(lag, overdue, 0.0), 3),
            "next": None if self._next is None else self._next.isoformat(),
        }

    async def run(self) -> None:
        """Until cancelled. Begun again after a failure it goes on: what came due meanwhile is on
        time."""
        stop_hearing = self._parts.listen(self._hear)
        self._claimed = None
        prepared = False
        try:
            while True:
                self._changed.clear()
                try:
                    if not prepared:
                        await self._parts.prepare()
                        prepared = True
                    until = await self._round()
                except (Unavailable, StoreError) as error:
                    log.error("store_unavailable", doing="cron", error=str(error))
                    await asyncio.sleep(AGAIN)
                    continue
                await self._parts.alarm(until, self._changed)
        finally:
            stop_hearing()

    def began(self, job: str, due: datetime) -> None:
        """A run was begun: its end is looked for from here on, however soon it comes."""
        if self._claimed is not None:  # at the first look everybody's runs are looked at
            self._claimed.add((job, due))
            self._changed.set()

    def look_again(self) -> None:
        """The clock is another one now."""
        self._changed.set()

    def _hear(self, hints: Sequence[Hint]) -> None:
        if any(hint.kind in ("job", "any") for hint in hints):
            self._changed.set()

    async def _round(self) -> datetime | None:
        """One look at everything; when to look again."""
        parts = self._parts
        now = parts.clock()
        steady = parts.steady()
        # A job that means no time any more holds up no other: paused, and the owner hears why.
        rows: list[JobRow] = []
        for row in await parts.jobs.jobs():
            why = unreadable(row.body) if row.enabled else ""
            if why:
                await parts.incidents.paused(row, why)
                stopped = replace(row, enabled=False, next_at=None, revision=row.revision + 1)
                await parts.jobs.save_job(stopped, over=row.revision)
            else:
                rows.append(row)
        # At the start, and when the wall clock went another way than the steady one: it was set, or
        # the machine slept.
        last_now, last_steady = self._looked
        jumped = True
        if last_now is not NEVER:
            passed = (now - last_now).total_seconds()
            jumped = abs(passed - (steady - last_steady)) > JUMP
        if jumped:
            rows = await self._rebase(rows, now)
        # not before everything is computed afresh: a store that was away meanwhile is asked again
        self._looked = (now, steady)
        claimed = await parts.jobs.claimed()
        # Whose runs came to an end since the last look; at the first one: everybody's.
        present = {(run.job, run.due) for run in claimed}
        if self._claimed is None:
            over = {row.job for row in rows}
        else:
            over = {job for job, _ in self._claimed - present}
        self._claimed = present
        self._over += [job for job in sorted(over) if job not in self._over]
        times = await self._fire_due(rows, claimed, now)
        coming: list[datetime] = []
        for row in rows:
            if row.enabled and row.next_at is not None:
                at = begins(row, row.next_at)
                if at > now:
                    coming.append(at)
        self._next = min(coming, default=None)
        times += await self._review(rows, min(times, default=None))
        for job, due in await parts.incidents.retry(now):
            self.began(job, due)
        retry = parts.incidents.next_try
        if retry is not None:
            times.append(retry)
        return min(times, default=None)

    async def _fire_due(
        self, rows: Sequence[JobRow], claimed: Sequence[OccurrenceRow], now: datetime
    ) -> list[datetime]:
        """When to look again. What is due on time is claimed first and at once: one commit does for
        all of it."""
        times: list[datetime] = []
        late: list[tuple[JobRow, datetime]] = []
        on_time: list[tuple[JobRow, datetime]] = []
        for row in rows:
            if not row.enabled or row.next_at is None:
                continue
            at = begins(row, row.next_at)
            if at > now:
                times.append(at)
            elif self._catching_up.late(row, row.next_at):
                late.append((row, row.next_at))
            else:
                on_time.append((row, row.next_at))
        fires = [
            self._fire(row, due, [run for run in claimed if run.job == row.job], "schedule", now)
            for row, due in on_time
        ]
        for outcome in await asyncio.gather(*fires, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            times.append(outcome)
        verdicts: dict[str, Verdict] = {}
        missed: list[tuple[JobRow, Sequence[Passed]]] = []
        for row, due in late:
            if not self._catching_up.admitted(row, due):
                verdict = self._catching_up.judged(row, now)
                verdicts[row.job] = verdict
                missed.append((row, verdict.passed))
        await self._parts.incidents.missed(missed)
        for row, due in late:
            again = await self._due(row, due, verdicts.get(row.job), claimed, now)
            if again is not None:
                times.append(again)
        return times

    async def _review(self, rows: Sequence[JobRow], until: datetime | None) -> list[datetime]:
        """Runs that ended may begin or end an incident; all but one of them wait when a slot comes
        meanwhile."""
        row_of = {row.job: row for row in rows}
        while self._over:
            row = row_of.get(self._over[0])
            if row is not None:
                await self._parts.incidents.review(row)
            del self._over[0]
            now = self._parts.clock()
            if self._over and until is not None and until <= now:
                return [now]
        return []

    async def _rebase(self, rows: Sequence[JobRow], now: datetime) -> list[JobRow]:
        """From here on slots are on time. What lies ahead is computed afresh: the zone's rules may
        be others, the clock may have gone back."""
        self._catching_up.awake(now)
        log.info("cron_awake", jobs=len(rows))
        rebased: list[JobRow] = []
        for row in rows:
            if not row.enabled or row.next_at is None or row.next_at <= now:
                rebased.append(row)  # it is late, and judged elsewhere
                continue
            runs = await self._parts.jobs.occurrences(row.job, limit=1_000)
            happened = {run.due for run in runs if run.state not in ("skipped", "missed")}
            fresh = after(row.body, now)
            while fresh is not None and fresh in happened:
                fresh = after(row.body, fresh)
            if fresh == row.next_at:
                fresh = None  # the row is right
            if fresh is not None and await self._parts.jobs.rebase_job(row, fresh):
                if fresh < row.next_at:
                    self._catching_up.set_back(row, row.next_at)
                rebased.append(replace(row, next_at=fresh))
            else:
                rebased.append(row)
        self._catching_up.spread(rebased, now)
        return rebased

    async def _due(
        self,
        row: JobRow,
        due: datetime,
        judged: Verdict | None,
        claimed: Sequence[OccurrenceRow],
        now: datetime,
    ) -> datetime | None:
        """A slot that came while nobody was awake: caught up or passed over. ``judged`` None: it is
        admitted. When to look again, None: when something changes."""
        runs = [run for run in claimed if run.job == row.job]
        if judged is not None and judged.run != due:
            if judged.run is not None:
                self._catching_up.admit(row, judged.run, now)
            await self._parts.jobs.pass_over(row, judged.passed, judged.next_at)
            return now
        begin = self._catching_up.admit(row, due, now)
        ahead = self._catching_up.present(row, due)
        if ahead is not None and ahead <= now:
            if row.body.spec.catch_up == "once":
                following = after(row.body, due)
                assert following is not None  # ``ahead`` is when it begins
                passed = [coalesced(row.body, due, following)]
                await self._parts.jobs.pass_over(row, passed, following)
                return now
            begin = now
        if begin > now:
            return begin if ahead is None else min(begin, ahead)
        if full(claimed) or (runs and row.body.spec.overlap == "skip"):
            return ahead if ahead is not None and ahead > now else None
        return await self._fire(row, due, runs, "catch_up", now)

    async def _fire(
        self,
        row: JobRow,
        due: datetime,
        runs: Sequence[OccurrenceRow],
        by: Literal["schedule", "catch_up"],
        now: datetime,
    ) -> datetime:
        parts = self._parts
        spec = row.body.spec
        following = after(row.body, due)
        if runs and (spec.overlap == "skip" or len(runs) >= QUEUED):
            if spec.overlap == "queue":
                why = f"{len(runs)} runs wait or run already"
                passed = Passed(due=due, state="skipped", cause="queue_full", reason=why)
            else:
                why = f"the run of {when_words(runs[0].due, spec.tz)} had not ended"
                passed = Passed(due=due, state="skipped", cause="overlap", reason=why)
            await parts.jobs.pass_over(row, [passed], following)
            return now
        last = await parts.desk.last_report(row)
        wake = wake_of(row, due, by=by, following=following, last=last, now=now)
        accepted = await parts.publish(wake)
        if not accepted.duplicate:
            self.began(row.job, due)
            parts.failpoint("cron.claimed")
            late = (parts.clock() - begins(row, due)).total_seconds()
            if by == "schedule":
                self._lag = max(0.0, late)
                self._lagged = parts.clock()
            log.info("cron_claimed", job=row.name, due=due.isoformat(), late=round(late, 3), by=by)
        else:
            # The slot was written before (the clock was set back): the job goes on.
            await parts.jobs.pass_over(row, (), following)
        self._catching_up.done(row, due)
        return now
