"""What came due while nobody was awake: which of it still runs, which is passed over, and when each
run may start, so that a start is no storm."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from channels.record import record
from ohmo.contracts.cron import JobBody, JobRow, OccurrenceRow, Passed
from ohmo.cron.spec import when_words
from ohmo.cron.times import after, period

SPREAD = timedelta(minutes=10)  # over which runs are caught up
AT_ONCE = 2  # of them
NEVER = datetime.max.replace(tzinfo=UTC)
GRACE = timedelta(hours=2)
MOST = 1_000  # slots that are recorded one by one
CAUGHT_UP = 100  # slots that ``catch_up: all`` runs


@record
class Verdict:
    """What becomes of the slots of a job that came due while nobody was awake."""

    passed: tuple[Passed, ...]  # are recorded
    run: datetime | None  # is caught up, None: nothing is
    next_at: datetime | None  # the job goes on there: ``run``, or the first slot that is not late


def grace(body: JobBody, due: datetime) -> timedelta:
    """How late a run still makes sense: half the time to the next one, at most two hours."""
    distance = period(body, due)
    return GRACE if distance is None else min(distance / 2, GRACE)


def slots(
    body: JobBody, first: datetime, before: datetime
) -> tuple[list[datetime], datetime | None]:
    """The slots from ``first`` on that lie before ``before``, the newest MOST of them; and the
    first that does not."""
    if body.spec.every is not None:  # how many there are is known without counting
        distance = timedelta(seconds=body.spec.every)
        skipped = max(0, (before - first) // distance - MOST)
        return _walk(body, first + skipped * distance, before)
    back = MOST * (period(body, first) or before - first)
    # A year of minutes is not walked through: only its end, further and further back until there
    # are enough.
    while before - back > first:
        found, following = _walk(body, after(body, before - back), before)
        if len(found) >= MOST:
            return found[-MOST:], following
        back *= 2
    found, following = _walk(body, first, before)
    return found[-MOST:], following


def _walk(
    body: JobBody, first: datetime | None, before: datetime
) -> tuple[list[datetime], datetime | None]:
    found: list[datetime] = []
    at = first
    while at is not None and at < before:
        found.append(at)
        at = after(body, at)
    return found, at


def judge(body: JobBody, first: datetime, awake: datetime, now: datetime) -> Verdict:
    """``first`` and what follows it came due before ``awake``, when the scheduler began to look;
    ``now``: how late they are."""
    late, following = slots(body, first, awake)
    policy = body.spec.catch_up
    if policy == "all":
        run = late[-CAUGHT_UP:]
        missed = Passed(first, "missed", "too_many", f"more than {CAUGHT_UP} runs were missed")
        return Verdict(_each(body, missed, late[: -len(run)]), run[0], run[0])
    if policy == "none":
        missed = Passed(first, "missed", "not_running", "ohmo was not running")
        return Verdict(_each(body, missed, late), None, following)
    newest = late[-1]
    allowed = grace(body, newest)
    if now - newest > allowed:
        behind = f"it came {_span(now - newest)} late, more than {_span(allowed)}"
        missed = Passed(first, "missed", "too_late", f"ohmo was not running; {behind}")
        return Verdict(_each(body, missed, late), None, following)
    return Verdict(_each(body, coalesced(body, first, newest), late[:-1]), newest, newest)


def coalesced(body: JobBody, due: datetime, into: datetime) -> Passed:
    """A slot for which a later one runs."""
    run = when_words(into, body.spec.tz)
    return Passed(due, "skipped", "coalesced", f"coalesced into the run of {run}")


def _each(body: JobBody, like: Passed, late: list[datetime]) -> tuple[Passed, ...]:
    """``like`` for each of these slots; the first one stands for all before them that are too many
    to be written."""
    passed = [replace(like, due=due) for due in late]
    if passed and passed[0].due != like.due:
        until = when_words(passed[0].due, body.spec.tz)
        passed.insert(
            0, replace(like, reason=f"{like.reason}; and every slot from here to {until}")
        )
    return tuple(passed)


def _span(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    if minutes < 1:
        return f"{span.total_seconds():.1f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


class CatchingUp:
    """Of one scheduler, from the moment on at which it is ``awake``: slots since then are on time,
    however busy this machine is."""

    def __init__(self) -> None:
        self._awake = NEVER
        self._not_before: dict[
            tuple[str, datetime], datetime
        ] = {}  # of each slot that is caught up
        # when the next of them may start; between their starts
        self._next = NEVER
        self._spacing = timedelta()
        # (job, its revision) -> what lay ahead when the clock was set back: all before was dealt
        # with
        self._dealt: dict[tuple[str, int], datetime] = {}

    def awake(self, now: datetime) -> None:
        """At the start, and whenever the clock was set or the machine slept."""
        self._awake = now
        self._not_before.clear()

    def set_back(self, row: JobRow, ahead: datetime) -> None:
        """The clock was: ``ahead``, the job's next slot until now, comes once more, and so do
        others before it."""
        key = (row.job, row.revision)
        self._dealt[key] = max(ahead, self._dealt.get(key, ahead))

    def spread(self, rows: Sequence[JobRow], now: datetime) -> None:
        """The runs that are to be caught up begin one after the other."""
        late = [
            row
            for row in rows
            if row.enabled and row.next_at is not None and self.late(row, row.next_at)
        ]
        runs = [
            (row, judged.run) for row in late if (judged := self.judged(row, now)).run is not None
        ]
        count = sum(
            len(slots(row.body, run, self._awake)[0]) if row.body.spec.catch_up == "all" else 1
            for row, run in runs
        )
        self._spacing, self._next = (SPREAD / count if count > AT_ONCE else timedelta()), now
        for row, run in runs:
            self.admit(row, run, now)

    def late(self, row: JobRow, due: datetime) -> bool:
        return begins(row, due) < self._awake

    def judged(self, row: JobRow, now: datetime) -> Verdict:
        """Of a job whose next slot is late."""
        assert row.next_at is not None
        awake = self._awake - timedelta(seconds=_jitter(row, row.next_at))
        dealt = self._dealt.get((row.job, row.revision))
        if (
            dealt is not None and dealt > row.next_at
        ):  # the clock was back and is right again: what it went through twice was not missed
            if dealt >= awake:
                return Verdict((), None, dealt)
            return judge(row.body, dealt, awake, now)
        return judge(
            row.body, row.next_at, max(awake, row.next_at + timedelta(microseconds=1)), now
        )

    def admit(self, row: JobRow, due: datetime, now: datetime) -> datetime:
        """This slot runs, and may start then; asked again, the answer stays."""
        if not self.admitted(row, due):
            self._not_before[row.job, due] = begin = max(now, self._next)
            self._next = begin + self._spacing
        return self._not_before[row.job, due]

    def admitted(self, row: JobRow, due: datetime) -> bool:
        return (row.job, due) in self._not_before

    def done(self, row: JobRow, due: datetime) -> None:
        """It was claimed; also of one that was not late."""
        self._not_before.pop((row.job, due), None)

    def present(self, row: JobRow, due: datetime) -> datetime | None:
        """When a job whose slot is to be caught up has to run anyway: nothing that is on time waits
        for what is late."""
        slot = after(
            row.body,
            due
            if row.body.spec.catch_up == "once"
            else max(due, self._awake - timedelta(milliseconds=1)),
        )
        return None if slot is None else begins(row, slot)


def full(claimed: Sequence[OccurrenceRow]) -> bool:
    """As many as may are being caught up."""
    return sum(one.cause == "caught_up" for one in claimed) >= AT_ONCE


def begins(row: JobRow, due: datetime) -> datetime:
    """When the run of a slot starts that is on time."""
    return due + timedelta(seconds=_jitter(row, due))


def _jitter(row: JobRow, due: datetime) -> float:
    """Seconds, the same for one slot on every instance and after a restart."""
    if not row.body.spec.jitter:
        return 0.0
    drawn = hashlib.sha256(f"{row.job} {due.timestamp()}".encode()).digest()
    return int.from_bytes(drawn[:4]) / 2**32 * row.body.spec.jitter
