"""When a job is due: cron fields, a fixed distance, or one instant, and how local time and instants
belong together (gaps, overlaps and dates that a zone left out). Pure: the present is always handed
in."""

# croniter has no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from channels.record import record
from ohmo.contracts.cron import BadJob, JobBody

YEARS = 30  # a schedule that does not come within these never comes
_NICKNAMES = {  # crontab(5)
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
ORDER = "minute hour day month weekday, and seconds behind them if need be"
_CHANCE = re.compile(r"(^|[,/-])[hr]([(/,-]|$)")
_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_LOCALTIME = Path("/etc/localtime")


def zone_of(name: str) -> ZoneInfo:
    """An IANA zone. Raises ValueError with one line."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"{name!r} is no time zone; write an IANA name such as Europe/Berlin, or UTC"
        ) from error


def local_zone(environ: Mapping[str, str]) -> str:
    """What this machine calls its zone: ``$TZ``, then /etc/localtime; UTC when neither tells a
    name."""
    named = environ.get("TZ", "").strip().removeprefix(":")
    try:
        if named and not named.startswith("/"):
            return zone_of(named).key
        _, marker, rest = str(_LOCALTIME.resolve(strict=True)).partition("/zoneinfo/")
        return zone_of(rest).key if marker else "UTC"
    except (OSError, ValueError):
        return "UTC"


def offset(zone: ZoneInfo, at: datetime) -> timedelta:
    """How far local time is ahead of UTC at an instant."""
    return at.astimezone(zone).utcoffset() or timedelta()


def local(zone: ZoneInfo, at: datetime) -> datetime:
    """The wall clock at an instant, without its zone."""
    return at.astimezone(zone).replace(tzinfo=None)


def once_per_date(zone: ZoneInfo, wall: datetime) -> datetime | None:
    """The one instant at which a wall-clock time counts: the first of two in an overlap, the first
    valid instant after a gap; None on a date that the zone left out (Apia has no 2011-12-30)."""
    at = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if local(zone, at) == wall:
        return at
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if local(zone, first) != midnight:
        first = _after_gap(zone, midnight)
    return _after_gap(zone, wall) if local(zone, first).date() == wall.date() else None


def _after_gap(zone: ZoneInfo, wall: datetime) -> datetime:
    """PEP 495: inside a gap fold 0 reads the offset from before it, fold 1 the one from after it;
    the change lies between both readings."""
    early = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    late = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return _first(early, late, lambda at: local(zone, at) >= wall)


def change_after(zone: ZoneInfo, since: datetime, until: datetime) -> datetime | None:
    """The first instant in (since, until] at which the offset is not the one of ``since``; None: it
    stays."""
    before, low = offset(zone, since), since
    while low < until:
        high = min(low + _DAY, until)
        if offset(zone, high) != before:
            return _first(low, high, lambda at: offset(zone, at) != before)
        low = high
    return None


def _first(low: datetime, high: datetime, holds: Callable[[datetime], bool]) -> datetime:
    """The earliest whole second in (low, high] from which on ``holds`` does; it does at ``high``
    and not at ``low``."""
    low = low.replace(microsecond=0)  # zones change at whole seconds: it holds there neither
    while high - low > _SECOND:
        # Between one and two seconds there is one.
        half = (high - low) // (2 * _SECOND)
        middle = low + timedelta(seconds=max(1, half))
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


class Schedule(Protocol):
    """Slots in time."""

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than ``moment``, UTC; None: there is none."""
        ...


@record
class Once:
    """One instant, UTC."""

    due: datetime

    def after(self, moment: datetime) -> datetime | None:
        return self.due if self.due > moment else None


@record
class Every:
    """By elapsed time from ``anchor``, whatever the wall clock says; before it, too, when the clock
    was set back."""

    anchor: datetime
    distance: timedelta

    def after(self, moment: datetime) -> datetime | None:
        number = (moment - self.anchor) // self.distance + 1
        if number == 0:
            number = 1  # the anchor itself is no slot: there the job was made
        return self.anchor + number * self.distance


@record
class Fields:
    """Five or six cron fields in a zone.

    Hour and minute fixed: once for each local date (gap: the first valid instant after it; overlap:
    the first of both). ``*`` or ``/`` in hour or minute: every instant whose wall clock fits, that
    is by elapsed time; the rule of vixie cron."""

    expression: str
    zone: ZoneInfo

    def after(self, moment: datetime) -> datetime | None:
        minute, hour = self.expression.split()[:2]
        if any(mark in minute or mark in hour for mark in "*/"):
            return self._elapsing(moment)
        for wall in self._walls(local(self.zone, moment)):
            at = once_per_date(self.zone, wall)
            if at is not None and at > moment:
                return at
        return None

    def _elapsing(self, moment: datetime) -> datetime | None:
        """From one change of the offset to the next; between them wall clock and instants run
        alike."""
        since, inclusive = moment, False
        while True:
            ahead = offset(self.zone, since)
            start = since.replace(tzinfo=None) + ahead
            wall = next(self._walls(start - _MICROSECOND if inclusive else start), None)
            if wall is None:
                return None
            at = (wall - ahead).replace(tzinfo=UTC)
            change = change_after(self.zone, since, at)
            if change is None:
                return at
            since, inclusive = change, True

    def _walls(self, start: datetime) -> Iterator[datetime]:
        """Wall-clock times after ``start``, as if every day had 24 hours."""
        from croniter import CroniterBadDateError, croniter

        matches = croniter(
            self.expression,
            start.replace(tzinfo=UTC),
            ret_type=datetime,
            max_years_between_matches=YEARS,
        )
        try:
            while True:
                yield matches.get_next().replace(tzinfo=None)
        except (CroniterBadDateError, OverflowError):
            return


def fields_of(text: str, zone: ZoneInfo) -> Fields:
    """Raises BadJob with one line: what is wrong and what to write."""
    return Fields(_expression(text), zone)


@lru_cache(512)  # a look at all jobs reads each of them several times
def _expression(text: str) -> str:
    text = " ".join(text.split())
    lower = text.lower()
    if lower.startswith("@"):
        if lower not in _NICKNAMES:
            raise BadJob(
                f"{text} is not known; write cron fields, or one of {' '.join(_NICKNAMES)}",
                "schedule",
            )
        lower = _NICKNAMES[lower]
    parts = lower.split(" ")
    if len(parts) not in (5, 6):
        raise BadJob(
            f"{text[:80]!r} has {len(parts)} fields; write {ORDER}, for example 0 9 * * 1-5",
            "schedule",
        )
    if any(_CHANCE.search(part) for part in parts):
        raise BadJob(
            f"{text!r}: H and R draw times by chance; write the times, and jitter for a"
            " random delay",
            "schedule",
        )
    # No daemon without such a job needs it.
    from croniter import CroniterBadCronError, CroniterError, croniter

    try:
        croniter.expand(lower)
    except (CroniterBadCronError, CroniterError, ValueError, KeyError, IndexError) as error:
        first_line = str(error).partition("\n")[0].strip()
        reason = first_line[:120] or type(error).__name__
        raise BadJob(
            f"{text[:80]!r} is no cron expression ({reason}); write {ORDER}, for"
            " example 0 9 * * 1-5",
            "schedule",
        ) from error
    return lower


def schedule_of(body: JobBody) -> Schedule:
    """Raises BadJob."""
    spec = body.spec
    if spec.every is not None:
        return Every(body.anchor, timedelta(seconds=spec.every))
    if spec.at is not None:
        return Once(instant_of(spec.at))
    try:
        return fields_of(cast("Any", spec.schedule), zone_of(spec.tz))
    except ValueError as error:
        raise BadJob(str(error), "tz") from error


def unreadable(body: JobBody) -> str:
    """Why a job that was made once means no time any more (the zones of a machine change); "" for
    one that does."""
    try:
        schedule_of(body)
        zone_of(body.spec.tz)
    except (BadJob, ValueError) as error:
        return str(error)
    return ""


def instant_of(text: str) -> datetime:
    """ISO 8601 with its offset, as jobs keep it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def after(body: JobBody, moment: datetime) -> datetime | None:
    """The first slot of a job later than ``moment``; None also when it would lie behind its
    expiry."""
    due = schedule_of(body).after(moment)
    expires = body.spec.expires
    if due is None or expires is None or due <= instant_of(expires):
        return due
    return None


def period(body: JobBody, due: datetime) -> timedelta | None:
    """The time from a slot to the one that follows it; None for the last one."""
    following = schedule_of(body).after(due)
    return None if following is None else following - due


_CLOCK = re.compile(
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?::(?P<second>\d{2}))?\s*(?P<half>am|pm)?"
)
_IN = re.compile(
    r"in\s+(?P<number>\d{1,6})\s*(?P<unit>s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)"
)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def moment_of(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """``2026-12-01 09:00``, ISO 8601, ``09:00``, ``tomorrow 9:00``, ``in 20 minutes``; without an
    offset in ``zone``. Raises BadJob."""
    line = " ".join(text.split())
    relative = _IN.fullmatch(line.lower())
    if relative is not None:
        seconds = int(relative["number"]) * _UNITS[relative["unit"][0]]
        return (now + timedelta(seconds=seconds)).replace(microsecond=0)
    wall = _wall(line, local(zone, now))
    try:
        if wall is not None and wall.tzinfo is not None:
            return wall.astimezone(UTC)
        at = once_per_date(zone, wall) if wall is not None else None
    except OverflowError:  # the calendar of UTC ends before that
        at = None
    if at is None:
        raise BadJob(
            f"{text!r} is no time; write 2026-12-01 09:00, 09:00, tomorrow 9:00, in 20 minutes, or"
            " ISO 8601 with an offset"
        )
    if _CLOCK.fullmatch(line.lower()) is not None and at <= now and wall is not None:
        at = once_per_date(zone, wall + timedelta(days=1)) or at
    return at


def end_of(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """As ``moment_of``, and of a date alone (``2026-12-31``) the last moment of that day. Raises
    BadJob."""
    try:
        following = datetime.combine(date.fromisoformat(text) + timedelta(days=1), time.min)
    except (ValueError, OverflowError):
        try:
            return moment_of(text, zone, now)
        except BadJob as error:
            raise BadJob(f"{error}, or a day such as 2026-12-31") from error
    over = once_per_date(zone, following) or following.replace(tzinfo=UTC)
    return over - timedelta(milliseconds=1)


def _wall(text: str, today: datetime) -> datetime | None:
    word, _, rest = text.lower().partition(" ")
    clock = _clock(rest.removeprefix("at "))
    if word in ("today", "tomorrow") and clock is not None:
        day = today if word == "today" else today + timedelta(days=1)
        return _on(day, clock)
    alone = _clock(text.lower())
    if alone is not None:
        return _on(today, alone)
    try:
        if clock is not None:
            day = datetime.combine(date.fromisoformat(word), datetime.min.time())
            return _on(day, clock)
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if re.fullmatch(r"[\dW-]+", text) else moment  # a date alone names no time


def _clock(text: str) -> tuple[int, int, int] | None:
    clock = _CLOCK.fullmatch(text.strip())
    if clock is None:
        return None
    if clock["minute"] is None and clock["half"] is None:
        return None
    hour = int(clock["hour"])
    minute = int(clock["minute"] or 0)
    second = int(clock["second"] or 0)
    if clock["half"] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if clock["half"] == "pm" else 0)
    if hour >= 24 or minute >= 60 or second >= 60:
        return None
    return hour, minute, second


def _on(day: datetime, clock: tuple[int, int, int]) -> datetime:
    return day.replace(hour=clock[0], minute=clock[1], second=clock[2], microsecond=0)
