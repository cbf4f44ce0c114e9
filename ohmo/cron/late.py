"""What becomes of slots that came due while nobody was awake. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from channels.record import record
from ohmo.contracts.cron import JobBody, Passed
from ohmo.cron.times import after, period

GRACE = timedelta(hours=2)
MOST = 1_000  # slots that are recorded one by one
CAUGHT_UP = 100  # slots that ``catch_up: all`` runs


@record
class Verdict:
    """``passed`` are recorded, ``run`` is caught up (None: nothing is), and the job goes on at
    ``next_at``: ``run``, or the first slot that is not late."""

    passed: tuple[Passed, ...]
    run: datetime | None
    next_at: datetime | None


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
    while (
        before - back > first
    ):  # a year of minutes is not walked through: only its end, further and further back until there are enough
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
        return Verdict(_each(missed, late[: -len(run)]), run[0], run[0])
    if policy == "none":
        missed = Passed(first, "missed", "not_running", "ohmo was not running")
        return Verdict(_each(missed, late), None, following)
    newest = late[-1]
    allowed = grace(body, newest)
    if now - newest > allowed:
        behind = f"it came {_span(now - newest)} late, more than {_span(allowed)}"
        missed = Passed(first, "missed", "too_late", f"ohmo was not running; {behind}")
        return Verdict(_each(missed, late), None, following)
    return Verdict(_each(coalesced(first, newest), late[:-1]), newest, newest)


def coalesced(due: datetime, into: datetime) -> Passed:
    """A slot for which a later one runs."""
    return Passed(due, "skipped", "coalesced", f"coalesced into the run of {told(into)}")


def told(due: datetime) -> str:
    """A slot, in the history of its job."""
    return f"{due:%Y-%m-%d %H:%M:%S} UTC"


def _each(like: Passed, late: list[datetime]) -> tuple[Passed, ...]:
    """``like`` for each of these slots; the first one stands for all before them that are too many
    to be written."""
    passed = [replace(like, due=due) for due in late]
    if passed and passed[0].due != like.due:
        more = f"{like.reason}; and every slot from here to {told(passed[0].due)}"
        passed.insert(0, replace(like, reason=more))
    return tuple(passed)


def _span(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    if minutes < 1:
        return f"{span.total_seconds():.1f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
