"""From a due slot to the wake that runs it; and what came due while nobody was awake: which of it
still runs, which is passed over, and when each run may start, so that a start is no storm."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from channels.contract import Address, ChatId, TopicId
from channels.record import record
from ohmo.contracts.arrivals import Occurrence, Terms, Wake
from ohmo.contracts.cron import JobBody, JobRow, JobSpec, OccurrenceRow, Passed
from ohmo.cron.spec import digest, when_words
from ohmo.cron.times import after, period

PREFIX = "cron:"  # of the house's threads that nobody sits in front of
SILENT = "[SILENT]"
DEADLINE = 7_200.0  # seconds, of jobs that state none: as long as a missed run may be caught up
SPREAD = timedelta(minutes=10)  # over which runs are caught up
AT_ONCE = 2  # of them
NEVER = datetime.max.replace(tzinfo=UTC)
GRACE = timedelta(hours=2)
MOST_SLOTS = 1_000  # slots that are recorded one by one
CAUGHT_UP = 100  # slots that ``catch_up: all`` runs


def place_of(row: JobRow) -> Address:
    """The thread whose mind runs: its own, or the named one of the house. Nobody's job comes into
    another person's by its name: theirs bear the person, the house's do not."""
    name = _named(row.body.spec) or row.name
    theirs = "" if row.person == "owner" else f":{row.person}@{row.body.account}"
    return Address("house", "local", ChatId(f"{PREFIX}{name}{theirs}"))


def _named(spec: JobSpec) -> str | None:
    return spec.thread if spec.to is None else None


def destination(spec: JobSpec, place: Address | None) -> tuple[str | None, Address | None]:
    """Where the report goes: as written with its thread, and as it was understood."""
    if spec.to is None:
        return None, place
    if place is not None and spec.thread is not None:
        place = Address(
            channel=place.channel,
            account=place.account,
            chat=place.chat,
            topic=TopicId(spec.thread),
        )
    written = spec.to
    if spec.thread is not None and place is None:
        written = f"{spec.to}/{spec.thread}"
    return written, place


def wake_of(
    row: JobRow,
    due: datetime,
    *,
    by: Literal["schedule", "catch_up", "hand"],
    following: datetime | None,
    last: str,
    now: datetime,
) -> Wake:
    """``last``: what the job reported the last time, for "only if changed". ``now``: its deadline
    counts from here."""
    spec = row.body.spec
    fresh = _named(spec) is None
    return Wake(
        key=f"cron:{row.job}@{round(due.timestamp() * 1000)}",
        origin="cron",
        place=place_of(row),
        deliver=None,
        person=row.person,
        prompt=prompt_of(spec, due, last),
        at=now,
        occurrence=Occurrence(
            job=row.job, due=due, revision=row.revision, following=following, by=by, fresh=fresh
        ),
        terms=terms_of(row),
        account=row.body.account,
    )


def terms_of(row: JobRow) -> Terms:
    spec = row.body.spec
    approved = row.body.approved == digest(spec)
    to, place = destination(spec, row.body.place)
    deadline = spec.deadline or DEADLINE
    return Terms(
        name=spec.name,
        rules=spec.rules if approved else (),
        secrets=spec.secrets if approved else (),
        deadline=deadline,
        when=spec.when,
        to=to,
        place=place,
    )


def prompt_of(spec: JobSpec, due: datetime, last: str) -> str:
    """The job's own words, then when it runs and who is told."""
    about = (
        f"This is the scheduled run of the job {spec.name}, due {when_words(due, spec.tz)}. Nobody"
        " may be there to answer."
    )
    match spec.when:
        case "wrong":
            about += (
                " Whoever gets this wants to hear of trouble only: if nothing is wrong, answer"
                f" with exactly {SILENT} and nothing else; then nobody is told. Otherwise say what"
                " is wrong."
            )
        case "changed":
            about += (
                " Whoever gets this wants to hear of changes only: if nothing of substance changed"
                f" since the last report, answer with exactly {SILENT} and nothing else; then"
                " nobody is told."
            )
            if last:
                about += f" The last report began:\n\n{last}"
            else:
                about += " There is no last report yet."
        case "always":
            pass
    return f"{spec.prompt}\n\n({about})"


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
    """The slots from ``first`` on that lie before ``before``, the newest MOST_SLOTS of them; and
    the first that does not."""
    if body.spec.every is not None:  # how many there are is known without counting
        distance = timedelta(seconds=body.spec.every)
        skipped = max(0, (before - first) // distance - MOST_SLOTS)
        return _walk(body, first + skipped * distance, before)
    back = MOST_SLOTS * (period(body, first) or before - first)
    # A year of minutes is not walked through: only its end, further and further back until there
    # are enough.
    while before - back > first:
        late, following = _walk(body, after(body, before - back), before)
        if len(late) >= MOST_SLOTS:
            return late[-MOST_SLOTS:], following
        back *= 2
    late, following = _walk(body, first, before)
    return late[-MOST_SLOTS:], following


def _walk(
    body: JobBody, first: datetime | None, before: datetime
) -> tuple[list[datetime], datetime | None]:
    late: list[datetime] = []
    at = first
    while at is not None and at < before:
        late.append(at)
        at = after(body, at)
    return late, at


def judge(body: JobBody, first: datetime, awake: datetime, now: datetime) -> Verdict:
    """``first`` and what follows it came due before ``awake``, when the scheduler began to look;
    ``now``: how late they are."""
    late, following = slots(body, first, awake)
    policy = body.spec.catch_up
    if policy == "all":
        run = late[-CAUGHT_UP:]
        missed = Passed(
            due=first,
            state="missed",
            cause="too_many",
            reason=f"more than {CAUGHT_UP} runs were missed",
        )
        passed = _passed(body, missed, late[: -len(run)])
        return Verdict(passed, run[0], run[0])
    if policy == "none":
        missed = Passed(
            due=first, state="missed", cause="not_running", reason="ohmo was not running"
        )
        return Verdict(_passed(body, missed, late), None, following)
    newest = late[-1]
    allowed = grace(body, newest)
    if now - newest > allowed:
        behind = f"it came {_span(now - newest)} late, more than {_span(allowed)}"
        missed = Passed(
            due=first, state="missed", cause="too_late", reason=f"ohmo was not running; {behind}"
        )
        return Verdict(_passed(body, missed, late), None, following)
    return Verdict(_passed(body, coalesced(body, first, newest), late[:-1]), newest, newest)


def coalesced(body: JobBody, due: datetime, into: datetime) -> Passed:
    """A slot for which a later one runs."""
    run = when_words(into, body.spec.tz)
    return Passed(
        due=due, state="skipped", cause="coalesced", reason=f"coalesced into the run of {run}"
    )


def _passed(body: JobBody, like: Passed, late: list[datetime]) -> tuple[Passed, ...]:
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
        self._not_before: dict[tuple[str, datetime], datetime] = {}  # of a slot that is caught up
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
        runs: list[tuple[JobRow, datetime]] = []
        count = 0
        for row in rows:
            if not row.enabled or row.next_at is None:
                continue
            if not self.late(row, row.next_at):
                continue
            run = self.judged(row, now).run
            if run is None:
                continue
            runs.append((row, run))
            every = row.body.spec.catch_up == "all"
            count += len(slots(row.body, run, self._awake)[0]) if every else 1
        self._spacing = SPREAD / count if count > AT_ONCE else timedelta()
        self._next = now
        for row, run in runs:
            self.admit(row, run, now)

    def late(self, row: JobRow, due: datetime) -> bool:
        return begins(row, due) < self._awake

    def judged(self, row: JobRow, now: datetime) -> Verdict:
        """Of a job whose next slot is late."""
        assert row.next_at is not None
        awake = self._awake - timedelta(seconds=_jitter(row, row.next_at))
        dealt = self._dealt.get((row.job, row.revision))
        if dealt is not None and dealt > row.next_at:
            # The clock was back and is right again: what it went through twice was not missed.
            if dealt >= awake:
                return Verdict((), None, dealt)
            return judge(row.body, dealt, awake, now)
        awake = max(awake, row.next_at + timedelta(microseconds=1))
        return judge(row.body, row.next_at, awake, now)

    def admit(self, row: JobRow, due: datetime, now: datetime) -> datetime:
        """This slot runs, and may start then; asked again, the answer stays."""
        if not self.admitted(row, due):
            begin = max(now, self._next)
            self._not_before[row.job, due] = begin
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
        since = due
        if row.body.spec.catch_up != "once":
            since = max(due, self._awake - timedelta(milliseconds=1))
        slot = after(row.body, since)
        return None if slot is None else begins(row, slot)


def full(claimed: Sequence[OccurrenceRow]) -> bool:
    """As many as may are being caught up."""
    return sum(run.cause == "caught_up" for run in claimed) >= AT_ONCE


def begins(row: JobRow, due: datetime) -> datetime:
    """When the run of a slot starts that is on time."""
    return due + timedelta(seconds=_jitter(row, due))


def _jitter(row: JobRow, due: datetime) -> float:
    """Seconds, the same for one slot on every instance and after a restart."""
    jitter = row.body.spec.jitter
    if not jitter:
        return 0.0
    drawn = hashlib.sha256(f"{row.job} {due.timestamp()}".encode()).digest()
    share = int.from_bytes(drawn[:4]) / 2**32
    return share * jitter
