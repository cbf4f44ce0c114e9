"""Between local time and instants: gaps, overlaps and dates that a zone left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)
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
        _, found, rest = str(_LOCALTIME.resolve(strict=True)).partition("/zoneinfo/")
        return zone_of(rest).key if found else "UTC"
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
    if not _exists(zone, wall):
        return None
    return _after_gap(zone, wall)


def _after_gap(zone: ZoneInfo, wall: datetime) -> datetime:
    """PEP 495: inside a gap fold 0 reads the offset from before it, fold 1 the one from after it;
    the change lies between both readings."""
    early = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    late = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return _first(early, late, lambda at: local(zone, at) >= wall)


def _exists(zone: ZoneInfo, wall: datetime) -> bool:
    """Whether any instant has this local date."""
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight.replace(tzinfo=zone, fold=0).astimezone(UTC)
    first = at if local(zone, at) == midnight else _after_gap(zone, midnight)
    return local(zone, first).date() == wall.date()


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
        middle = low + timedelta(
            seconds=max(1, (high - low) // (2 * _SECOND))
        )  # between one and two seconds there is one
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
